"""The rules of the trainer's side, one file each. A rule sees a finished summary and says what is wrong with it."""

from __future__ import annotations

from bridge_plugins.audit.rules.choice import BUILT_IN, LAST_STAGE, choose
from bridge_plugins.audit.rules.rule import Context, Rule, Witness

__all__ = ["BUILT_IN", "LAST_STAGE", "Context", "Rule", "Witness", "choose"]
