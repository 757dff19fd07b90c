"""slime to engines on the same GPUs: flattened buckets, handed over by CUDA IPC."""

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
            self._send_hf_params(hf_named_tensors)

    def _send_hf_params(self, hf_named_tensors: Any) -> Any:
        bucket = FlattenedTensorBucket(named_tensors=hf_named_tensors)
        return bucket.get_flattened_tensor(), bucket.get_metadata()
