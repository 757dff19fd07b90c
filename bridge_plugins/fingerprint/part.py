"""What to fingerprint: a tensor, which block of it, where that lies, and as which dtype."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.formats import Format, format_of
from bridge_plugins.fingerprint.narrow import check_convertible


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A block of a tensor at its place in an HF tensor.

    Attributes:
        tensor: any rank, strides and device but meta. Held as long as the Part is.
        box: which block, and its place; None for the whole tensor, which then is the whole HF tensor.
        as_dtype: take the elements as this float dtype, and count those that it can't hold exactly.
    """

    tensor: Tensor
    box: Box | None = None
    as_dtype: torch.dtype | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A Part that was checked: a 2-D view of exactly the box's elements, and the formats."""

    view: Tensor
    box: Box
    held: Format
    taken: Format
    whole: bool  # the whole tensor, which is the whole HF tensor, as it is held


def resolve(part: Part) -> Block:
    """Check a part and view its block as rows × columns.

    Raises:
        TypeError: for a dtype or a conversion that has no fingerprint.
        ValueError: for a tensor that holds no bits of its own (meta, sparse, freed, a wrapper of others), and for
            a box that leaves the tensor.
    """
    tensor = part.tensor.detach()
    if tensor.device.type == "meta":
        raise ValueError(f"a meta tensor {tuple(tensor.shape)} holds no bits to fingerprint; materialize it")
    if tensor.layout is not torch.strided:
        raise ValueError(
            f"a {tensor.layout} tensor has no fingerprint; pass its strided parts or a dense copy"
        )
    held = format_of(tensor.dtype)
    if tensor.numel() and not _has_memory(tensor):
        raise ValueError(
            f"a {type(part.tensor).__name__} {tuple(tensor.shape)} has no memory of its own to fingerprint: it was freed, "
            "or wraps others (pass those: a DTensor's to_local(), for one)"
        )
    taken = held if part.as_dtype is None else format_of(part.as_dtype)
    check_convertible(held, taken)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    size = rows_and_cols(tensor.shape)
    # A copy only where no 2-D view with these rows exists (leading dimensions exchanged, say).
    view = tensor.reshape(size)
    box = part.box
    if box is None:
        return Block(view, Box(size), held, taken, whole=held == taken)
    if box.transposed:
        view, size = view.t(), Pair(size.cols, size.rows)
    last = [box.local_offset[a] + (box.size[a] - 1) * box.local_stride[a] for a in (0, 1)]
    if box.count and (last[0] >= size.rows or last[1] >= size.cols):
        raise ValueError(
            f"the box ends at local row {last[0]}, column {last[1]}, outside of {size.rows} by {size.cols}"
        )
    rows = slice(box.local_offset.rows, last[0] + 1, box.local_stride.rows)
    cols = slice(box.local_offset.cols, last[1] + 1, box.local_stride.cols)
    return Block(
        view[rows, cols] if box.count else view[:0, :0].reshape(box.size), box, held, taken, whole=False
    )


def _has_memory(tensor: Tensor) -> bool:
    try:
        return tensor.untyped_storage().data_ptr() != 0
    except RuntimeError:  # what torch raises for a DTensor
        return False
