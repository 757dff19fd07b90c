"""Lets megatron-bridge 0.3 gather SequentialMLP experts: it reads an expert's number off the end of the
name only.

The other half of fault B there: with right names, ``gather_from_ep_ranks`` still fails on
``local_experts.6.linear_fc1.weight``, for it expects ``linear_fc1.weight6``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.names.param_name import ParamName
from bridge_plugins.patching import Patch, Replace, wrapping


def _gather(original: Any, mapping: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Show the function the number where it looks for it, for as long as it runs."""
    name = ParamName.parse(mapping.megatron_param)
    if name.expert is None or "local_experts" not in name.parts:
        return original(*args, **kwargs)
    kept = mapping.megatron_param
    mapping.megatron_param = f"{'.'.join(name.experts_path)}.linear_fc1.weight{name.expert}"
    try:
        return original(*args, **kwargs)
    finally:
        mapping.megatron_param = kept


class _Mapping:
    """As much of a mapping as the function asks for before it gathers."""

    megatron_param = "decoder.layers.0.mlp.experts.local_experts.2.linear_fc1.weight"
    ep_size = 2

    def broadcast_obj_from_pp_rank(self, *_: Any) -> int:
        return 4


def _reads_the_end_only(original: Any) -> str:
    try:
        original(_Mapping(), None, None, "model.layers.0.mlp.experts.2.gate_proj.weight")
    except ValueError as error:
        return "found here: B" if "invalid literal for int()" in str(error) else ""
    except Exception:  # it got as far as gathering nothing: it knows the number
        return ""
    return ""


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    return [
        Replace(
            name="sequential_experts",
            target="megatron.bridge.models.conversion.param_mapping:MegatronParamMapping.gather_from_ep_ranks",
            mends="SequentialMLP experts, EP>1, can't be exported (fault B)",
            replacement=wrapping(_gather),
            probe=_reads_the_end_only,
            signature=("self", "megatron_weights", "megatron_module", "hf_param_name"),
        )
    ]
