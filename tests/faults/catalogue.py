"""The catalogue of public faults, as data."""

from __future__ import annotations

from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("catalogue.toml")


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. `verdict` is "yes", "readback", "partly", "no" or "none"; `reason` says why no test injects it."""

    row: int
    source: str
    symptom: str
    verdict: str
    reason: str = ""


class _Catalogue(msgspec.Struct, forbid_unknown_fields=True):
    fault: list[Fault]


def catalogue() -> dict[int, Fault]:
    """Every row by its number."""
    faults = msgspec.toml.decode(FILE.read_bytes(), type=_Catalogue).fault
    return {fault.row: fault for fault in faults}
