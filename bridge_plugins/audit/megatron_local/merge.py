"""The parts of all ranks, put together: whole tensors' records, and what the ranks disagree on. No torch, no collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bridge_plugins.audit.causes.wording import tensors, where
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.megatron_local.build import Builds
from bridge_plugins.audit.megatron_local.part import LocalPart, LocalParts, Place, read_parts
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary, summarize
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.fingerprint.coverage import Coverage
from bridge_plugins.fingerprint.value import sum_of_lanes


@dataclass
class _Copies:
    """One part of one HF tensor: the bits that ranks hold of it, usually the same on each."""

    held: dict[tuple[str, tuple[int, int]], tuple[LocalPart, tuple[int, ...]]] = field(default_factory=dict)

    def add(self, part: LocalPart, ranks: tuple[int, ...]) -> None:
        known, others = self.held.get((part.dtype, part.lanes), (part, ()))
        self.held[part.dtype, part.lanes] = (known, others + ranks)

    @property
    def usual(self) -> tuple[LocalPart, tuple[int, ...]]:
        """What most ranks hold; of as many, what the lowest rank does."""
        return max(self.held.values(), key=lambda one: (len(one[1]), -min(one[1])))


class Merge:
    """Takes one rank after another, or several that hold the same. What it keeps grows with the model, not with ranks."""

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self._first: LocalParts | None = None
        self._copies: dict[str, dict[tuple[Place, ...], _Copies]] = defaultdict(lambda: defaultdict(_Copies))
        self._not_compared: dict[str, str] = {}
        self._builds = Builds()

    def add(self, local: LocalParts, ranks: tuple[int, ...] = ()) -> None:
        """Add what `ranks` hold, or the one rank that `local` is of.

        Raises `UsageError` for a rank that came before, and for one of another version, model or world.
        """
        ranks = ranks or (local.header.rank,)
        self._first = self._first or local
        mine, other = ((p.header.model, p.header.version, p.header.world) for p in (self._first, local))
        if mine != other:
            raise UsageError(
                f"ranks {self._first.header.rank} and {ranks[0]} are of two runs: {mine}, {other}"
            )
        if again := self.ranks & set(ranks):
            raise UsageError(f"rank {min(again)} of version {local.header.version} is there twice")
        self.ranks |= set(ranks)
        self._not_compared |= local.not_compared
        self._builds.add(ranks, local.build)
        for part in local.parts:
            self._copies[part.name][part.boxes].add(part, ranks)

    def summary(self) -> Summary:
        """Roll up. `findings` say on which ranks copies have drifted apart, what is held incompletely, and how a module is
        built that is not built as the others of its kind.

        Raises `UsageError` if nothing was added.
        """
        if self._first is None:
            raise UsageError("no rank's parts to merge")
        findings = [*self._drifted(), *self._lossy()]
        records, incomplete = [], {}
        for name, parts in self._copies.items():
            shape = next(iter(parts.values())).usual[0].shape
            report = Coverage(tuple(_box(place) for places in parts for place in places)).check(shape)
            if report.complete:
                records.append(_record([copies.usual[0] for copies in parts.values()]))
            else:
                incomplete[name] = str(report)
        absent = sorted(set(range(self._first.header.world)) - self.ranks)
        findings += [*self._unknown(incomplete, absent), *self._builds.findings()]
        some = ", ".join(map(str, absent[:8])) + (", …" if len(absent) > 8 else "")
        partial = f"ranks {some} did not tell what they hold" if absent else ""
        header = msgspec.structs.replace(self._first.header, rank=0, merged=len(self.ranks), partial=partial)
        return msgspec.structs.replace(summarize(header, records), findings=findings)

    def _drifted(self) -> Iterator[Finding]:
        """UNIQ: copies of one part whose bits differ, by the ranks that are alone with theirs."""
        odd: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = defaultdict(list)
        for name, parts in self._copies.items():
            for copies in parts.values():
                usual = copies.usual
                for one in copies.held.values():
                    if one is not usual and len(copies.held) > 1:
                        odd[one[1], usual[1]].append(name)
        for (ranks, others), named in odd.items():
            what = f"{tensors(sorted(set(named)))} held with other bits than on rank {others[0]}"
            step = "copies have drifted apart: look at the reduction of their gradients, and at what wrote them last"
            yield Finding("UNIQ", where(named), what, step, tuple(sorted(set(named))), tuple(sorted(ranks)))

    def _lossy(self) -> Iterator[Finding]:
        for name, parts in self._copies.items():
            lossy = sum(copies.usual[0].lossy for copies in parts.values())
            if lossy:
                part = next(iter(parts.values())).usual[0]
                what = f"{lossy} elements are held with other values than {part.dtype} has, in which they are sent"
                yield Finding("DTYPE", name, what, "the cast on the way loses bits", (name,))

    def _unknown(self, incomplete: dict[str, str], absent: list[int]) -> Iterator[Finding]:
        """COV: what can't be compared, and why: an error only if nothing explains it."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for name, reason in self._not_compared.items():
            reasons[reason].append(name)
        for reason, members in reasons.items():
            yield Finding(
                "COV", "model", f"{tensors(sorted(members))} not compared: {reason}", severity="info"
            )
        explained = bool(absent or self._not_compared)
        for layer, names in by_layer(incomplete).items():
            what = f"{tensors(names)} not compared: held incompletely: {incomplete[names[0]]}"
            step = "" if explained else "no rank holds the rest: it was never imported"
            yield Finding("COV", layer, what, step, names, severity="info" if explained else "error")


def merge_files(paths: Iterable[Path]) -> Summary:
    """The summary of the files that `LocalAudit.write` left, one per rank. Raises `UsageError` as `Merge` does."""
    merge = Merge()
    for path in paths:
        merge.add(read_parts(path))
    return merge.summary()


def _record(parts: list[LocalPart]) -> Record:
    first = parts[0]
    return Record(
        name=first.name,
        shape=first.shape,
        dtype=first.dtype,
        lanes=sum_of_lanes(part.lanes for part in parts),
        nbytes=sum(part.nbytes for part in parts),
        norm=sum(part.squares for part in parts) ** 0.5,
        absmax=max(part.absmax for part in parts),
        zeros=sum(part.zeros for part in parts),
        nonfinite=sum(part.nonfinite for part in parts),
    )


def _box(place: Place) -> Box:
    rows, cols, row, col, row_step, col_step = place
    return Box(size=(rows, cols), offset=(row, col), stride=(row_step, col_step))  # type: ignore[arg-type]
