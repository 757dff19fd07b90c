"""Which bits many tensors hold, in 16 bytes each: enough to see that something was written, and that all came back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from bridge_plugins.fingerprint import Box, Part, fingerprint_many
from bridge_plugins.fingerprint.formats import supported
from bridge_plugins.fingerprint.keys import MASK64
from bridge_plugins.layout.reachable import Held

Print = tuple[object, ...]


def prints(held: Iterable[Held]) -> dict[str, Print]:
    """Path → (shape, dtype, lanes) of what each holds now."""
    listed = list(held)
    taken = fingerprint_many((_readable(one.tensor) for one in listed), statistics=False)
    return {
        one.path: (tuple(one.tensor.shape), one.tensor.dtype, fingerprint.lanes)
        for one, fingerprint in zip(listed, taken, strict=True)
    }


def print_of_rest(tensor: Tensor, boxes: Sequence[Box]) -> tuple[int, int]:
    """Lanes of what `tensor` holds outside of `boxes`, which are boxes of the tensor in itself.

    A fingerprint is a sum: what lies in the boxes is taken off again.
    """
    parts = [Part(tensor), *(Part(tensor, box) for box in boxes)]
    whole, *inside = (part.lanes for part in fingerprint_many(parts, statistics=False))
    low = whole[0] - sum(lanes[0] for lanes in inside)
    high = whole[1] - sum(lanes[1] for lanes in inside)
    return low & MASK64, high & MASK64


def _readable(tensor: Tensor) -> Tensor:
    """The tensor itself, or its bytes where its dtype has no fingerprint (complex, say)."""
    if tensor.dtype in {known.dtype for known in supported()}:
        return tensor.detach()
    return tensor.detach().contiguous().view(torch.uint8)
