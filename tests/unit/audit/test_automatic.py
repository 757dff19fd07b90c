"""Automatic mode without a trainer: what is counted once, what is left out, and that nothing reaches the stream."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bridge_plugins.audit import WeightAudit, read_summary
from bridge_plugins.audit.automatic import Automatic
from bridge_plugins.audit.handover import handed_over
from bridge_plugins.audit.origin import Origin


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Automatic]]:
    """Makes audits as a process has one, each closed before its folder is gone."""
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path))
    made: list[Automatic] = []

    def one() -> Automatic:
        made.append(Automatic())
        return made[-1]

    yield one
    for automatic in made:
        automatic.close()


@pytest.fixture
def automatic(make: Callable[[], Automatic]) -> Automatic:
    return make()


def items(factor: float = 1.0) -> Iterator[tuple[str, torch.Tensor]]:
    for layer in range(3):
        yield (
            f"model.layers.{layer}.w",
            factor * torch.randn(4, 8, generator=torch.Generator().manual_seed(layer)),
        )


def export(automatic: Automatic, stream: Any = None) -> list[Any]:
    return list(automatic.exported(items() if stream is None else stream, Origin))


def names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".rank00000.json") for path in folder.iterdir())


def test_items_are_handed_on_at_once_and_not_kept(automatic: Automatic) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def stream() -> Iterator[Any]:
        for number in range(5):
            # By the time the next tensor is asked for, the one before must be gone.
            gc.collect()
            assert all(reference() is None for reference in alive)
            tensor = torch.full((3,), number)
            alive.append(weakref.ref(tensor))
            yield f"t{number}", tensor
            del tensor

    for _ in automatic.exported(stream(), Origin):
        del _
    assert len(alive) == 5


def test_a_limited_number_of_versions_is_audited(automatic: Automatic, tmp_path: Path) -> None:
    for _ in range(5):
        assert len(export(automatic)) == 3
    assert names(tmp_path) == ["v000001.hf", "v000002.hf", "v000003.hf"]


def test_a_negative_limit_is_none_and_zero_audits_nothing(
    make: Callable[[], Automatic], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for limit, count in (("-1", 5), ("0", 0), ("nonsense", 3)):
        monkeypatch.setenv("BRIDGE_AUDIT_MAX_VERSIONS", limit)
        automatic = make()
        for path in tmp_path.iterdir():
            path.unlink()
        for _ in range(5):
            export(automatic)
        assert len(names(tmp_path)) == count


def test_a_version_whose_label_is_no_number_is_always_audited(automatic: Automatic, tmp_path: Path) -> None:
    for number in range(5):
        with automatic.updating(lambda number=number: f"step-{number}"):  # type: ignore[misc]
            export(automatic)
    assert names(tmp_path) == [f"vstep-{number}.hf" for number in range(5)]


def test_a_stream_in_a_stream_is_counted_once(automatic: Automatic, tmp_path: Path) -> None:
    def component() -> Iterator[Any]:
        yield from automatic.exported(items(), Origin)
        yield from automatic.exported(iter([("lm_head.weight", torch.ones(2, 2))]), Origin)

    assert len(export(automatic, component())) == 4
    assert names(tmp_path) == ["v000001.hf"]
    assert len(read_summary(tmp_path).records) == 4


def test_a_stream_that_an_explicit_audit_watches_is_counted_once(
    automatic: Automatic, tmp_path: Path
) -> None:
    audit = WeightAudit("tiny")
    assert len(list(audit.watch(automatic.exported(items(), Origin)))) == 3
    assert len(audit.finish("1")[0].records) == 3
    assert names(tmp_path) == []


def test_an_export_that_starts_in_the_consumers_loop_is_its_own(automatic: Automatic, tmp_path: Path) -> None:
    for number, _ in enumerate(automatic.exported(items(), Origin)):
        if number == 1:
            export(automatic)
    assert names(tmp_path) == ["v000001.hf", "v000002.hf"]


def test_an_error_of_the_stream_is_the_consumers_and_leaves_a_partial_file(
    automatic: Automatic, tmp_path: Path
) -> None:
    def broken() -> Iterator[Any]:
        yield from items()
        raise RuntimeError("NCCL")

    with pytest.raises(RuntimeError, match="NCCL"):
        export(automatic, broken())
    assert read_summary(tmp_path).header.partial == "it failed: RuntimeError"


@pytest.mark.parametrize("what", ["describe", "folder", "tensor"])
def test_an_audit_that_fails_does_not_fail_the_export(
    automatic: Automatic,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    stream: list[Any] = list(items())
    describe: Any = Origin
    if what == "describe":
        describe = lambda: 1 / 0  # noqa: E731
    elif what == "folder":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path / "file"))
    else:
        stream += [("odd", None), "no tuple at all", ("meta", torch.ones(2, device="meta"))]
    with caplog.at_level(logging.WARNING):
        came = list(automatic.exported(iter(stream), describe))
    assert all(one is other for one, other in zip(came, stream, strict=True))
    assert caplog.text
    if what == "tensor":
        found = [finding for finding in read_summary(tmp_path).findings if finding.rule == "AUDIT"]
        assert {finding.names[0] for finding in found} == {"odd", "n", "meta"}


def test_what_a_transport_is_handed_belongs_to_the_version_under_way(
    automatic: Automatic, tmp_path: Path
) -> None:
    label = [6]
    with automatic.updating(lambda: label[0]):
        label[0] += 1  # frameworks count up inside
        for item in automatic.exported(items(), Origin):
            handed_over(lambda one=item: [one])  # type: ignore[misc]
    assert names(tmp_path) == ["v000007.hf", "v000007.wire"]
    wire = read_summary(tmp_path / "v000007.wire.rank00000.json")
    assert [record.bucket for record in wire.records.values()] == sorted(
        r.bucket or 0 for r in wire.records.values()
    )
    assert not wire.header.unversioned
    handed_over(lambda: iter([("late", torch.ones(1))]))
    assert len(names(tmp_path)) == 2


def test_off_a_transport_is_not_even_asked_what_it_sends() -> None:
    gc.collect()
    handed_over(lambda: 1 / 0)  # type: ignore[arg-type, return-value]


def test_a_finished_version_has_stopped_listening() -> None:
    audit = WeightAudit("tiny")
    list(audit.watch(items()))
    handed_over(lambda: iter([("a", torch.ones(2))]))
    audit.finish("1")
    handed_over(lambda: iter([("b", torch.ones(2))]))
    assert len(audit._wire) == 0


def test_adapters_that_travel_after_their_base_are_a_stage_of_their_own(
    automatic: Automatic, tmp_path: Path
) -> None:
    adapters = [("model.layers.0.w.lora_A.weight", torch.randn(2, 8))]
    with automatic.updating(lambda: 1):
        for item in automatic.exported(items(), Origin):
            handed_over(lambda one=item: [one])  # type: ignore[misc]
        alone = automatic.exported(iter(adapters), lambda: Origin(partial="adapters alone", adapters=True))
        for item in alone:
            handed_over(lambda one=item: [one])  # type: ignore[misc]
    assert names(tmp_path) == ["v000001.adapter", "v000001.hf", "v000001.wire"]
    assert [str(finding) for finding in read_summary(tmp_path).findings] == []
    adapter = read_summary(tmp_path / "v000001.adapter.rank00000.json")
    assert (adapter.header.partial, list(adapter.records)) == ("adapters alone", [adapters[0][0]])


def test_a_rule_that_does_not_exist_is_said_and_all_judge(
    make: Callable[[], Automatic],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("BRIDGE_AUDIT_RULES", "SETT")
    export(make(), [("w", torch.tensor([float("nan")]))])
    assert "there is no rule SETT" in caplog.text
    assert [finding.rule for finding in read_summary(tmp_path).findings] == ["STATS"]
