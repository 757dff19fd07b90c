"""A layout is found out exactly, whatever a loader does with its tensors, and nothing of the model is lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint import fingerprint, fingerprint_many
from bridge_plugins.fingerprint.compute import Part
from bridge_plugins.layout.offsets import Offset
from bridge_plugins.layout.probe import Layout, find_layout
from bridge_plugins.layout.reachable import dense, reachable
from bridge_plugins.layout.sources import Source


class Holder(nn.Module):
    """Holds tensors as an engine might: fused, cut, stacked, transposed, interleaved, widened, computed."""

    def __init__(self, hidden: int, rank: int) -> None:
        super().__init__()
        self.half, self.rank = hidden // 2, rank

        def make(*shape: int, dtype: torch.dtype = torch.bfloat16) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape).to(dtype))

        self.qk = make(hidden, 3)  # rows of q, then rows of k
        self.o = make(5, self.half)  # columns of o
        self.stack = make(2, 4, 3)  # two experts
        self.turned = make(3, hidden)  # transposed
        self.gate_up = make(2 * 6, 3)  # rows of gate and up, turn by turn
        self.router = make(4, 3, dtype=torch.float32)  # held wider than sent
        self.norm = make(7)
        self.plus_one = make(7)  # computed
        self.padded = make(hidden + 3, 3)  # its last rows are never written
        self.untouched = make(4)
        self.derived = torch.zeros(2, 3)  # a plain attribute
        self.kept = [torch.zeros(3)]  # in a list

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        mine = slice(self.rank * self.half, (self.rank + 1) * self.half)
        for name, w in weights:
            with torch.no_grad():
                match name:
                    case "q":
                        self.qk[: self.half] = w[mine]
                    case "k":
                        self.qk[self.half :] = w[mine]
                    case "o":
                        self.o.copy_(w[:, mine])
                    case "expert.0":
                        self.stack[0] = w
                    case "expert.1":
                        self.stack[1] = w
                    case "turned":
                        self.turned.copy_(w.t())
                    case "gate":
                        self.gate_up[0::2] = w
                    case "up":
                        self.gate_up[1::2] = w
                    case "router":
                        self.router.copy_(w)
                    case "norm":
                        self.norm.copy_(w)
                    case "plus_one":
                        self.plus_one.copy_(w.add_(1))  # in place, as Gemma's loader does
                    case "padded":
                        self.padded[: w.shape[0]] = w
                    case _:
                        raise KeyError(name)
        self.derived = self.qk.detach()[:2].float() * 2  # a new tensor in the place of the old one
        self.kept[0].copy_(self.qk.detach()[0].float() * 3)


def sources_of(hidden: int) -> list[Source]:
    shapes = {
        "q": (hidden, 3), "k": (hidden, 3), "o": (5, hidden), "expert.0": (4, 3), "expert.1": (4, 3),
        "turned": (hidden, 3), "gate": (6, 3), "up": (6, 3), "router": (4, 3), "norm": (7,),
        "plus_one": (7,), "padded": (hidden, 3),
    }  # fmt: skip
    return [Source(name, shape, "bfloat16") for name, shape in shapes.items()]


def partials(model: Holder, layout: Layout, name: str) -> list[object]:
    held = {h.path: h.tensor for h in reachable(model)}
    mine = [b for b in layout.blocks if b.source.name == name]
    return list(fingerprint_many([Part(held[b.path], b.box, torch.bfloat16) for b in mine]))


# 3,000 rows need a second digit.
@pytest.mark.parametrize("hidden", [4, 16, 3000])
def test_blocks_of_all_ranks_sum_to_the_whole_tensor(hidden: int) -> None:
    sources = sources_of(hidden)
    weights = {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in sources}
    sums: dict[str, object] = {}
    for rank in (0, 1):
        model = Holder(hidden, rank)
        layout = find_layout(model, model.load, sources)
        model.load((name, w.clone()) for name, w in weights.items())
        for name in ("q", "k", "o"):
            for part in partials(model, layout, name):
                sums[name] = sums[name] + part if name in sums else part  # type: ignore[operator]
        for name in ("expert.0", "expert.1", "turned", "gate", "up", "router", "norm", "padded"):
            assert sum(partials(model, layout, name), 0) == fingerprint(weights[name]), name  # type: ignore[call-overload]
    for name, total in sums.items():
        assert total == fingerprint(weights[name]), name


def test_what_is_computed_is_said_and_what_is_never_written_is_not_claimed() -> None:
    model = Holder(8, 0)
    layout = find_layout(model, model.load, sources_of(8))
    assert not partials(model, layout, "plus_one")
    assert set(layout.derived) == {"plus_one", "derived", "kept.0"}
    assert "7 of 7 elements are computed" in layout.derived["plus_one"]
    assert not [b for b in layout.blocks if b.path == "untouched"]
    padded = [b for b in layout.blocks if b.path == "padded"]
    assert [b.box.size.rows for b in padded] == [8]


def test_a_dtype_that_carries_no_code_is_said() -> None:
    model = Holder(8, 0)
    layout = find_layout(model, model.load, [*sources_of(8), Source("scales", (3,), "int8")])
    assert "int8" in layout.untold["scales"]


def test_a_derived_tensor_in_another_order_is_not_passed_over() -> None:
    class Absorbed(nn.Module):
        """Keeps a part of a weight a second time, transposed head by head, as DeepSeek's absorbed weights are."""

        def __init__(self) -> None:
            super().__init__()
            self.kv_b = nn.Parameter(torch.randn(8, 3).bfloat16())
            self.w_vc = torch.randn(2, 3, 4).bfloat16()

        def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
            for _, w in weights:
                self.kv_b.data.copy_(w)
                self.w_vc = self.kv_b.data.view(2, 4, 3).transpose(1, 2).contiguous()

    model = Absorbed()
    layout = find_layout(model, model.load, [Source("kv_b", (8, 3), "bfloat16")])
    covered = sum(b.box.count for b in layout.blocks if b.path == "w_vc")
    assert covered == 24 or "w_vc" in layout.derived


CASTS = [("float16", "bfloat16"), ("bfloat16", "float16"), ("float32", "bfloat16"), ("float16", "float32")]


@pytest.mark.parametrize(("sent", "held"), CASTS)
def test_a_layout_does_not_depend_on_the_dtype_it_is_held_in(sent: str, held: str) -> None:
    model = nn.Module()
    model.w = nn.Parameter(torch.zeros(5, 3, dtype=getattr(torch, held)))

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for name, w in weights:
            if name == "w":
                model.w.data.copy_(w)

    other = "float16" if sent == "bfloat16" else "bfloat16"
    layout = find_layout(model, load, [Source("w", (5, 3), sent), Source("other", (2,), other)])
    assert [(b.source.name, b.box.count) for b in layout.blocks] == [("w", 15)]


def test_weights_that_look_like_codes_make_no_hole_and_no_block() -> None:
    from bridge_plugins.layout.codes import encode

    model = nn.Module()
    # The very codes that the probe will write there, and the same in a tensor that is never written.
    model.w = nn.Parameter(encode(torch.zeros(4, 3, dtype=torch.int64), torch.bfloat16))
    model.idle = nn.Parameter(encode(torch.zeros(4, 3, dtype=torch.int64), torch.bfloat16))

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for _, w in weights:
            model.w.data.copy_(w)

    layout = find_layout(model, load, [Source("w", (4, 3), "bfloat16")])
    assert [(b.path, b.box.count) for b in layout.blocks] == [("w", 12)]


def test_many_tensors_are_told_apart() -> None:
    count = 3000
    model = nn.Module()
    model.w = nn.Parameter(torch.zeros(count, 2, dtype=torch.bfloat16))

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for name, w in weights:
            model.w.data[int(name)] = w

    layout = find_layout(model, load, [Source(str(n), (2,), "bfloat16") for n in range(count)])
    told = {(int(b.source.name), b.box.local_offset.rows) for b in layout.blocks}
    assert told == {(n, n) for n in range(count)}


def test_rows_with_a_stride_are_one_box() -> None:
    model = nn.Module()
    model.w = nn.Parameter(torch.zeros(2 * 64, 4, dtype=torch.bfloat16))

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for _, w in weights:
            model.w.data.view(2, 64, 4)[0] = w[0::2]
            model.w.data.view(2, 64, 4)[1] = w[1::2]

    layout = find_layout(model, load, [Source("gate_up", (128, 4), "bfloat16")])
    assert [b.box.stride.rows for b in layout.blocks] == [2, 2]


@pytest.mark.parametrize("failing", [False, True])
def test_the_model_comes_back_bit_for_bit(failing: bool) -> None:
    model = Holder(8, 0)
    model.norm.data[0] = float("nan")
    before = {h.path: (h.tensor, h.tensor.detach().clone()) for h in reachable(model)}
    sources = [*sources_of(8), *([Source("unknown", (2,), "bfloat16")] if failing else [])]
    if failing:
        with pytest.raises(KeyError):
            find_layout(model, model.load, sources)
    else:
        find_layout(model, model.load, sources)
    after = {h.path: h.tensor for h in reachable(model)}
    assert before.keys() == after.keys()
    for path, (tensor, copy) in before.items():
        assert after[path] is tensor
        assert torch.equal(tensor.detach().view(torch.uint8), copy.view(torch.uint8)), path


def test_a_model_that_does_not_come_back_is_an_error() -> None:
    model = Holder(8, 0)

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        model.load(weights)
        model.norm.data = torch.zeros(3)  # of another shape: the old bits can't be put back

    with pytest.raises(LayoutError, match="1 tensors did not come back, first: norm"):
        find_layout(model, load, [source for source in sources_of(8) if source.name != "norm"])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_cut_of_any_tensors_is_found(data: st.DataObject) -> None:
    rows, cols = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 12))
    names = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True))
    # Every local row is some row of some tensor, or is never written.
    plan = data.draw(
        st.lists(st.tuples(st.sampled_from([*names, ""]), st.integers(0, rows - 1)), min_size=1, max_size=30)
    )
    left = data.draw(st.integers(0, cols - 1))
    width = data.draw(st.integers(1, cols - left))
    model = nn.Module()
    model.local = nn.Parameter(torch.zeros(len(plan), width, dtype=torch.bfloat16))

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for name, w in weights:
            for local, (owner, row) in enumerate(plan):
                if owner == name:
                    model.local.data[local] = w[row, left : left + width]

    layout = find_layout(model, load, [Source(name, (rows, cols), "bfloat16") for name in names])
    found: dict[tuple[int, int], tuple[str, int, int]] = {}
    for block in layout.blocks:
        box = block.box
        for i in range(box.size.rows):
            for j in range(box.size.cols):
                local = (box.local_offset.rows + i, box.local_offset.cols + j)
                place = (box.offset.rows + i * box.stride.rows, box.offset.cols + j * box.stride.cols)
                assert local not in found
                found[local[::-1] if box.transposed else local] = (block.source.name, *place)
    wanted = {
        (local, j): (owner, row, left + j)
        for local, (owner, row) in enumerate(plan)
        if owner
        for j in range(width)
    }
    assert found == wanted


def test_a_reload_stands_for_a_copy_of_the_model() -> None:
    model = Holder(8, 0)
    weights = {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in sources_of(8)}
    reloads = []

    def reload() -> None:
        reloads.append(1)
        model.load((name, w.clone()) for name, w in weights.items())

    reload()
    model.padded.data[-1] = 7  # what no checkpoint holds
    before = {h.path: (h.tensor, h.tensor.detach().clone()) for h in reachable(model)}
    layout = find_layout(model, model.load, sources_of(8), reload=reload)
    assert len(reloads) == 2
    assert layout == find_layout(model, model.load, sources_of(8))
    for held in reachable(model):
        tensor, copy = before[held.path]
        assert held.tensor is tensor
        assert torch.equal(tensor.detach(), copy), held.path


def test_a_reload_that_gives_other_weights_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge_plugins.layout import restore

    # Nothing is small enough to be copied: what the reload leaves out is lost.
    monkeypatch.setattr(restore, "SMALL_BYTES", 0)
    model = Holder(8, 0)
    weights = {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in sources_of(8)}
    model.load((name, w.clone()) for name, w in weights.items())

    def forgetful() -> None:
        model.load((name, w.clone()) for name, w in weights.items() if name != "router")

    def broken() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(LayoutError, match="1 tensors did not come back, first: router"):
        find_layout(model, model.load, sources_of(8), reload=forgetful)
    with pytest.raises(LayoutError, match=r"could not be put back .*the disk is gone"):
        find_layout(model, model.load, sources_of(8), reload=broken)


def test_what_a_loader_refused_at_once_is_not_loaded_again() -> None:
    # A reload can't be tried where loading itself is what doesn't work (weights that were packed after loading, say).
    model = Holder(8, 0)

    def refusing(_: object) -> None:
        raise AttributeError("'Parameter' object has no attribute 'weight_loader'")

    def reload() -> None:
        raise AssertionError("was loaded again")

    with pytest.raises(AttributeError, match="weight_loader"):
        find_layout(model, refusing, sources_of(8), reload=reload)


def test_a_stack_of_matrices_is_one_box_and_each_may_be_held_transposed() -> None:
    model = nn.Module()
    model.stack = nn.Parameter(torch.zeros(3, 4, 5).bfloat16())
    model.turned = nn.Parameter(torch.zeros(3, 5, 4).bfloat16())
    model.strided = (
        torch.zeros(3, 5, 4).bfloat16().transpose(1, 2)
    )  # shaped as sent, held the other way round

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for _, w in weights:
            model.stack.data.copy_(w)
            model.turned.data.copy_(w.transpose(1, 2))
            model.strided.copy_(w)

    source = Source("experts", (3, 4, 5), "bfloat16")
    layout = find_layout(model, load, [source])
    assert not layout.derived
    boxes: dict[str, list[object]] = {}
    for block in layout.blocks:
        boxes.setdefault(block.path, []).append(block.box)
    assert {path: len(found) for path, found in boxes.items()} == {"stack": 1, "turned": 3, "strided": 3}
    weight = torch.randn(3, 4, 5).bfloat16()
    load([("experts", weight)])
    held = {h.path: dense(h.tensor) for h in reachable(model)}
    for path in boxes:
        mine = [Part(held[path], block.box) for block in layout.blocks if block.path == path]
        assert sum(fingerprint_many(mine)) == fingerprint(weight), path  # type: ignore[comparison-overlap]


def test_a_computed_part_of_a_tensor_makes_it_derived_and_padding_does_not() -> None:
    model = nn.Module()
    model.partly = nn.Parameter(torch.randn(4, 3).bfloat16())
    model.padded = nn.Parameter(torch.randn(4, 3).bfloat16())

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        for _, w in weights:
            model.partly.data[:2] = w
            model.partly.data[2:] = w + 1
            model.padded.data[:2] = w
            model.padded.data[2:] = 0

    layout = find_layout(model, load, [Source("w", (2, 3), "bfloat16")])
    assert layout.derived == {"partly": "6 of 12 elements are computed by the loader, not copied"}


class GemmaNorm(nn.Module):
    """Keeps its weight plus one beside it, made anew at each load."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(300).bfloat16())
        self.more = self.weight.detach() + 1
        self.scaled = self.weight.detach() * 2

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        for _, w in weights:
            self.weight.data.copy_(w)
            self.more.copy_(self.weight.detach() + 1)
            self.scaled.copy_(self.weight.detach() * 2)


def test_a_constant_that_is_added_is_found_out_and_nothing_else_is_taken_for_one() -> None:
    model = GemmaNorm()
    layout = find_layout(model, model.load, [Source("norm", (300,), "bfloat16")])
    assert layout.offsets == {"more": Offset("weight", 1.0)}
    assert list(layout.derived) == ["scaled"]
    model.load([("norm", torch.randn(300).bfloat16())])
    assert bool(layout.offsets["more"].holds(model.more, model.weight))
    model.weight.data[7] += 0.5
    assert not bool(layout.offsets["more"].holds(model.more, model.weight))
