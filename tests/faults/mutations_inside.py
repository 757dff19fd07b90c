"""Mutations inside of a tensor: of one, or of its like in several layers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.audit.causes.wording import kind
from bridge_plugins.audit.names import is_vocabulary
from bridge_plugins.audit.place import place_of
from tests.faults.mutations import Draw, Mutation, Operator, replaced
from tests.faults.mutations_recording import Recorded

Made = tuple[Callable[[Tensor], Tensor], str, str]
"""What to do to a tensor, in words, and a pattern of what should be said of it."""


def operator(
    name: str, make: Callable[[Draw, Tensor], Made], fits: Callable[[str, Tensor], bool]
) -> Operator:
    """Draws a tensor that fits, or all of its kind, and what is done to it."""

    def made(draw: Draw, recorded: Recorded) -> Mutation:
        names = sorted(name for name, tensor in recorded.tensors.items() if fits(name, tensor))
        assume(names)
        name = draw.draw(st.sampled_from(names))
        like = [other for other in names if kind(place_of(other)) == kind(place_of(name))]
        hit = draw.draw(st.sampled_from([[name], [name], like]))
        change, what, said = make(draw, recorded.tensors[name])
        changes = {one: change(recorded.tensors[one]) for one in hit}
        at = hit[0] if len(hit) == 1 else f"{len(hit)} like {hit[0]}"
        return Mutation(f"{what}: {at}", replaced(recorded, changes), said)

    return Operator(name, made)


def matrix(_: str, tensor: Tensor) -> bool:
    return tensor.dim() == 2 and min(tensor.shape) >= 8


def anything(_: str, tensor: Tensor) -> bool:
    return tensor.numel() >= 8


def is_norm(name: str, tensor: Tensor) -> bool:
    return tensor.dim() == 1 and "norm" in name


def vocabulary(name: str, _: Tensor) -> bool:
    return is_vocabulary(name)


def transpose(_: Draw, __: Tensor) -> Made:
    return lambda t: t.t().contiguous(), "transposed", "is transposed"


def shard_order(draw: Draw, tensor: Tensor) -> Made:
    axis = draw.draw(st.sampled_from([0, 1]))
    shards = draw.draw(st.sampled_from([2, 4]))
    assume(tensor.shape[axis] % shards == 0 and (axis == 0 or tensor.shape[1] // shards >= 4))
    order = draw.draw(st.permutations(range(shards)))

    def change(t: Tensor) -> Tensor:
        parts = t.chunk(shards, axis)
        return torch.cat([parts[n] for n in order], axis)

    return change, f"shards of axis {axis} in the order {order}", "in the order"


def dealt(draw: Draw, tensor: Tensor) -> Made:
    rows = tensor.shape[0]
    sizes = [(a, b) for a in (2, 4, 8) for b in (2, 4, 8) if rows % (8 * a * b) == 0]
    assume(sizes)
    one, other = draw.draw(st.sampled_from(sizes))

    def change(t: Tensor) -> Tensor:
        return t.reshape(one, other, -1).transpose(0, 1).reshape(t.shape)

    return change, f"rows seen as {one} x {other} blocks dealt the other way", "ordered as|in the order"


def element(draw: Draw, tensor: Tensor) -> int:
    return draw.draw(st.integers(0, tensor.numel() - 1))


def one_bit(draw: Draw, tensor: Tensor) -> Made:
    at, bit = element(draw, tensor), draw.draw(st.integers(0, 8 * tensor.element_size() - 1))

    def change(t: Tensor) -> Tensor:
        out = t.clone()
        integers = {2: torch.int16, 4: torch.int32}[t.element_size()]
        flat = out.view(integers).view(-1)
        flat[at] ^= torch.tensor(1, dtype=torch.int64).bitwise_left_shift(bit).to(integers)
        return out

    return change, f"bit {bit} of element {at} flipped", r"\b1 of [0-9,]+ elements"


def negated(draw: Draw, tensor: Tensor) -> Made:
    block = rectangle(draw, tensor)
    return (
        lambda t: on(t, block, torch.neg),
        f"signs flipped in {block}",
        "the other sign",
    )


def zeroed(draw: Draw, tensor: Tensor) -> Made:
    block = rectangle(draw, tensor)
    return lambda t: on(t, block, torch.zeros_like), f"zeros in {block}", "zeros?\\b"


def nan(draw: Draw, tensor: Tensor) -> Made:
    block = rectangle(draw, tensor, most=4)
    value = draw.draw(st.sampled_from([float("nan"), float("inf")]))
    return (
        lambda t: on(t, block, lambda p: torch.full_like(p, value)),
        f"{value} in {block}",
        "NaN or infinite",
    )


def scaled(draw: Draw, _: Tensor) -> Made:
    factor = draw.draw(st.sampled_from([0.5, 2.0, -1.0, 0.125, 4096.0, 1.5, -0.3, 45.25]))
    return (lambda t: t * factor), f"times {factor}", "the reference times|the other sign"


def adapter(draw: Draw, tensor: Tensor) -> Made:
    rank, seed = draw.draw(st.integers(1, 4)), draw.draw(st.integers(0, 9))
    assume(min(tensor.shape) >= 4 * rank)

    def change(t: Tensor) -> Tensor:
        chance = torch.Generator().manual_seed(seed)
        b, a = (
            torch.randn(t.shape[0], rank, generator=chance),
            torch.randn(rank, t.shape[1], generator=chance),
        )
        return (t.float() + 0.1 * b @ a).to(t.dtype)

    return change, f"an adapter of rank {rank} merged", r"by a matrix of rank \d+, as an adapter is"


def noise(draw: Draw, _: Tensor) -> Made:
    seed = draw.draw(st.integers(0, 9))

    def change(t: Tensor) -> Tensor:
        return torch.randn(t.shape, generator=torch.Generator().manual_seed(seed)).to(t.dtype)

    return change, "other weights", "unlike every tensor of the reference"


def plus_one(draw: Draw, _: Tensor) -> Made:
    by = draw.draw(st.sampled_from([1.0, -1.0]))
    return lambda t: (t.float() + by).to(t.dtype), f"plus {by:g}", "is the reference (plus|minus) 1"


def cast(draw: Draw, tensor: Tensor) -> Made:
    others = {torch.bfloat16, torch.float16, torch.float32} - {tensor.dtype}
    to = draw.draw(st.sampled_from(sorted(others, key=str)))
    return lambda t: t.to(to), f"cast to {to}", "was cast to"


def detour(draw: Draw, _: Tensor) -> Made:
    through = draw.draw(st.sampled_from([torch.bfloat16, torch.float16]))
    said = "went through"
    return lambda t: t.to(through).to(t.dtype), f"through {through}", said


def padded(draw: Draw, _: Tensor) -> Made:
    rows = draw.draw(st.sampled_from([1, 16, 128]))
    return (
        lambda t: torch.cat([t, t.new_zeros((rows, *t.shape[1:]))]),
        f"{rows} rows of padding",
        f"{rows} (rows|columns) after .*padding was left in",
    )


def shard_alone(draw: Draw, tensor: Tensor) -> Made:
    axis, shards = draw.draw(st.sampled_from([0, 1])), draw.draw(st.sampled_from([2, 4]))
    assume(tensor.shape[axis] % shards == 0)
    shard = draw.draw(st.integers(0, shards - 1))
    return (
        lambda t: t.chunk(shards, axis)[shard].contiguous(),
        f"shard {shard} of {shards} of axis {axis} alone",
        f"is TP shard {shard} of {shards} alone",
    )


def repeated(draw: Draw, tensor: Tensor) -> Made:
    axis, shards = draw.draw(st.sampled_from([0, 1])), draw.draw(st.sampled_from([2, 4]))
    assume(tensor.shape[axis] % shards == 0 and tensor.shape[axis] > shards)
    return (
        lambda t: torch.cat([t.chunk(shards, axis)[0]] * shards, axis),
        f"shard 0 of {shards} of axis {axis} repeated",
        f"all {shards} TP shards of .* hold the same bits",
    )


def glued(draw: Draw, tensor: Tensor) -> Made:
    axis, shards = draw.draw(st.sampled_from([0, 1])), draw.draw(st.sampled_from([2, 4]))
    assume(tensor.shape[axis] % shards == 0)
    return (
        lambda t: torch.cat(t.chunk(shards, axis), 1 - axis),
        f"{shards} shards of axis {axis} glued along the other",
        f"{shards} TP shards of .* are glued along",
    )


def truncated(draw: Draw, tensor: Tensor) -> Made:
    rows = draw.draw(st.integers(1, tensor.shape[0] - 1))
    said = f"the last {tensor.shape[0] - rows} of {tensor.shape[0]} .* missing|is TP shard 0 of .* alone"
    return lambda t: t[:rows].clone(), f"{rows} of {tensor.shape[0]} rows", said


def reshaped(_: Draw, tensor: Tensor) -> Made:
    assume(tensor.shape[0] % 2 == 0)
    return (
        lambda t: t.reshape(t.shape[0] // 2, -1),
        "reshaped to half the rows",
        "the reference's elements in its order",
    )


def strided(_: Draw, __: Tensor) -> Made:
    return lambda t: t.t().contiguous().t(), "the same, as a view with other strides", ""


def rectangle(draw: Draw, tensor: Tensor, most: int = 1 << 30) -> tuple[slice, ...]:
    """A block of rows, or of rows and columns."""
    block = []
    for size in tensor.shape:
        start = draw.draw(st.integers(0, size - 1))
        block.append(slice(start, draw.draw(st.integers(start + 1, min(size, start + most)))))
    return tuple(block)


def on(tensor: Tensor, block: tuple[slice, ...], change: Callable[[Tensor], Tensor]) -> Tensor:
    out = tensor.clone()
    out[block] = change(out[block])
    return out


INSIDE = (
    operator("transpose", transpose, matrix),
    operator("TP shard order", shard_order, matrix),
    operator("heads or gate and up dealt otherwise", dealt, matrix),
    operator("one bit", one_bit, anything),
    operator("signs", negated, anything),
    operator("zeros", zeroed, anything),
    operator("NaN", nan, anything),
    operator("scaled", scaled, anything),
    operator("an adapter merged", adapter, matrix),
    operator("other weights", noise, anything),
    operator("norm plus one", plus_one, is_norm),
    operator("cast", cast, anything),
    operator("detour through another dtype", detour, anything),
    operator("padding left in", padded, anything),
    operator("vocabulary padding left in", padded, vocabulary),
    operator("not gathered", shard_alone, matrix),
    operator("own shard gathered", repeated, matrix),
    operator("glued along the wrong axis", glued, matrix),
    operator("rows lost", truncated, anything),
    operator("reshaped", reshaped, matrix),
    operator("strided view", strided, matrix),
)
