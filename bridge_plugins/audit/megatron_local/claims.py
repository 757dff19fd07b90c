"""Which rank claims which name of the whole model: the values that ranks tell, and what they contradict. No torch."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bridge_plugins.audit.causes.wording import ranges
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Header
from bridge_plugins.errors import UsageError
from bridge_plugins.names.param_name import ParamName

#: A shard of a parameter: its name in the whole model, and the coordinate of the shard (see `Claim`).
Key = tuple[str, int, int]


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """One parameter of a rank.

    Attributes:
        name: in the whole model, as the bridge's name function gives it.
        tp: the rank's place among the ranks that cut it: TP, or ETP for an expert's.
        ep: the rank's place in EP, for experts whose number isn't in the name; else 0.
        chunk, local: the virtual stage, and the name there.
        lanes: fingerprint of the local shard as a tensor of its own.
    """

    name: str
    tp: int
    ep: int
    chunk: int
    local: str
    lanes: tuple[int, int]


class Claims(msgspec.Struct, frozen=True):
    """All that one rank claims; `layers` is how many its decoder has, by the model's config."""

    header: Header
    claims: tuple[Claim, ...]
    layers: int

    @property
    def digest(self) -> bytes:
        """16 bytes that ranks share which claim the same with the same bits."""
        content = msgspec.msgpack.encode((self.claims, self.layers))
        return hashlib.blake2b(content, digest_size=16).digest()


class ClaimsMerge:
    """The claims of all ranks, one after another."""

    def __init__(self) -> None:
        self._held: dict[Key, dict[tuple[int, int], tuple[str, tuple[int, ...]]]] = defaultdict(dict)
        self._layers = 0

    def add(self, claims: Claims, ranks: tuple[int, ...] = ()) -> None:
        """Add what `ranks` claim alike, or the one rank that `claims` is of."""
        self._layers = claims.layers
        for claim in claims.claims:
            local = f"{claim.local} of chunk {claim.chunk}"
            known, others = self._held[claim.name, claim.tp, claim.ep].get(claim.lanes, (local, ()))
            self._held[claim.name, claim.tp, claim.ep][claim.lanes] = (
                known, others + (ranks or (claims.header.rank,)),
            )  # fmt: skip

    def findings(self) -> list[Finding]:
        """UNIQ: one name for different bits. COV: layers and experts that no rank claims."""
        return [*self._contradicting(), *self._gaps()]

    def _contradicting(self) -> Iterator[Finding]:
        together: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[str, str, str]]] = defaultdict(
            list
        )
        for (name, _, _), held in self._held.items():
            # The holder that most ranks agree with comes first.
            ways = sorted(held.values(), key=lambda way: (-len(way[1]), way[1]))
            for local, ranks in ways[1:]:
                together[ranks, ways[0][1]].append((name, ways[0][0], local))
        for (ranks, others), cases in together.items():
            name, one, other = cases[0]
            names = tuple(sorted({name for name, _, _ in cases}))
            what = f"{_count(names)} of other bits than on rank {others[0]}, where it is {one}; here {other}"
            step = (
                "copies have drifted apart"
                if one == other
                else "two parameters go by one name: check layer offsets, expert numbers, and names kept per virtual stage"
            )
            yield Finding("UNIQ", "model", what, step, names, tuple(sorted({*ranks, *others})))

    def _gaps(self) -> Iterator[Finding]:
        experts: dict[int, set[int]] = defaultdict(set)
        layers = set()
        for name in {ParamName.parse(name) for name, _, _ in self._held}:
            if name.layer is not None and name.parts[0] == "decoder":
                layers.add(name.layer)
                if name.expert is not None:
                    experts[name.layer].add(name.expert)
        if layers and (missing := sorted(set(range(self._layers)) - layers)):
            what = f"no rank has decoder layers {ranges(missing)} of {self._layers}"
            yield Finding("COV", "model", what, "ranks give local layer numbers: check the layer offset")
        for numbers, members in _alike(experts):
            if missing := sorted(set(range(max(numbers))) - numbers):
                what = f"no rank has experts {ranges(missing)} of decoder layers {ranges(members)}"
                yield Finding(
                    "COV", "model", what, "ranks give local expert numbers: check the expert offset"
                )


def merge_claims(files: Iterable[Path]) -> list[Finding]:
    """The findings of the files that `NameAudit.write` left, one per rank.

    Raises `UsageError` naming a file that is damaged.
    """
    merge = ClaimsMerge()
    for file in files:
        try:
            merge.add(msgspec.json.decode(file.read_bytes(), type=Claims))
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{file} holds no rank's claims: {error}") from error
    return merge.findings()


def _alike(experts: dict[int, set[int]]) -> Iterator[tuple[set[int], list[int]]]:
    """Layers with the same experts together."""
    for numbers, members in itertools.groupby(
        sorted(experts, key=lambda n: (sorted(experts[n]), n)), experts.get
    ):
        assert numbers is not None
        yield numbers, list(members)


def _count(names: tuple[str, ...]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{len(names)} names ({names[0]}, …) are"
