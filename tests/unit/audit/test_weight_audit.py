"""The audit hands on the very objects, keeps none of them, and its summaries add up."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor

from bridge_plugins.audit import Finding, Header, Summary, WeightAudit, read_summary, summarize
from bridge_plugins.audit.rules import Context
from bridge_plugins.audit.rules.stats import Stats
from bridge_plugins.errors import UsageError, VetoError
from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.plugins import manager


def test_the_very_item_is_handed_on_whatever_its_arity() -> None:
    items = [("a", torch.ones(2)), ("b", torch.ones(3), "more"), ("c", torch.ones(1), 1, 2)]
    audit = WeightAudit("tiny")
    assert all(one is other for one, other in zip(audit.watch(items), items, strict=True))


def test_items_are_handed_on_at_once_and_not_kept() -> None:
    alive: list[weakref.ref[Tensor]] = []

    def stream() -> Iterator[tuple[str, Tensor]]:
        for number in itertools.count():
            # By the time the next tensor is asked for, the one before must be gone.
            gc.collect()
            assert all(reference() is None for reference in alive)
            tensor = torch.full((3,), number)
            alive.append(weakref.ref(tensor))
            yield f"t{number}", tensor
            del tensor

    audit = WeightAudit("tiny")
    watched = audit.watch(stream())
    for _ in range(4):
        next(watched)
    assert len(alive) == 4


def test_a_bucket_is_handed_on_as_it_is_and_let_go_of_before_the_next() -> None:
    alive: list[weakref.ref[Tensor]] = []
    given: list[int] = []

    def buckets() -> Iterator[list[tuple[str, Tensor]]]:
        for number in range(4):
            gc.collect()
            assert all(reference() is None for reference in alive)
            bucket = [(f"t{number}.{at}", torch.full((3,), number)) for at in range(2)]
            alive.extend(weakref.ref(tensor) for _, tensor in bucket)
            given.append(id(bucket))
            yield bucket
            del bucket

    audit = WeightAudit("tiny")
    taken = list(map(id, audit.watch_buckets(buckets())))  # which keeps none of them
    assert taken == given
    assert len(audit.finish("1")[0].records) == 8


def test_what_can_t_be_read_in_a_bucket_is_said_of_that_tensor_alone() -> None:
    items = [("good", torch.ones(2)), ("bad", torch.empty(3, device="meta")), ("other", torch.zeros(2))]
    one_by_one, in_buckets = WeightAudit("tiny"), WeightAudit("tiny")
    assert list(in_buckets.watch_buckets([items])) == [items]
    assert list(one_by_one.watch(items)) == items
    (summary, findings), (expected, same) = in_buckets.finish("1"), one_by_one.finish("1")
    assert summary.digest == expected.digest
    assert [str(finding) for finding in findings] == [str(finding) for finding in same]
    assert any("bad" in str(finding) for finding in findings)


def test_a_summary_does_not_depend_on_order() -> None:
    tensors = {f"model.layers.{n}.w": torch.randn(3, 4) for n in range(5)} | {
        "lm_head.weight": torch.randn(2)
    }
    digests = set()
    for items in (list(tensors.items()), list(reversed(tensors.items()))):
        audit = WeightAudit("tiny")
        for _ in audit.watch(items):
            pass
        digests.add(audit.finish("1")[0].digest)
    assert len(digests) == 1


def test_the_digest_sees_layers_exchanged() -> None:
    one, other = torch.randn(3), torch.randn(3)
    digests = set()
    for first, second in ((one, other), (other, one)):
        audit = WeightAudit("tiny")
        for _ in audit.watch([("model.layers.0.w", first), ("model.layers.1.w", second)]):
            pass
        digests.add(audit.finish("1")[0].digest)
    assert len(digests) == 2


@pytest.fixture
def written(tmp_path: Path) -> Path:
    audit = WeightAudit("tiny", topology="TP=2")
    for _ in audit.watch([("model.layers.0.w", torch.randn(3))]):
        pass
    path = tmp_path / "folder" / "summary.json"
    audit.finish("7")[0].write(path)
    return path


def test_a_summary_comes_back_from_its_file(written: Path) -> None:
    summary = read_summary(written)
    assert summary.header.version == "7"
    assert summary.layers[0].elements == 3
    assert summarize(summary.header, summary.records.values()).digest == summary.digest
    assert [path.name for path in written.parent.iterdir()] == ["summary.json"]


def test_a_write_that_fails_leaves_the_old_file(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = written.read_bytes()
    summary = read_summary(written)

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        summary.write(written)
    assert written.read_bytes() == before
    assert [path.name for path in written.parent.iterdir()] == ["summary.json"]


def test_a_damaged_or_newer_file_is_an_error_that_names_it(written: Path) -> None:
    whole = written.read_bytes()
    newer = msgspec.json.decode(whole)
    newer["header"]["schema"] = 99
    for content in (b"", whole[:-10], b"[]", msgspec.json.encode(newer)):
        written.write_bytes(content)
        with pytest.raises(UsageError, match=r"summary\.json"):
            read_summary(written)


class Sink:
    """A plugin that sees what the audit finished, and then fails."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    def audit_finished(self, summary: Summary, findings: list[Finding]) -> None:  # noqa: ARG002
        self.seen.append(summary.header.version)
        raise RuntimeError("the sink is full")


def test_a_sink_sees_each_version_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    manager().register(sink)
    try:
        audit = WeightAudit("tiny")
        for version in ("1", "2"):
            for _ in audit.watch([("w", torch.ones(1))]):
                pass
            audit.finish(version)
    finally:
        manager().unregister(sink)
    assert sink.seen == ["1", "2"]
    assert "the sink is full" in caplog.text


class Broken:
    code = "BROKEN"

    def check(self, summary: Summary, context: Context) -> list[Finding]:  # noqa: ARG002
        raise KeyError("no such layer")


def test_a_rule_that_fails_is_a_finding_and_the_others_go_on() -> None:
    audit = WeightAudit("tiny", rules=(Broken(), Stats()))
    for _ in audit.watch([("w", torch.tensor([float("nan")]))]):
        pass
    findings = audit.finish("1")[1]
    assert [finding.rule for finding in findings] == ["BROKEN", "STATS"]
    assert "the rule itself failed (KeyError" in findings[0].what


def test_a_header_says_what_it_was_written_by() -> None:
    assert Header("m", "", "1").fingerprint == 1


def test_what_was_stopped_is_no_version() -> None:
    audit = WeightAudit("tiny", strict=True)
    for tensor in (torch.ones(2), torch.tensor([float("nan")] * 2)):
        list(audit.watch([("w", tensor)]))
        if tensor.isnan().any():
            with pytest.raises(VetoError, match="version 2 is not pushed: STATS w: 2 elements are NaN"):
                audit.finish("2", trained=True)
        else:
            audit.finish("1")
    list(audit.watch([("w", torch.full((2,), 3.0))]))
    assert [finding for finding in audit.finish("2", trained=True)[1] if finding.counts] == []
