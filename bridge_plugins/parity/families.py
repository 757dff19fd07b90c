"""What kind of parameter a Megatron name is of, and where its layer stands."""

from __future__ import annotations

from typing import NamedTuple

from bridge_plugins.names.param_name import ParamName

#: The first of these that is a part of a name (for a norm and an adapter: is in a part) says the family.
_FAMILIES = {
    "router": "router",
    "shared_experts": "shared experts",
    "experts": "experts",
    "mlp": "dense mlp",
    "self_attention": "attention",
    "cross_attention": "attention",
    "mixer": "mixer",
    "embedding": "embeddings",
    "output_layer": "output layer",
}

OUTSIDE = "outside layers"


class Group(NamedTuple):
    """Parameters that are counted together: a layer, as in ``layer 3``, and a family, as in ``attention``."""

    layer: str
    family: str

    @property
    def sort_key(self) -> tuple[bool, str, int, str]:
        """What lies outside of layers first, then stack by stack, layer by layer."""
        stack, _, number = self.layer.rpartition(" ")
        inside = self.layer != OUTSIDE
        return (inside, stack if inside else "", int(number) if inside else 0, self.family)


def group_of(name: ParamName) -> Group:
    """Of a parameter's name in the whole model. The decoder's layers are told by number, others with their stack."""
    if name.layer_at is None:
        return Group(OUTSIDE, _family(name.parts))
    stack = ".".join(name.parts[: name.layer_at - 1]).removeprefix("language_model.")
    layer = f"layer {name.layer}" if stack == "decoder" else f"{stack} layer {name.layer}"
    return Group(layer, _family(name.parts[name.layer_at + 1 :]))


def _family(parts: tuple[str, ...]) -> str:
    if any(part == "adapter" or part.startswith("lora_") for part in parts):
        return "adapters"
    if any("norm" in part for part in parts):
        return "norms"
    return next((family for part, family in _FAMILIES.items() if part in parts), "other")
