"""miles by broadcast: views are made contiguous first."""
# ruff: noqa: ARG001 (the signatures are theirs)

from __future__ import annotations

from typing import Any

SENT: list[Any] = []


def update_weights_from_distributed(
    group_name: str, group: Any, weight_version: int, rollout_engines: Any, converted_named_tensors: Any
) -> list[Any]:
    SENT.extend(
        param.data if param.data.is_contiguous() else param.data.contiguous()
        for _, param in converted_named_tensors
    )
    return []
