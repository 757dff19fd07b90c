"""LoRA adapters of SequentialMLP experts at EP>1: each rank holds those of its own experts, and exports need all.

The other half of fault A: with right names an adapter is found for its own expert, but what leaves the trainer still
has the wrong ones or too few. Merged exports are mended by `merge`, exports of the adapters alone by `stream`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.lora_experts import merge, stream
from bridge_plugins.patching import Patch


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    return [merge.PATCH, stream.PATCH]
