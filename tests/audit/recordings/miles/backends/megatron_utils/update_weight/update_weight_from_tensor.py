"""miles to engines on the same GPUs: flattened buckets, after it has cut off padding and taken `.base_layer.` out."""

from __future__ import annotations

from typing import Any

from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket


class UpdateWeightFromTensor:
    def __init__(self, chunks: Any) -> None:
        self.chunks = chunks
        self.weight_version = 0

    def update_weights(self) -> None:
        self.weight_version += 1
        for hf_named_tensors in self.chunks():
            FlattenedTensorBucket(named_tensors=hf_named_tensors)
