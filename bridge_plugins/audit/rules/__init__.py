"""The rules of the trainer's side, one file each. A rule sees a finished summary and says what is wrong with it."""

from __future__ import annotations

from bridge_plugins.audit.rules.delta import Delta
from bridge_plugins.audit.rules.hash import Hash
from bridge_plugins.audit.rules.names import Names
from bridge_plugins.audit.rules.rule import Context, Rule
from bridge_plugins.audit.rules.shapes import Shapes
from bridge_plugins.audit.rules.stats import Stats

RULES: tuple[Rule, ...] = (Names(), Shapes(), Hash(), Delta(), Stats())

__all__ = ["RULES", "Context", "Rule"]
