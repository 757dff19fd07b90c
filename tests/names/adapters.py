"""Models with LoRA adapters that spell whose they are: each is filled from its true layer, owner and key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bridge_plugins.topology import Topology
from tests.stacks.trainer import Trainer, build

RANK = 4  #: of the adapters; alpha is the same, so that a merge adds B·A as it is
LAYERS, EXPERTS = 4, 8

#: What a LoRA target covers, as HF calls it.
COVERS = {
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc1_gate": ("gate_proj",),
    "linear_fc1_up": ("up_proj",),
    "linear_fc2": ("down_proj",),
    "linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_q": ("q_proj",),
    "linear_k": ("k_proj",),
    "linear_v": ("v_proj",),
    "linear_proj": ("o_proj",),
}
#: CanonicalLoRA has an adapter for each of these; added to the mark, so that no two are alike.
KEYS = {"q_proj": 0.25, "k_proj": 0.5, "v_proj": 0.75, "gate_proj": 0.25, "up_proj": 0.5}


def mark(layer: int, owner: int, key: float = 0.0) -> float:
    """The number that fills an adapter; bf16 holds it exactly."""
    return 1.0 + layer * EXPERTS + owner + key


def filled(
    checkpoint: str,
    sizes: Topology,
    lora: str,
    modules: list[str],
    *,
    linear_in: float | None = None,
    options: dict[str, Any] | None = None,
    **provider: Any,
) -> Trainer:
    """This rank's model with adapters of the bridge's PEFT class `lora` on `modules`.

    The owner of an adapter is its expert; for one that all grouped experts of a rank share, the rank's place.
    Both sides are filled with the owner's mark, or the first with `linear_in` throughout.
    """
    import torch
    import torch.distributed as dist
    from megatron.bridge.peft import canonical_lora
    from megatron.bridge.peft import lora as plain_lora

    from bridge_plugins.names.param_name import ParamName
    from tests.names import truth

    made = {"LoRA": plain_lora.LoRA, "CanonicalLoRA": canonical_lora.CanonicalLoRA}[lora]
    peft = made(target_modules=modules, dim=RANK, alpha=RANK, **(options or {}))
    trainer = build(checkpoint, sizes, peft=peft, **provider)
    rank = dist.get_rank()
    ep = sizes.coordinates(rank).ep
    for chunk, model in enumerate(trainer.model):
        for local, parameter in model.named_parameters():
            if ".adapter." not in local:
                continue
            own = trainer.bridge._model_bridge._unwrap_name(local)
            name = ParamName.parse(truth.global_name(own, sizes, rank, chunk, layers=LAYERS, experts=EXPERTS))
            owner = name.expert if name.expert is not None else ep if "experts" in name.parts else 0
            key = next((KEYS[hf] for hf in KEYS if f"adapter_{hf.split('_')[0]}" in name.parts), 0.0)
            with torch.no_grad():
                if linear_in is not None and "linear_in" in name.parts:
                    parameter.fill_(linear_in)
                elif parameter.dim() == 3:  # one for each of this rank's grouped experts
                    for index, one in enumerate(parameter):
                        one.fill_(mark(name.layer or 0, ep * len(parameter) + index, key))
                else:
                    parameter.fill_(mark(name.layer or 0, owner, key))
    return trainer


def wanted(trainer: Trainer, hf_name: str, modules: list[str], experts_per_adapter: int) -> float | None:
    """The mark of the adapter that `hf_name`'s weight has; None if it has none."""
    if not hf_name.startswith("model.layers."):
        return None
    kinds = [kind for module in modules for kind in COVERS[module] if f".{kind}." in hf_name]
    if not kinds:
        return None
    layer, expert = int(hf_name.split(".")[2]), expert_of(hf_name)
    split = any(f".adapter_{key}." in name for name in _names(trainer, expert) for key in ("gate", "q"))
    return mark(layer, (expert or 0) // experts_per_adapter, KEYS.get(kinds[0], 0.0) if split else 0.0)


def _names(trainer: Trainer, expert: int | None) -> Iterator[str]:
    """Of the adapters of experts, or of all else: CanonicalLoRA gives grouped experts one for gate and up."""
    for model in trainer.model:
        yield from (
            name for name, _ in model.named_parameters() if (".experts." in name) == (expert is not None)
        )


def expert_of(hf_name: str) -> int | None:
    """The expert that an HF name is of."""
    parts = hf_name.split(".")
    return int(parts[parts.index("experts") + 1]) if "experts" in parts else None
