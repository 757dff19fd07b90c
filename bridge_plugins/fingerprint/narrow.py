"""Taking a parameter that is held wider than its source as what the source was, losslessly or said so."""

from __future__ import annotations

import torch
from torch import Tensor

from bridge_plugins.fingerprint.formats import Format, Kind

_FLOATS = (Kind.IEEE, Kind.FN, Kind.FNUZ)


def check_convertible(held: Format, taken: Format) -> None:
    """Raises TypeError unless both are float formats with a sign (or the same format)."""
    if held != taken and not (held.kind in _FLOATS and taken.kind in _FLOATS):
        raise TypeError(
            f"as_dtype takes floats as floats; a {held.name} tensor can't be taken as {taken.name}"
        )


def narrow(values: Tensor, held: Format, taken: Format) -> tuple[Tensor, int]:
    """`values` in the format `taken`, and how many elements it can't hold exactly.

    Exact is judged by the bits that come back, so minus zero stays minus zero. bfloat16 is the upper half of
    float32: those bits are taken as they are, which keeps every NaN's payload too. Else a NaN becomes
    `taken`'s canonical one, since devices differ in which payload they keep, and counts as held exactly.
    """
    if (held.name, taken.name) == ("float32", "bfloat16"):
        bits = values.view(torch.int32)
        return (bits >> 16).to(torch.int16).view(torch.bfloat16), int(((bits & 0xFFFF) != 0).sum())
    nans = values.isnan()
    converted = values.to(taken.dtype)
    canonical = torch.tensor(float("nan"), dtype=taken.dtype).view(taken.integer).to(values.device)
    bits = torch.where(nans, canonical, converted.view(taken.integer))
    back = converted.to(held.dtype)
    same = (back.view(held.integer) == values.view(held.integer)) | (nans & back.isnan())
    return bits.view(taken.dtype), int((~same).sum())
