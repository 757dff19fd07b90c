"""The numbers of a model that a topology must divide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bridge_plugins.errors import UsageError


@dataclass(frozen=True)
class ModelSizes:
    """The numbers of a model that a topology must divide, as its HF config gives them. ``experts`` is 0 if dense."""

    layers: int
    heads: int
    kv_heads: int
    hidden: int
    ffn: int
    experts: int = 0
    expert_ffn: int = 0

    @classmethod
    def from_hf_config(cls, config: Any) -> ModelSizes:
        """Read a ``transformers`` config. Raises `UsageError` naming the field that it lacks."""
        config = getattr(config, "text_config", None) or config

        def first(*names: str, default: int | None = None) -> int:
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, list | tuple):  # one for each kind of expert: what divides all of them
                    return math.gcd(*value)
                if value is not None:
                    return int(value)
            if default is None:
                raise UsageError(
                    f"the model's config ({type(config).__name__}) has none of: {', '.join(names)}"
                )
            return default

        heads = first("num_attention_heads")
        # Without a dense layer it is the shared experts that TP cuts.
        ffn = first("intermediate_size", "shared_expert_intermediate_size", "moe_intermediate_size")
        return cls(
            layers=first("num_hidden_layers"),
            heads=heads,
            kv_heads=first("num_key_value_heads", default=heads),
            hidden=first("hidden_size"),
            ffn=ffn,
            experts=first("num_experts", "n_routed_experts", "num_local_experts", default=0),
            expert_ffn=first("moe_intermediate_size", default=ffn),
        )
