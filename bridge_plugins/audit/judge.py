"""Rules over a summary: every one is asked, none can stop the others, and none can stop the run."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.rules import Context, Rule
from bridge_plugins.audit.summary import Summary
from bridge_plugins.plugins import manager

logger = logging.getLogger(__name__)


def judge(rules: Iterable[Rule], summary: Summary, context: Context) -> list[Finding]:
    """What `rules` find. A rule that fails is a finding of its own."""
    findings = [
        Finding(
            "AUDIT",
            name,
            f"could not be fingerprinted ({why})",
            "its bits are not judged",
            (name,),
            severity="warning",
        )
        for name, why in context.unread.items()
    ]
    for rule in rules:
        try:
            findings += rule.check(summary, context)
        except Exception as error:  # the other ranks wait for this one: a rule's fault must not hang them
            logger.exception("rule %s failed", rule.code)
            what = f"the rule itself failed ({type(error).__name__}: {error})"
            findings.append(Finding(rule.code, "model", what, "nothing is known of what it would have seen"))
    return findings


def tell_sinks(summary: Summary) -> None:
    """Show a finished summary to every sink. What fails there is logged."""
    for implementation in manager().hook.audit_finished.get_hookimpls():
        call = {"summary": summary, "findings": list(summary.findings)}
        try:
            implementation.function(*(call[name] for name in implementation.argnames))
        except Exception:  # one sink must not starve the others, nor stop the run
            logger.exception("sink %s of the audit failed; the run goes on", implementation.plugin_name)
