"""LoRA adapters in PEFT's format: what merging them adds to each base weight."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridge_plugins.audit.sources.hf_folder import HfFolder
from bridge_plugins.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

_NAME = re.compile(r"^(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<half>[AB])(?:\.\w+)?\.weight$")


class _Config(msgspec.Struct):
    lora_alpha: float
    use_rslora: bool = False
    alpha_pattern: dict[str, float] = {}


@dataclass(frozen=True)
class Adapters:
    """Adapters on disk. `halves` has, by the base weight's HF name, the names of A and B."""

    folder: HfFolder
    config: _Config
    halves: dict[str, dict[str, str]]

    @classmethod
    def read(cls, path: Path) -> Adapters:
        """Read a PEFT folder. Raises `UsageError` if it is none, or sets alpha module by module."""
        file = path / "adapter_config.json"
        try:
            config = msgspec.json.decode(file.read_bytes(), type=_Config)
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{path} is no folder of LoRA adapters in PEFT's format: {file.name}: {error}"
            ) from error
        if config.alpha_pattern:
            raise UsageError(
                f"{file} sets alpha_pattern, which is not supported: one lora_alpha for all modules is"
            )
        folder = HfFolder.read(path)
        halves: dict[str, dict[str, str]] = {}
        for name in folder.tensors:
            if match := _NAME.match(name):
                halves.setdefault(f"{match['module']}.weight", {})[match["half"]] = name
        whole = {name: both for name, both in halves.items() if both.keys() == {"A", "B"}}
        if not whole:
            raise UsageError(f"{path} has no pair of lora_A and lora_B")
        return cls(folder, config, whole)

    def delta(self, name: str) -> Tensor | None:
        """What merging adds to the weight of this HF name, float32; None if it has no adapter."""
        if name not in self.halves:
            return None
        first, second = (self.folder.tensor(self.halves[name][half]).float() for half in "AB")
        rank = first.shape[0]
        scale = self.config.lora_alpha / (rank**0.5 if self.config.use_rslora else rank)
        return scale * (second @ first)
