"""Puts the two hooks in the place of Megatron Bridge's local-to-global name function."""

from __future__ import annotations

from typing import Any

from bridge_plugins.patching import Replace

TARGET = "megatron.bridge.models.conversion.model_bridge:_megatron_local_name_to_global"


def _hooks(_: Any) -> Any:
    from bridge_plugins.names.mapping import local_to_global

    return local_to_global


def _faults_or_hooks(original: Any) -> str:
    """What makes the patch needed: the faults of what is installed, or hooks of other plugins."""
    from bridge_plugins.names.faults import faults_of
    from bridge_plugins.plugins import manager

    reasons = []
    if found := faults_of(original):
        reasons.append(f"found here: {', '.join(fault.letter for fault in found)}")
    own = {"layer_numbers", "expert_numbers"}
    hook = manager().hook
    others = {
        implementation.plugin_name
        for caller in (hook.global_layer_number, hook.global_expert_number)
        for implementation in caller.get_hookimpls()
    } - own
    if others:
        reasons.append(f"hooks of {', '.join(sorted(others))}")
    return "; ".join(reasons)


PATCH = Replace(
    name="names",
    target=TARGET,
    mends="layer and expert numbers of a local parameter name (faults A to J, docs/names.md)",
    replacement=_hooks,
    probe=_faults_or_hooks,
    signature=("models", "config", "param_name", "vp_stage"),
)
