"""Where a block of a local tensor lies in its Hugging Face (HF) tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Pair(NamedTuple):
    """One number for the rows and one for the columns."""

    rows: int
    cols: int


ORIGIN: Final = Pair(0, 0)
DENSE: Final = Pair(1, 1)


@dataclass(frozen=True, slots=True)
class Box:
    """A strided block of rows × columns, with its place in the HF tensor and in the local one.

    Both tensors are seen as rows × last dimension (a 1-D tensor is one row, a 0-d one is 1 × 1). Element
    (i, j) of the block, `0 <= i < size.rows`, `0 <= j < size.cols`, lies

    - in the HF tensor at row `offset.rows + i * stride.rows`, column `offset.cols + j * stride.cols`;
    - in the local tensor at row `local_offset.rows + i * local_stride.rows`, and columns alike. If
      `transposed`, the local tensor holds rows and columns exchanged, and its offsets and strides count in
      its transpose.

    All numbers count elements. Raises ValueError for a negative offset or size, or a stride below 1.
    """

    size: Pair
    offset: Pair = ORIGIN
    stride: Pair = DENSE
    local_offset: Pair = ORIGIN
    local_stride: Pair = DENSE
    transposed: bool = False

    def __post_init__(self) -> None:
        for field in ("size", "offset", "stride", "local_offset", "local_stride"):
            pair = getattr(self, field)
            if type(pair) is not Pair:  # a plain tuple, say
                object.__setattr__(self, field, Pair(*pair))
        if min(self.size + self.offset + self.local_offset) < 0:
            raise ValueError(f"a box has a negative size or offset: {self}")
        if min(self.stride + self.local_stride) < 1:
            raise ValueError(f"a box needs strides of 1 or more: {self}")

    @property
    def count(self) -> int:
        """Elements in the block."""
        return self.size.rows * self.size.cols

    @property
    def place(self) -> Box:
        """The HF side alone."""
        if self.local_offset == ORIGIN and self.local_stride == DENSE and not self.transposed:
            return self
        return Box(self.size, self.offset, self.stride)

    def end(self, axis: int) -> int:
        """One past the last HF row (axis 0) or column (axis 1) of the block; its offset if empty."""
        return self.offset[axis] + ((self.size[axis] - 1) * self.stride[axis] + 1 if self.size[axis] else 0)
