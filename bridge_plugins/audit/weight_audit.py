"""The audit of a stream: every item is handed on as it came, and a record of it is kept."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch.distributed as dist

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules import RULES, Context, Rule
from bridge_plugins.audit.summary import Header, Summary, package_versions, summarize
from bridge_plugins.fingerprint import FingerprintStream
from bridge_plugins.plugins import manager, patcher

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=tuple[Any, ...])


@dataclass
class WeightAudit:
    """Audits one export after another of one model, on every rank that exports.

    Wrap the stream of each version, hand it to whoever consumes it, and call `finish`::

        audit = WeightAudit(model="Qwen3-30B-A3B", expected=Expected.from_folder(folder))
        engine.push(audit.watch(bridge.export_hf_weights(model)))
        summary, findings = audit.finish(version, group)

    Keeps one record per tensor of this version and of the one before, and no reference to a tensor.
    """

    model: str
    topology: str = ""
    expected: Expected | None = None
    rules: tuple[Rule, ...] = RULES
    _seen: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list, init=False)
    _fingerprints: FingerprintStream = field(default_factory=FingerprintStream, init=False)
    _previous: Summary | None = field(default=None, init=False)

    def watch(self, stream: Iterable[Item]) -> Iterator[Item]:
        """Yield the very items of `stream`, at once. An item is a tuple that begins with (HF name, tensor)."""
        self._seen.clear()
        self._fingerprints = FingerprintStream()
        for item in stream:
            name, tensor = item[:2]
            # On a GPU this is one launch on the current stream: nothing is waited for until `finish`.
            self._fingerprints.add(tensor)
            self._seen.append((name, tuple(tensor.shape), tensor.nbytes))
            del tensor
            yield item
            del item  # or this tensor would live on while the next one is made

    def finish(
        self, version: str, group: Any = None, *, trained: bool = False
    ) -> tuple[Summary, list[Finding]]:
        """Roll up and judge the version that was watched last. Every rank of `group` must call it.

        Args:
            version: the weight version.
            group: a CPU process group of all ranks that exported; None for the default group, if there is one.
            trained: whether an optimizer step was made since the version before.

        Returns:
            This rank's summary, and the findings, which are the same on every rank.
        """
        distributed = dist.is_available() and dist.is_initialized()
        rank = dist.get_rank(group) if distributed else 0
        header = Header(
            model=self.model,
            topology=self.topology,
            version=version,
            rank=rank,
            expected=self.expected.origin if self.expected else "",
            patches={name: status.state.value for name, status in patcher().status.items()},
            packages=package_versions(),
        )
        taken = zip(self._seen, self._fingerprints.read(), strict=True)
        summary = summarize(header, (Record.of(*seen, fingerprint) for seen, fingerprint in taken))
        repeated = tuple(
            name for name, times in Counter(name for name, _, _ in self._seen).items() if times > 1
        )
        context = Context(self.expected, self._previous, trained, repeated)
        findings = self._judge(summary, context) if rank == 0 else []
        if distributed:
            findings = _agree(summary, findings, group)
        self._previous = summary
        _tell_sinks(summary, findings)
        return summary, findings

    def _judge(self, summary: Summary, context: Context) -> list[Finding]:
        findings: list[Finding] = []
        for rule in self.rules:
            try:
                findings += rule.check(summary, context)
            except Exception as error:  # the other ranks wait for this one: a rule's fault must not hang them
                logger.exception("rule %s failed", rule.code)
                what = f"the rule itself failed ({type(error).__name__}: {error})"
                findings.append(
                    Finding(rule.code, "model", what, "nothing is known of what it would have seen")
                )
        return findings


def _agree(summary: Summary, findings: list[Finding], group: Any) -> list[Finding]:
    """The findings of the first rank, and one more if the ranks did not see the same weights; on every rank."""
    seen: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(seen, (summary.digest, len(summary.records)), group=group)
    apart = tuple(rank for rank, other in enumerate(seen) if other != seen[0])
    shared: list[Any] = [findings]
    dist.broadcast_object_list(shared, group=group, group_src=0)
    if apart:
        shared[0].append(
            Finding(
                "MANIFEST",
                "model",
                "ranks exported other weights than rank 0",
                "every rank of an export yields the same full tensors: look at these ranks' collectives",
                (),
                apart,
            )
        )
    return list(shared[0])


def _tell_sinks(summary: Summary, findings: list[Finding]) -> None:
    try:
        manager().hook.audit_finished(summary=summary, findings=findings)
    except Exception:
        logger.exception("a sink of the audit failed; the run goes on")
