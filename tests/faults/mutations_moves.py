"""Mutations of whole tensors: names and numbers that go astray, tensors that don't come or come twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.audit.place import place_of
from tests.faults.mutations import Draw, Item, Mutation, Operator, numbers, replaced
from tests.faults.mutations_recording import Recorded
from tests.stacks.models import HEADS

_LAYER = re.compile(r"(?<=\.layers\.)\d+(?=\.)")
_EXPERT = re.compile(r"(?<=\.experts\.)\d+(?=\.)")
MOVED = r"are exchanged|carr(?:y|ies)|rotated|interleaved|holds? "


def carried(recorded: Recorded, source: Callable[[str], str]) -> list[Item]:
    """Each name carries the weights of source(name), where there is such a tensor."""
    tensors = recorded.tensors
    return replaced(recorded, {n: tensors[o] for n in tensors if (o := source(n)) in tensors})


def exchanged(one: str, other: str) -> dict[str, str]:
    return {one: other, other: one}


def swap_two(draw: Draw, recorded: Recorded) -> Mutation:
    names = sorted(recorded.tensors)
    one = draw.draw(st.sampled_from(names))
    like = [n for n in names if n != one and recorded.tensors[n].shape == recorded.tensors[one].shape]
    assume(like)
    other = draw.draw(st.sampled_from(like))
    swap = exchanged(one, other)
    return Mutation(f"{one} and {other} exchanged", carried(recorded, lambda n: swap.get(n, n)), MOVED)


def swap_unlike(draw: Draw, recorded: Recorded) -> Mutation:
    names = sorted(recorded.tensors)
    one, other = draw.draw(st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True))
    assume(recorded.tensors[one].shape != recorded.tensors[other].shape)
    swap = exchanged(one, other)
    what = f"{one} and {other} exchanged, of other shapes"
    return Mutation(what, carried(recorded, lambda n: swap.get(n, n)), f"{MOVED}|all zeros")


def swap_layers(draw: Draw, recorded: Recorded) -> Mutation:
    layers, _ = numbers(recorded)
    one, other = sorted(draw.draw(st.lists(st.sampled_from(layers), min_size=2, max_size=2, unique=True)))
    swap = {one: other, other: one}
    items = carried(recorded, _renumber(_LAYER, lambda n: swap.get(n, n)))
    return Mutation(
        f"layers {one} and {other} exchanged", items, rf"layers {one} and {other}: are exchanged|{MOVED}"
    )


def shift_layers(draw: Draw, recorded: Recorded) -> Mutation:
    layers, _ = numbers(recorded)
    by = draw.draw(st.integers(1, len(layers) - 1))
    items = carried(recorded, _renumber(_LAYER, lambda n: (n + by) % len(layers)))
    return Mutation(f"layers shifted by {by}", items, MOVED)


def copy_layer(draw: Draw, recorded: Recorded) -> Mutation:
    layers, _ = numbers(recorded)
    to, source = draw.draw(st.lists(st.sampled_from(layers), min_size=2, max_size=2, unique=True))
    items = carried(recorded, _renumber(_LAYER, lambda n: source if n == to else n))
    return Mutation(
        f"layer {to} carries layer {source}", items, f"layers? {to}: carr.* of layer {source}|{MOVED}"
    )


def experts_of(draw: Draw, recorded: Recorded) -> tuple[set[int], list[int]]:
    """One layer, or all that have experts; and their numbers."""
    _, experts = numbers(recorded)
    with_some = [layer for layer, mine in experts.items() if mine]
    assume(with_some)
    one = draw.draw(st.sampled_from(with_some))
    return set(draw.draw(st.sampled_from([[one], with_some]))), experts[one]


def swap_experts(draw: Draw, recorded: Recorded) -> Mutation:
    layers, experts = experts_of(draw, recorded)
    one, other = sorted(draw.draw(st.lists(st.sampled_from(experts), min_size=2, max_size=2, unique=True)))
    swap = {one: other, other: one}
    items = carried(recorded, _within(layers, _renumber(_EXPERT, lambda n: swap.get(n, n))))
    said = f"experts {one} and {other} are exchanged"
    return Mutation(f"experts {one} and {other} of layers {sorted(layers)} exchanged", items, said)


def shift_experts(draw: Draw, recorded: Recorded) -> Mutation:
    layers, experts = experts_of(draw, recorded)
    by = draw.draw(st.integers(1, len(experts) - 1))
    items = carried(recorded, _within(layers, _renumber(_EXPERT, lambda n: (n + by) % len(experts))))
    said = rf"rotated: expert n carries the weights of expert \(n \+ {by}\)|are exchanged"
    return Mutation(f"experts of layers {sorted(layers)} shifted by {by}", items, said)


def permute_experts(draw: Draw, recorded: Recorded) -> Mutation:
    layers, experts = experts_of(draw, recorded)
    order = draw.draw(st.permutations(experts))
    items = carried(recorded, _within(layers, _renumber(_EXPERT, lambda n: order[n])))
    return Mutation(f"experts of layers {sorted(layers)} in the order {order}", items, MOVED)


def swap_kinds(one: str, other: str) -> Callable[[Draw, Recorded], Mutation]:
    """Two tensors of one module in each other's place: gate and up, k and v."""

    def make(draw: Draw, recorded: Recorded) -> Mutation:
        places = sorted(name for name in recorded.tensors if f".{one}." in name)
        assume(places)
        hit = draw.draw(st.sampled_from([places, *([name] for name in places)]))
        swap: dict[str, str] = {}
        for name in hit:
            swap |= exchanged(name, name.replace(f".{one}.", f".{other}."))
        what = f"{one} and {other} exchanged in {len(hit)} places, the first {hit[0]}"
        return Mutation(what, carried(recorded, lambda n: swap.get(n, n)), f"{one} and {other} are exchanged")

    return make


def cut_gate_and_up(draw: Draw, recorded: Recorded) -> Mutation:
    """What the trainer keeps as one is cut as if every shard, or the whole, were the other."""
    hit = _joined(draw, recorded, "gate_proj", "up_proj")
    shards, whole = draw.draw(st.sampled_from([2, 4])), draw.draw(st.booleans())
    changes: dict[str, Tensor] = {}
    for names in hit:
        gate, up = (recorded.tensors[name] for name in names)
        if whole:
            parts = torch.cat(
                [torch.cat(pair) for pair in zip(gate.chunk(shards), up.chunk(shards), strict=True)]
            ).chunk(2)
        else:
            halves = [shard.chunk(2) for shard in torch.cat([gate, up]).chunk(shards)]
            parts = torch.cat([one for one, _ in halves]), torch.cat([other for _, other in halves])
        changes.update(zip(names, parts, strict=True))
    how = "the glued shards" if whole else "shards of the whole"
    said = f"gate_proj and up_proj are (the halves of|glued from the halves of) {shards} TP shards"
    return Mutation(
        f"gate and up cut from {shards} {how} in {len(hit)} places", replaced(recorded, changes), said
    )


def cut_in_slabs(draw: Draw, recorded: Recorded) -> Mutation:
    """q, k and v lie by group, and are cut as if all q came first."""
    hit = _joined(draw, recorded, "q_proj", "k_proj", "v_proj")
    changes: dict[str, Tensor] = {}
    for names in hit:
        parts = [recorded.tensors[name] for name in names]
        groups = len(parts[1]) // HEADS["head_dim"]
        assume(groups > 1)
        glued = torch.cat(
            [torch.cat(group) for group in zip(*(part.chunk(groups) for part in parts), strict=True)]
        )
        changes.update(zip(names, glued.split([len(part) for part in parts]), strict=True))
    said = "q_proj, k_proj and v_proj are cut as all q, all k, all v from a projection that lies by group"
    return Mutation(f"q, k and v cut in slabs in {len(hit)} places", replaced(recorded, changes), said)


def _joined(draw: Draw, recorded: Recorded, *words: str) -> list[tuple[str, ...]]:
    """The tensors of one projection that the trainer keeps as one, or of all such."""
    first = [name for name in recorded.tensors if f".{words[0]}.weight" in name]
    every = [tuple(name.replace(words[0], word) for word in words) for name in first]
    every = [names for names in every if all(name in recorded.tensors for name in names)]
    assume(every)
    return draw.draw(st.sampled_from([every, *([names] for names in every)]))


def drop(draw: Draw, recorded: Recorded) -> Mutation:
    names = sorted(recorded.tensors)
    name = draw.draw(st.sampled_from(names))
    place = place_of(name)
    layer = {n for n in names if place_of(n).layer == place.layer and place.layer_number is not None}
    expert = {n for n in layer if place_of(n).expert_number == place.expert_number}
    hit = draw.draw(st.sampled_from([{name}, layer, expert]))
    items = [item for item in recorded.tensors.items() if item[0] not in hit]
    return Mutation(f"{len(hit)} tensors dropped, {name} one of them", items)


def duplicate(draw: Draw, recorded: Recorded) -> Mutation:
    items = list(recorded.tensors.items())
    name, tensor = draw.draw(st.sampled_from(items))
    other = draw.draw(st.booleans())
    items.insert(draw.draw(st.integers(0, len(items))), (name, tensor + 1 if other else tensor))
    return Mutation(
        f"{name} comes twice, {'other' if other else 'the same'} bits", items, "elements|reference|like"
    )


def unexpected(draw: Draw, recorded: Recorded) -> Mutation:
    items = list(recorded.tensors.items())
    name, tensor = draw.draw(st.sampled_from(items))
    return Mutation(f"{name} under another name as well", [*items, (f"model.extra.{name}", tensor + 1)])


def prefix(draw: Draw, recorded: Recorded) -> Mutation:
    items = list(recorded.tensors.items())
    at = draw.draw(st.integers(0, len(items) - 1))
    name, tensor = items[at]
    items[at] = (f"module.{name}", tensor)
    return Mutation(f"{name} with a wrapper's prefix", items)


def local_layers(draw: Draw, recorded: Recorded) -> Mutation:
    layers, _ = numbers(recorded)
    stages = draw.draw(st.sampled_from([n for n in (2, 4) if len(layers) % n == 0]))
    held = len(layers) // stages
    return _local(
        recorded, _renumber(_LAYER, lambda n: n % held), f"layer numbers of {stages} stages are local"
    )


def local_experts(draw: Draw, recorded: Recorded) -> Mutation:
    layers, experts = experts_of(draw, recorded)
    ranks = draw.draw(st.sampled_from([n for n in (2, 4) if len(experts) % n == 0]))
    held = len(experts) // ranks
    change = _within(layers, _renumber(_EXPERT, lambda n: n % held))
    return _local(recorded, change, f"expert numbers of {ranks} ranks in layers {sorted(layers)} are local")


def stale(draw: Draw, recorded: Recorded) -> Mutation:
    names = sorted(recorded.tensors)
    name = draw.draw(st.sampled_from(names))
    layer = [n for n in names if place_of(n).layer == place_of(name).layer]
    hit = draw.draw(st.sampled_from([[name], layer, names]))
    items = replaced(recorded, {n: recorded.before[n] for n in hit})
    return Mutation(
        f"{len(hit)} tensors of the version before, {name} one of them",
        items,
        "as in version 1|still serves version 1",
    )


def shuffled(draw: Draw, recorded: Recorded) -> Mutation:
    order = draw.draw(st.randoms(use_true_random=False))
    items = list(recorded.tensors.items())
    order.shuffle(items)
    return Mutation("another order", items)


def cloned(_: Draw, recorded: Recorded) -> Mutation:
    shared = torch.cat([tensor.reshape(-1).view(torch.uint8) for tensor in recorded.tensors.values()])
    items, start = [], 0
    for name, tensor in recorded.tensors.items():
        items.append((name, shared[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)))
        start += tensor.nbytes
    return Mutation("views of one buffer", items)


def _renumber(number: re.Pattern[str], change: Callable[[int], int]) -> Callable[[str], str]:
    return lambda name: number.sub(lambda match: str(change(int(match[0]))), name, count=1)


def _within(layers: Collection[int | None], change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda name: change(name) if place_of(name).layer_number in layers else name


def _local(recorded: Recorded, change: Callable[[str], str], what: str) -> Mutation:
    items = [(change(name), tensor) for name, tensor in recorded.tensors.items()]
    return Mutation(what, items, MOVED)


MOVES: Mapping[str, Callable[[Draw, Recorded], Mutation]] = {
    "two tensors exchanged": swap_two,
    "two tensors of other shapes exchanged": swap_unlike,
    "layers exchanged": swap_layers,
    "layers shifted": shift_layers,
    "a layer copied": copy_layer,
    "experts exchanged": swap_experts,
    "experts shifted": shift_experts,
    "experts in another order": permute_experts,
    "gate and up": swap_kinds("gate_proj", "up_proj"),
    "k and v": swap_kinds("k_proj", "v_proj"),
    "gate and up cut at the wrong rows": cut_gate_and_up,
    "q, k and v cut at the wrong rows": cut_in_slabs,
    "dropped": drop,
    "duplicated": duplicate,
    "unexpected": unexpected,
    "a wrapper's prefix": prefix,
    "local layer numbers": local_layers,
    "local expert numbers": local_experts,
    "stale": stale,
    "another order": shuffled,
    "views of one buffer": cloned,
}
WHOLE = tuple(Operator(name, make) for name, make in MOVES.items())
