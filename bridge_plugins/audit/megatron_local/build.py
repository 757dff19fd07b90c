"""What the modules of a rank are built of, in HF terms: what tells a wrong import from a right one.

An import that is wrong in the same way as the export leaves no wrong bit anywhere: what was put in the wrong place is taken
from the wrong place again. But it makes one module unlike its siblings, or unlike its own number, on this rank or on others.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.place import place_of
from bridge_plugins.names.context import NameContext
from bridge_plugins.names.experts import global_expert_number
from bridge_plugins.names.layers import global_layer_number
from bridge_plugins.names.param_name import ParamName

if TYPE_CHECKING:
    from bridge_plugins.layout.probe import Block, Layout  # which need torch; files are merged without it

SHOWN = 8  #: blocks that are spelled out


class Built(msgspec.Struct, frozen=True, array_like=True):
    """One way in which local tensors of one kind are built, and how many are.

    Attributes:
        kind: the local tensor's name without layer and expert numbers, and its shape.
        holds: the blocks of HF tensors in it, without the numbers and without their places in the HF tensors.
        layer_shift: the HF layer's number less the module's own; `expert_shift` alike; None where there is none.
        path, name: an example: the local tensor, and an HF tensor in it.
    """

    kind: str
    holds: str
    layer_shift: int | None
    expert_shift: int | None
    path: str
    name: str
    count: int = 1


def build_of(layout: Layout, chunks: Sequence[Any]) -> tuple[Built, ...]:
    """How this rank's modules are built: a few dozen entries, whatever the model's size. No collective."""
    blocks: dict[str, list[Block]] = defaultdict(list)
    for block in layout.blocks:
        blocks[block.path].append(block)
    shapes = {
        f"{chunk}.{name}": tuple(tensor.shape)
        for chunk, model in enumerate(chunks)
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }
    ways: dict[tuple[Any, ...], Built] = {}
    for path, held in blocks.items():
        if path not in shapes or sum(block.box.count for block in held) != math.prod(shapes[path]):
            continue  # a padded vocabulary ends otherwise on its last rank
        one = _built(path, shapes[path], held, chunks)
        key = (one.kind, one.holds, one.layer_shift, one.expert_shift)
        known = ways.get(key, one)
        ways[key] = msgspec.structs.replace(known, count=known.count + (known is not one))
    return tuple(ways.values())


def _built(path: str, shape: tuple[int, ...], blocks: list[Block], chunks: Sequence[Any]) -> Built:
    chunk, _, local = path.partition(".")
    name, context = ParamName.parse(local), NameContext(chunks, chunks[0].config, int(chunk))
    layer = global_layer_number(name=name, context=context)
    expert = global_expert_number(name=name, context=context)
    first = min(blocks, key=lambda block: block.box.local_offset)
    place = place_of(first.source.name)
    return Built(
        kind=f"{_without_numbers(name)} {list(shape)}",
        holds=_spelled(blocks),
        layer_shift=None if layer is None or place.layer_number is None else place.layer_number - layer,
        expert_shift=None if expert is None or place.expert_number is None else place.expert_number - expert,
        path=f"{name} of chunk {chunk}" if len(chunks) > 1 else str(name),
        name=first.source.name,
    )


def _without_numbers(name: ParamName) -> str:
    parts = list(name.parts)
    for at in (name.layer_at, name.expert_at):
        if at is not None:
            parts[at] = re.sub(r"\d+$", "*", parts[at])
    return ".".join(parts)


def _spelled(blocks: list[Block]) -> str:
    spelled = []
    for block in sorted(blocks, key=lambda block: block.box.local_offset):
        place, box = place_of(block.source.name), block.box
        inside = place.inside
        if place.expert_number is not None:
            inside = inside.replace(f"experts.{place.expert_number}.", "experts.*.")
        turned = " transposed" if box.transposed else ""
        steps = "" if box.stride == box.local_stride == (1, 1) else f" steps {box.stride}, {box.local_stride}"
        at = f"{box.local_offset.rows}, {box.local_offset.cols}"
        spelled.append(f"{inside} {box.size.rows}x{box.size.cols} at {at}{turned}{steps}")
    if len(spelled) > SHOWN:
        digest = hashlib.blake2b("\n".join(spelled).encode(), digest_size=4).hexdigest()
        spelled = [*spelled[:SHOWN], f"… ({len(spelled)} blocks, {digest})"]
    return "; ".join(spelled)


@dataclass
class _Way:
    """A way to be built: an example, the ranks that have it, and how many modules."""

    example: Built
    ranks: tuple[int, ...]
    count: int


class Builds:
    """What the modules of all ranks are built of, one rank after another."""

    def __init__(self) -> None:
        self._ways: dict[tuple[Any, ...], _Way] = {}

    def add(self, ranks: tuple[int, ...], builds: Iterable[Built]) -> None:
        """What `ranks` told, who all told the same."""
        for built in builds:
            key = (built.kind, built.holds, built.layer_shift, built.expert_shift)
            way = self._ways.setdefault(key, _Way(built, (), 0))
            way.ranks += ranks
            way.count += built.count * len(ranks)

    def findings(self) -> Iterator[Finding]:
        """LAYOUT: one for each way to be built that is not the usual one of its kind, or not of its own number."""
        kinds: dict[str, list[_Way]] = defaultdict(list)
        shifts: dict[str, Counter[int | None]] = defaultdict(Counter)
        for way in self._ways.values():
            kinds[way.example.kind].append(way)
            shifts[_stacks(way.example)][way.example.layer_shift] += way.count
        for ways in kinds.values():
            usual = max(ways, key=lambda way: way.count)
            for way in ways:
                if way.example.holds != usual.example.holds:
                    what = f"not built as {usual.example.path} of rank {usual.ranks[0]}, which is of its kind"
                    yield _finding([way], what, usual.example.holds, way.example.holds)
        usual_shifts = {stacks: _usual(counts) for stacks, counts in shifts.items()}
        yield from self._off("layer", lambda built: (built.layer_shift, usual_shifts[_stacks(built)]))
        yield from self._off("expert", lambda built: (built.expert_shift, 0))

    def _off(
        self, number: str, shifts: Callable[[Built], tuple[int | None, int | None]]
    ) -> Iterator[Finding]:
        """One finding for all that is off by the same."""
        off: dict[tuple[str, int | None, int | None], list[_Way]] = defaultdict(list)
        for way in self._ways.values():
            shift, usual = shifts(way.example)
            if shift != usual and shift is not None:
                off[_stacks(way.example), shift, usual].append(way)
        for (_, shift, usual), ways in off.items():
            what = f"of another HF {number} number than the module's"
            yield _finding(
                ways, what, f"the module's own number + {usual}", f"the module's own number + {shift}"
            )


def _usual(shifts: Counter[int | None]) -> int | None:
    """The most frequent one; of equally frequent ones the smallest."""
    return max(shifts, key=lambda shift: (shifts[shift], -abs(shift or 0)))


def _finding(ways: list[_Way], what: str, expected: str, found: str) -> Finding:
    first, count = ways[0].example, sum(way.count for way in ways)
    several = f"{count} parameters ({first.path}, …) are" if count > 1 else f"{first.path} is"
    holding = f"; it holds {first.name}" if count == 1 else f"; the first holds {first.name}"
    return Finding(
        "LAYOUT", str(place_of(first.name)), f"{several} {what}{holding}",
        "the import puts weights where these modules do not look for them, whatever the export says",
        tuple(way.example.name for way in ways), tuple(sorted({rank for way in ways for rank in way.ranks})),
        expected=expected, found=found,
    )  # fmt: skip


def _stacks(built: Built) -> str:
    """Which stack of layers on either side: their numbers differ by one constant."""
    return f"{built.kind.partition('.*')[0]} of {place_of(built.name).layer.rpartition('.')[0]}"
