"""Which rules judge: all of them, or those that are named."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import cast

from bridge_plugins.audit.rules.coverage import Coverage
from bridge_plugins.audit.rules.delta import Delta
from bridge_plugins.audit.rules.dtypes import Dtypes
from bridge_plugins.audit.rules.hash import Hash
from bridge_plugins.audit.rules.manifest import Manifest
from bridge_plugins.audit.rules.pairs import Pairs
from bridge_plugins.audit.rules.rule import Rule
from bridge_plugins.audit.rules.set import NameSet
from bridge_plugins.audit.rules.shapes import Shapes
from bridge_plugins.audit.rules.stats import Stats
from bridge_plugins.audit.rules.unique import Unique
from bridge_plugins.audit.rules.version import Version
from bridge_plugins.audit.rules.wire import Wire
from bridge_plugins.errors import UsageError
from bridge_plugins.plugins import manager

logger = logging.getLogger(__name__)

#: Names before bits: a wrong name makes every digest agree on the wrong tensor.
BUILT_IN: tuple[Rule, ...] = (
    NameSet(), Unique(), Coverage(), Shapes(), Dtypes(), Hash(), Delta(), Stats(), Pairs(), Manifest(), Wire(), Version(),
)  # fmt: skip

#: Rules that judge the last stage present, and so wait for the wire where there is one.
LAST_STAGE = frozenset({"SET", "SHAPE", "DTYPE", "PAIR", "WIRE"})


def choose(chosen: Sequence[Rule | str] | None = None) -> tuple[Rule, ...]:
    """The rules to judge by, in the order of `BUILT_IN`, then those of plugins.

    Args:
        chosen: rules, or codes of rules; None for those of ``BRIDGE_AUDIT_RULES``, or all if that is not set.

    Raises:
        UsageError: for a code that no rule has.
    """
    if chosen is None:
        named = os.environ.get("BRIDGE_AUDIT_RULES", "")
        chosen = [word.strip() for word in named.split(",") if word.strip()] or None
    known = {rule.code: rule for rule in BUILT_IN}
    for implementation in manager().hook.audit_rules.get_hookimpls():
        try:
            rules = cast("Iterable[Rule]", implementation.function())
            known.update({rule.code: rule for rule in rules})
        except Exception:  # one plugin's fault must not stop the run, nor the other rules
            logger.exception("plugin %s gave no rules; the others judge", implementation.plugin_name)
    if chosen is None:
        return tuple(known.values())
    if unknown := [rule for rule in chosen if isinstance(rule, str) and rule not in known]:
        raise UsageError(f"there is no rule {unknown[0]}; known are {', '.join(known)}")
    return tuple(known[rule] if isinstance(rule, str) else rule for rule in chosen)
