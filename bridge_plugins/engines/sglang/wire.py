"""A flattened bucket as SGLang's servers read it, written without importing SGLang.

The format is that of ``sglang.srt.weight_sync.tensor_bucket`` in a pickle of
``sglang.srt.utils.MultiprocessingSerializer``: a dict of one uint8 tensor, passed by shared memory or CUDA IPC, and
the metadata of the tensors inside it.
"""

from __future__ import annotations

import base64
import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing.reductions  # registers with ForkingPickler how tensors travel between processes
from torch import Tensor

from bridge_plugins.audit.handover import bucket_handed_over

LOAD_FORMAT = "flattened_bucket"

# Every tensor starts at a multiple of this: a slice of bytes is viewed in the tensor's dtype on the other side.
_ALIGNMENT = 64


@dataclass
class FlattenedTensorMetadata:
    """The fields of SGLang's class of that name; it travels under that class's address."""

    name: str
    shape: torch.Size
    dtype: torch.dtype
    start_idx: int
    end_idx: int
    numel: int


# The last protocol that spells a class in plain text, without lengths or frames around it.
_PROTOCOL = 3
_OUR_CLASS = f"{FlattenedTensorMetadata.__module__}\n{FlattenedTensorMetadata.__qualname__}\n".encode()
_SGLANGS_CLASS = b"sglang.srt.weight_sync.tensor_bucket\nFlattenedTensorMetadata\n"


class Bucket:
    """Named tensors in one buffer of bytes. The buffer outlives the tensors that were put in."""

    def __init__(self, named_tensors: list[tuple[str, Tensor]]) -> None:
        self.metadata: list[FlattenedTensorMetadata] = []
        end = 0
        for name, tensor in named_tensors:
            start = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = start + tensor.nbytes
            self.metadata.append(
                FlattenedTensorMetadata(name, tensor.shape, tensor.dtype, start, end, tensor.nbytes)
            )
        self.bytes = torch.zeros(end, dtype=torch.uint8, device=named_tensors[0][1].device)
        held = self.tensors()
        # In a few launches, however many tensors there are.
        torch._foreach_copy_([target for _, target in held], [tensor for _, tensor in named_tensors])
        bucket_handed_over(
            self.bytes, lambda: ((m.name, (m.start_idx, m.shape, m.dtype)) for m in self.metadata)
        )

    def tensors(self) -> list[tuple[str, Tensor]]:
        """What lies in the buffer, by name: views of its bytes."""
        return [
            (meta.name, self.bytes[meta.start_idx : meta.end_idx].view(meta.dtype).view(meta.shape))
            for meta in self.metadata
        ]

    def payload(self) -> str:
        """The bucket for one rank of an engine. Each rank needs one of its own: a handle is read once."""
        buffer = io.BytesIO()
        with _shared_by_name(self.bytes.device):
            ForkingPickler(buffer, _PROTOCOL).dump(
                {"flattened_tensor": self.bytes, "metadata": self.metadata}
            )
        # The class is spelled once, before any name that could look like it.
        return base64.b64encode(buffer.getvalue().replace(_OUR_CLASS, _SGLANGS_CLASS, 1)).decode()


@contextlib.contextmanager
def _shared_by_name(device: torch.device) -> Iterator[None]:
    """Make CPU tensors travel by name in shared memory: passing file descriptors kills SGLang's scheduler."""
    before = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    if device.type == "cpu":
        torch.multiprocessing.set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.multiprocessing.set_sharing_strategy(before)  # type: ignore[no-untyped-call]
