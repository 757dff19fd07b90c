"""What happened, in one sentence, and which tensors that explains."""

from __future__ import annotations

import msgspec


class Cause(msgspec.Struct, frozen=True):
    """One cause: `where` names layers and experts, `what` says what happened to the tensors `names`."""

    where: str
    what: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
