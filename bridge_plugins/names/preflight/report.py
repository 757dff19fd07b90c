"""What a preflight finds, as values that are shown or written as JSON."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    Attributes:
        kind: ``COLLISION`` (several ranks claim one name), ``GAP`` (a tensor of the checkpoint that no rank holds),
            ``EXTRA`` (a tensor that the checkpoint doesn't have), ``UNMAPPED`` (a parameter that the bridge knows no
            HF name for), ``SHAPE``, or ``NAMING`` (a name that can't be made global).
        name: a Megatron or HF name.
        where: the coordinates and the ranks that cause it.
        detail: what is the matter.
    """

    kind: str
    name: str
    where: str
    detail: str


class Stage(msgspec.Struct, frozen=True):
    """What one chunk of one pipeline stage holds: decoder layers by number, and everything else by name."""

    stage: int
    chunk: int
    layers: list[int]
    others: list[str]


class ExpertRank(msgspec.Struct, frozen=True):
    """The expert numbers that one expert-parallel rank holds, in any layer."""

    ep: int
    experts: list[int]


class Report(msgspec.Struct, frozen=True):
    """A preflight's outcome. ``consistent`` means a bijection: every rank's names onto the checkpoint's tensors."""

    model: str
    family: str
    topology: str
    bridge: str
    patched: bool
    parameters: int
    hf_tensors: int
    expected_from: str
    stages: list[Stage]
    experts: list[ExpertRank]
    findings: list[Finding]
    notes: list[str]

    @property
    def consistent(self) -> bool:
        """Nothing is wrong."""
        return not self.findings
