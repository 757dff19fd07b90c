"""A bridge with one adapter of one SequentialMLP expert, that notices who asks for the adapters of other ranks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

BASE = "decoder.layers.0.mlp.experts.local_experts.0.linear_fc2"
HF = "model.layers.0.mlp.experts.0.down_proj.weight"


def _bridge_class() -> Any:
    from megatron.bridge.models.conversion.peft_bridge import MegatronPeftBridge

    return MegatronPeftBridge


class Watched:
    """Has the real bridge's methods, but for those below; needs no process group and no model."""

    def __init__(self) -> None:
        self.asked_others = False

    def __getattr__(self, name: str) -> Any:
        return getattr(_bridge_class(), name).__get__(self)

    def _gather_expert_adapter_weight(self, weight: Any) -> list[Any]:
        self.asked_others = True
        return [weight, weight]

    def build_adapter_conversion_tasks(self, *_: Any, **__: Any) -> dict[str, list[Any]]:
        return {BASE: [SimpleNamespace(global_base_prefix=BASE, adapter_key=None)]}

    def materialize_adapter_weights(self, _: Any) -> list[Any]:
        return [self.adapter()]

    def mapping_registry(self) -> Any:
        return SimpleNamespace(megatron_to_hf_lookup=lambda _: SimpleNamespace(hf_param=HF))

    def _with_progress_tracking(self, tasks: Any, *_: Any) -> Any:
        return tasks

    def adapter(self) -> Any:
        """An adapter of rank 1 on a weight of 2 × 2."""
        import torch
        from megatron.bridge.models.conversion.peft_bridge import AdapterWeight

        sides = [SimpleNamespace(weight=torch.zeros(shape)) for shape in ((1, 2), (2, 1))]
        return AdapterWeight(BASE, None, 1, 1, *sides)

    def tensor(self) -> Any:
        """Such a weight."""
        import torch

        return torch.zeros(2, 2)
