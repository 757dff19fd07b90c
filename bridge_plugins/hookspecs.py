"""Every hook of the project, with its contract. Read this first when you write a plugin.

A plugin is a module (or any object) with functions marked ``@hookimpl`` that carry the names below. It is
found through the entry-point group ``bridge_plugins``, through ``BRIDGE_PLUGINS=module,module``, or
registered in code with ``bridge_plugins.plugins.manager().register(plugin)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from bridge_plugins.audit.finding import Finding
    from bridge_plugins.audit.rules.rule import Rule
    from bridge_plugins.audit.summary import Summary
    from bridge_plugins.audit.verdict import Verdict
    from bridge_plugins.engines.sglang.comparison import Comparison
    from bridge_plugins.names.context import NameContext
    from bridge_plugins.names.param_name import ParamName
    from bridge_plugins.parity.report import ParityReport
    from bridge_plugins.parity.scores import Scores
    from bridge_plugins.patching import Patch

PROJECT = "bridge_plugins"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def bridge_patches() -> Iterable[Patch]:  # type: ignore[empty-body]
    """Give patches to apply to Megatron Bridge, Megatron Core or torch in this process.

    Asked once by ``load()``. A patch whose target module isn't imported yet is applied when it is.
    """


@hookspec(firstresult=True)
def global_layer_number(name: ParamName, context: NameContext) -> int | None:
    """Give the 0-based number, in its whole layer stack, of the layer that holds the local parameter `name`.

    Asked for every parameter name with or without a layer, whatever pipeline and expert parallel sizes are,
    and whatever `global_expert_number` says. None leaves it to the next plugin; the built-in one
    (`bridge_plugins.names.layers`) is asked last. Must not issue a collective: ranks are asked different
    names.
    """


@hookspec(firstresult=True)
def global_expert_number(name: ParamName, context: NameContext) -> int | None:
    """Give the 0-based number, in its whole layer, of the expert that the local parameter `name` belongs to.

    The same contract as `global_layer_number`; the built-in one is `bridge_plugins.names.experts`.
    """


@hookspec
def audit_rules() -> Iterable[Rule]:  # type: ignore[empty-body]
    """Give rules that every audit judges by, beside the built-in ones.

    Asked when an audit is made. A rule has a `code`, by which ``BRIDGE_AUDIT_RULES`` chooses it, and a method
    ``check(summary, context)`` that gives findings; see `bridge_plugins.audit.rules.rule`. It is called on the
    first rank alone and must not issue a collective.
    """


@hookspec
def before_push(summary: Summary, findings: list[Finding]) -> None:
    """Raise to stop a version that was audited, in the one line that its users shall read.

    Asked by ``WeightAudit.finish`` on the first rank alone, after the rules; every rank then raises `VetoError`
    with what was raised here. Must not issue a collective, nor change either argument.
    """


@hookspec
def audit_finished(summary: Summary, findings: list[Finding]) -> None:
    """See the summary and the findings of one weight version, once per version, on the rank that holds them.

    A sink: it may write, log or send, and must not change either. An exception is logged, not raised.
    """


@hookspec
def after_push(verdict: Verdict, comparisons: Sequence[Comparison]) -> None:
    """See what became of a version that was pushed: the verdict, and what each engine serves that could be asked.

    Called by ``WeightSync`` on the first rank, after labels were given. An exception is logged, not raised.
    """


@hookspec
def after_parity(report: ParityReport, scores: Scores) -> None:
    """See how far each engine's log probabilities are from the trainer's, and the trainer's own of those tokens.

    Called by ``ParityProbe`` on the first rank. An exception is logged, not raised.
    """
