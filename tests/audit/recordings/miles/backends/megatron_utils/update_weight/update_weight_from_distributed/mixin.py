"""miles's update by broadcast, as its classes share it."""

from __future__ import annotations

from typing import Any


class DistBucketedWeightUpdateMixin:
    chunks: Any
    weight_version: int

    def update_weights(self) -> None:
        self.weight_version += 1
        for hf_named_tensors in self.chunks():
            self._update_weight_implementation(hf_named_tensors)

    def _update_weight_implementation(self, converted_named_tensors: Any) -> None:
        raise NotImplementedError
