"""Faults to break a run with, each at its one true place, to see that it is caught and named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.patching import Patcher, Replace, wrapping

if TYPE_CHECKING:
    from torch import Tensor

LAYER = 1  # the layer that is hit (0-based)
EXPERTS = (0, 1)  # the experts that are exchanged

#: Name → where it breaks the run.
FAULTS = {
    "swap-experts": "the name mapping gives two experts of a layer each other's number",
    "wrong-layer-offset": "the name mapping adds the layer offset of another pipeline stage",
    "gate-up-swapped": "the merge hands out a layer's gate as up and its up as gate",
    "drop-layer": "the stream loses a layer",
    "stale-engine": "the engine says yes to a bucket and does not load it, from version 2 on",
}

_MODEL_BRIDGE = "megatron.bridge.models.conversion.model_bridge"
_MAPPINGS = "megatron.bridge.models.conversion.param_mapping"


def needs(fault: str, *, stages: int, experts: int) -> str:
    """What `fault` needs and this run has not got; empty if it can be switched in."""
    if fault == "swap-experts" and not experts:
        return "FAULT=swap-experts needs a model with experts: MODEL=moe"
    if fault == "wrong-layer-offset" and stages == 1:
        return "FAULT=wrong-layer-offset needs a pipeline: PP=2"
    return ""


def break_bridge(fault: str, trainer: Any, layers: int) -> None:
    """Switch in a fault of the export. The import is done by now, and was right."""
    patches = {
        "swap-experts": Replace(
            "fault.swap-experts",
            f"{_MODEL_BRIDGE}:_megatron_local_name_to_global",
            "nothing",
            wrapping(_swap_experts),
        ),
        "wrong-layer-offset": Replace(
            "fault.wrong-layer-offset",
            f"{_MODEL_BRIDGE}:_megatron_local_name_to_global",
            "nothing",
            wrapping(lambda *call: _wrong_layer(layers, *call)),
        ),
        "gate-up-swapped": Replace(
            "fault.gate-up-swapped",
            f"{_MAPPINGS}:GatedMLPMapping.megatron_to_hf",
            "nothing",
            wrapping(_swap_gate_up),
        ),
    }
    if fault in patches:
        Patcher().add(patches[fault], "examples/bridge_mode")
        # The bridge keeps the names of its first export.
        vars(trainer.bridge._model_bridge).pop("_cached_param_names", None)


def break_stream(fault: str, stream: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """Switch in a fault of the stream."""
    for item in stream:
        if fault != "drop-layer" or f".layers.{LAYER}." not in item[0]:
            yield item


class StaleEngine(Engine):
    """Says yes to the first bucket of every update but the first, and does not load it."""

    updates = 0
    buckets = 0

    def begin_weight_update(self) -> bool:
        self.updates, self.buckets = self.updates + 1, 0
        return super().begin_weight_update()

    def update_weights_from_tensor(self, payloads: list[str], load_format: str) -> None:
        self.buckets += 1
        if self.updates < 2 or self.buckets > 1:
            super().update_weights_from_tensor(payloads, load_format)


def _swap_experts(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    name: str = wrapped(*args, **kwargs)
    one, other = EXPERTS
    swapped = {str(one): str(other), str(other): str(one)}
    if f".layers.{LAYER}." not in name or ".experts." not in name:
        return name
    return re.sub(r"(\.local_experts\.|\.weight)(\d+)", lambda m: m[1] + swapped.get(m[2], m[2]), name)


def _wrong_layer(layers: int, wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    name: str = wrapped(*args, **kwargs)
    # Off by half the model, as if the first stage had the offset of the middle one and the other way round.
    return re.sub(
        r"\.layers\.(\d+)", lambda m: f".layers.{(int(m[1]) + layers // 2) % layers}", name, count=1
    )


def _swap_gate_up(wrapped: Any, _: Any, args: Any, kwargs: Any) -> dict[str, Tensor]:
    merged: dict[str, Tensor] = wrapped(*args, **kwargs)
    other = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
    return {
        re.sub("gate_proj|up_proj", lambda m: other[m[0]], name)
        if f".layers.{LAYER}." in name
        else name: tensor
        for name, tensor in merged.items()
    }
