"""slime by broadcast: the tensors' memory is sent as it lies."""
# ruff: noqa: ARG001 (the signatures are theirs)

from __future__ import annotations

from typing import Any

SENT: list[Any] = []


def launch_weights_from_distributed(
    group_name: str,
    group: Any,
    weight_version: int,
    rollout_engines: Any,
    converted_named_tensors: Any,
    load_format: str | None = None,
) -> tuple[list[Any], list[Any]]:
    SENT.extend(tensor.data for _, tensor in converted_named_tensors)
    return [], []


def update_weights_from_distributed(
    group_name: str,
    group: Any,
    weight_version: int,
    rollout_engines: Any,
    converted_named_tensors: Any,
    load_format: str | None = None,
) -> list[Any]:
    return launch_weights_from_distributed(
        group_name, group, weight_version, rollout_engines, converted_named_tensors, load_format
    )[0]


class UpdateWeightFromDistributed:
    def __init__(self, chunks: Any) -> None:
        self.chunks = chunks
        self.weight_version = 0

    def update_weights(self) -> None:
        self.weight_version += 1
        for converted_named_tensors in self.chunks():
            update_weights_from_distributed(
                "slime-pp_0", None, self.weight_version, [], converted_named_tensors
            )
            converted_named_tensors.clear()
