"""The models of one of SGLang's processes: the target, and drafts beside it that guess its next tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass
class Models:
    """What was loaded in this process so far."""

    target: nn.Module | None = None
    drafts: int = 0

    def loaded(self, runner: Any) -> None:
        """Take note of a ``ModelRunner``'s model. SGLang loads the target first."""
        if getattr(runner, "is_draft_worker", False):
            self.drafts += 1
        else:
            self.target, self.drafts = runner.model, 0


MODELS = Models()
