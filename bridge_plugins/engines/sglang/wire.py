"""A flattened bucket as SGLang's servers read it, written without importing SGLang.

The format is that of ``sglang.srt.weight_sync.tensor_bucket`` in a pickle of
``sglang.srt.utils.MultiprocessingSerializer``: a dict of one uint8 tensor, passed by shared memory or CUDA IPC, and
the metadata of the tensors inside it.
"""

from __future__ import annotations

import base64
import contextlib
import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar

import torch
import torch.multiprocessing.reductions  # registers with ForkingPickler how tensors travel between processes
from torch import Tensor

from bridge_plugins.audit.handover import handed_over

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
        for (_, target), (_, tensor) in zip(self.tensors(), named_tensors, strict=True):
            target.copy_(tensor)
        handed_over(self.tensors)

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
            _Pickler(buffer).dump({"flattened_tensor": self.bytes, "metadata": self.metadata})
        return base64.b64encode(buffer.getvalue()).decode()


class _Pickler(pickle._Pickler):
    """Writes `FlattenedTensorMetadata` as an object of SGLang's class, named and not imported."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)
        self.dispatch_table = ForkingPickler(io.BytesIO()).dispatch_table

    def _save_metadata(self, metadata: FlattenedTensorMetadata) -> None:
        self.write(pickle.GLOBAL + b"sglang.srt.weight_sync.tensor_bucket\nFlattenedTensorMetadata\n")  # type: ignore[attr-defined]
        self.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ)  # type: ignore[attr-defined]
        self.save(vars(metadata))  # type: ignore[attr-defined]
        self.write(pickle.BUILD)  # type: ignore[attr-defined]

    dispatch[FlattenedTensorMetadata] = _save_metadata


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
