"""What a rule found: one tensor or one cause, where, and what to do next."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A finding of one rule. `where` names the layer, the expert or the parameter; `names` the HF tensors in question."""

    rule: str
    where: str
    what: str
    next_step: str = ""
    names: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        ranks = f" (ranks {', '.join(map(str, self.ranks))})" if self.ranks else ""
        step = f"; {self.next_step}" if self.next_step else ""
        return f"{self.rule} {self.where}{ranks}: {self.what}{step}"
