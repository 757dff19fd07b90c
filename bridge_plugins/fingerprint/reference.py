"""The definition of the fingerprint, in plain torch. Slow, on any device; every fast path agrees bit for bit.

A tensor T is seen as rows × last dimension, its bytes as little-endian 32-bit words along the last dimension.
u(r, c) are the bits of element (r, c) as an unsigned integer. For each lane l of two:

    F_l(T) = Σ_r Σ_c  R_l(r) · C_l(c) · u(r, c)   mod 2^64

R_l(r) is the key of row r. C_l(c) is the key of the word that holds column c, times 2^(the element's bit
offset in that word). A 64-bit element is two words, low first, each with a key of its own.

torch has no unsigned 64-bit arithmetic; int64 wraps the same way, so all sums here are two's complement.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box
from bridge_plugins.fingerprint.coverage import Coverage
from bridge_plugins.fingerprint.formats import Format, Kind
from bridge_plugins.fingerprint.keys import COL, GAMMA, LANES, MASK64, MIX_1, MIX_2, ROW, SEEDS, signed
from bridge_plugins.fingerprint.narrow import narrow
from bridge_plugins.fingerprint.value import Fingerprint, Statistics

_CHUNK = 1 << 20  # elements at a time: bounds the memory for 64-bit intermediates


def fingerprint_reference(
    block: Tensor, box: Box, held: Format, taken: Format, statistics: bool
) -> Fingerprint:
    """The fingerprint of `block`, a rows × columns view of what `box` says, at its place in the HF tensor.

    Args:
        block: 2-D, `box.size`, any strides, any device but meta.
        box: its place; the local side is not looked at.
        held: the format of `block`.
        taken: the format whose bits are taken; where it isn't `held`, elements are converted first.
        statistics: whether to compute them too.
    """
    lanes = torch.zeros(LANES, dtype=torch.int64, device=block.device)
    stats = Statistics() if statistics else None
    lossy = 0
    step = max(1, _CHUNK // max(1, box.size.cols))
    for start in range(0, box.size.rows, step):
        chunk = block[start : start + step]
        if taken != held:
            chunk, changed = narrow(chunk, held, taken)
            lossy += changed
        i = torch.arange(start, start + len(chunk), device=block.device)
        j = torch.arange(box.size.cols, device=block.device)
        rows = box.offset.rows + box.stride.rows * i
        cols = box.offset.cols + box.stride.cols * j
        for lane in range(LANES):
            weights = row_keys(lane, rows)
            lanes[lane] += ((weighted_bits(lane, chunk, cols, taken)).sum(1) * weights).sum()
        if stats is not None:
            stats += statistics_of(chunk, taken)
    low, high = (int(lane) & MASK64 for lane in lanes)
    return Fingerprint((low, high), taken.name, Coverage((box.place,)), stats, lossy)


def weighted_bits(lane: int, chunk: Tensor, cols: Tensor, taken: Format) -> Tensor:
    """C(c) · u(r, c) for each element of a chunk whose columns lie at `cols` in the whole row."""
    bits = chunk.view(taken.integer).to(torch.int64)
    if taken.bits == 64:
        low, high = bits & 0xFFFFFFFF, (bits >> 32) & 0xFFFFFFFF
        return low * word_keys(lane, 2 * cols) + high * word_keys(lane, 2 * cols + 1)
    bits = bits & ((1 << taken.bits) - 1)
    per_word = 32 // taken.bits
    word = torch.div(cols, per_word, rounding_mode="floor")
    return bits * (word_keys(lane, word) << (cols % per_word) * taken.bits)


def row_keys(lane: int, rows: Tensor) -> Tensor:
    """R(r): keys of rows, as int64."""
    return _keys(SEEDS[lane][ROW], rows)


def word_keys(lane: int, words: Tensor) -> Tensor:
    """Keys of the 32-bit words of a row, as int64."""
    return _keys(SEEDS[lane][COL], words)


def _keys(seed: int, index: Tensor) -> Tensor:
    z = index + signed(seed) + signed(GAMMA)
    z = (z ^ _shift_right(z, 30)) * signed(MIX_1)
    z = (z ^ _shift_right(z, 27)) * signed(MIX_2)
    z = z ^ _shift_right(z, 31)
    return _shift_right(z, 32) | 1


def _shift_right(x: Tensor, by: int) -> Tensor:
    """Logical shift: `>>` of int64 would bring in copies of the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def statistics_of(chunk: Tensor, taken: Format) -> Statistics:
    """Statistics of the elements of a chunk, in float64."""
    if taken.kind is Kind.UNSIGNED:
        bits = chunk.view(taken.integer).to(torch.int64)
        if taken.bits < 64:
            values = (bits & ((1 << taken.bits) - 1)).to(torch.float64)
        else:
            values = _shift_right(bits, 32).to(torch.float64) * 2.0**32 + (bits & 0xFFFFFFFF).to(
                torch.float64
            )
    else:
        values = chunk.to(torch.float64)
    nans, infs = values.isnan(), values.isinf()
    finite = torch.where(nans | infs, 0.0, values)
    return Statistics(
        absmax=float(finite.abs().max()) if finite.numel() else 0.0,
        sum_of_squares=float(finite.square().sum()),
        zeros=int((values == 0).sum()),
        nans=int(nans.sum()),
        infs=int(infs.sum()),
    )
