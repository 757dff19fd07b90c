"""LoRA: adapters that the export merges into the base, or that the engine applies itself beside a base without them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from bridge_plugins.audit.names import plain
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.wire import LOAD_FORMAT, Bucket
from bridge_plugins.errors import UsageError
from examples.bridge_mode.model import Trainer

RANK, ALPHA = 8, 16
ATTENTION = ["linear_qkv", "linear_proj"]
EXPERTS = ["linear_fc1", "linear_fc2"]

#: What the server must be started with to apply adapters itself.
ENGINE_ARGUMENTS = (
    "--enable-lora", "--max-lora-rank", str(RANK), "--lora-target-modules", "q_proj", "k_proj", "v_proj", "o_proj",
)  # fmt: skip


def refuse(how: str) -> None:
    """Raise `UsageError` unless `how` is a way to serve adapters, or empty: none are trained."""
    if how not in ("", "merged", "unmerged"):
        raise UsageError(f"--lora {how} is no way to serve adapters; try merged or unmerged")


def lora(how: str) -> Any:
    """Megatron Bridge's LoRA: on the attention, and where they are merged on every expert as well."""
    from megatron.bridge.peft.lora import LoRA

    # SGLang applies adapters of experts with some of its runners only.
    targets = ATTENTION + (EXPERTS if how == "merged" else [])
    return LoRA(target_modules=targets, dim=RANK, alpha=ALPHA)


def add(how: str) -> Callable[[list[Any]], list[Any]] | None:
    """What adds the adapters to the bare chunks of a model; None if there are none."""
    if not how:
        return None

    def adapt(chunks: list[Any]) -> list[Any]:
        lora(how)(chunks, training=True)
        return chunks

    return adapt


def plain_names(stream: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The names that an engine's loader knows: beside adapters the bridge yields ``q_proj.base_layer.weight``."""
    for name, tensor in stream:
        yield plain(name), tensor


class ServedAdapter:
    """The trainer's adapters as the engine applies them, version by version. Each is kept as a folder in PEFT's format.

    Args:
        folder: where the adapters are written, one folder a version.
    """

    def __init__(self, trainer: Trainer, engine: Engine, folder: Path) -> None:
        self._trainer = trainer
        self._engine = engine
        self._folder = folder
        self.name = ""  #: what a request asks for; empty before the first version

    def replace(self, version: str) -> None:
        """Let the engine take the adapters as they are now, and forget those of the version before."""
        name = f"adapter-{version}"
        folder = self._folder / name
        self._trainer.bridge.save_hf_adapter(
            self._trainer.chunks, folder, peft_config=lora("unmerged"), show_progress=False
        )
        config = json.loads((folder / "adapter_config.json").read_text())
        bucket = Bucket(list(load_file(folder / "adapter_model.safetensors").items()))
        self._engine.load_adapter(
            name, config, [bucket.payload() for _ in range(self._engine.ranks)], LOAD_FORMAT
        )
        if self.name:
            self._engine.unload_adapter(self.name)
        self.name = name
