"""What a rule found: one tensor or one cause, where, and what to do next."""

from __future__ import annotations

from typing import Literal

import msgspec

from bridge_plugins.audit.place import place_of

Severity = Literal["error", "warning", "info"]


class Finding(msgspec.Struct, frozen=True):
    """A finding of one rule.

    Attributes:
        where: the layer, the expert or the parameter, for a person.
        names: the HF tensors in question.
        ranks: the ranks in question; empty means that the finding is of no rank in particular.
        severity: "error" stops a push in strict mode; "info" never makes a verdict "findings".
        expected, found: the two sides, where a rule compares.
        layer, expert, parameter: filled in from `names` where all of them agree: ``layer 3``, its expert's number,
            the one HF name.
    """

    rule: str
    where: str
    what: str
    next_step: str = ""
    names: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    severity: Severity = "error"
    expected: str = ""
    found: str = ""
    layer: str = ""
    expert: int | None = None
    parameter: str = ""

    def __post_init__(self) -> None:
        places = [place_of(name) for name in self.names]
        layers = {place.layer_name for place in places if place.layer_number is not None}
        experts = {place.expert_number for place in places}
        if len(layers) == 1:
            msgspec.structs.force_setattr(self, "layer", layers.pop())
            if len(experts) == 1:
                msgspec.structs.force_setattr(self, "expert", experts.pop())
        if len(self.names) == 1:
            msgspec.structs.force_setattr(self, "parameter", self.names[0])

    @property
    def counts(self) -> bool:
        """Whether it makes a verdict "findings": an error or a warning does."""
        return self.severity != "info"

    def __str__(self) -> str:
        ranks = f" (ranks {', '.join(map(str, self.ranks))})" if self.ranks else ""
        step = f"; {self.next_step}" if self.next_step else ""
        return f"{self.rule} {self.where}{ranks}: {self.what}{step}"
