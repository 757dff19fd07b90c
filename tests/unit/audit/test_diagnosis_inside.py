"""What happened inside a tensor: proved with the wrong tensor, or the right one, or both at hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import fingerprint

NAME = "model.layers.{}.self_attn.{}.weight"


def record(name: str, tensor: Tensor) -> Record:
    return Record.of(name, tuple(tensor.shape), tensor.nbytes, fingerprint(tensor))


def told(right: dict[str, Tensor], wrong: dict[str, Tensor], *at_hand: str) -> list[str]:
    causes = diagnose(
        {name: record(name, tensor) for name, tensor in wrong.items()},
        {name: record(name, tensor) for name, tensor in right.items()},
        found=wrong.get if "wrong" in at_hand else None,
        expected=right.get if "right" in at_hand else None,
    )
    assert sorted(name for cause in causes for name in cause.names) == sorted(wrong)
    return [str(cause) for cause in causes]


def one(word: str, right: Tensor, fault: Callable[[Tensor], Tensor], *at_hand: str) -> str:
    name = NAME.format(3, word)
    [said] = told({name: right, "other": torch.randn(3)}, {name: fault(right)}, *at_hand)
    return said.removeprefix("layer 3: ")


def matrix(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


def blocks(order: list[int], dim: int) -> Callable[[Tensor], Tensor]:
    return lambda t: torch.cat([t.chunk(len(order), dim)[n] for n in order], dim)


def swapped(*sizes: int) -> Callable[[Tensor], Tensor]:
    """Rows seen as sizes[0] x sizes[1] x ... with the two last of three exchanged."""
    return lambda t: t.reshape(*sizes, -1).transpose(1, 2).reshape(t.shape)


def by_group(head: int, groups: int, queries: int) -> Callable[[Tensor], Tensor]:
    def view(t: Tensor) -> Tensor:
        q, k, v = torch.split(t, [groups * queries * head, groups * head, groups * head])
        return torch.cat(
            [torch.cat([q.chunk(groups)[n], k.chunk(groups)[n], v.chunk(groups)[n]]) for n in range(groups)]
        )

    return view


REARRANGED = [
    ("o_proj", (32, 32), Tensor.t, "o_proj is transposed"),
    ("o_proj", (32, 48), Tensor.t, "o_proj is transposed"),
    ("o_proj", (3, 8, 12), lambda t: t.transpose(1, 2), "o_proj is transposed"),
    ("o_proj", (32, 48), blocks([1, 0], 1), "TP shards of o_proj are in the order 1,0 (columns)"),
    ("q_proj", (32, 48), blocks([2, 0, 3, 1], 0), "TP shards of q_proj are in the order 2,0,3,1 (rows)"),
    (
        "q_proj",
        (64, 6),
        blocks([7, 0, 1, 2, 3, 4, 5, 6], 0),
        "TP shards of q_proj are in the order 7,0,1,2,3,4,5,6 (rows)",
    ),
    ("gate_up_proj", (32, 48), blocks([1, 0], 0), "gate and up are exchanged inside gate_up_proj"),
    ("down_proj", (4, 8, 12), blocks([2, 3, 0, 1], 0), "2 blocks of down_proj's stack are in the order 1,0"),
    (
        "q_proj",
        (320, 8),
        swapped(1, 8, 5),
        "rows of q_proj are ordered as 5 x 8 blocks of 8 where they should be 8 x 5",
    ),
    (
        "gate_up_proj",
        (192, 8),
        swapped(1, 2, 6),
        "rows of gate_up_proj are ordered as 6 x 2 blocks of 16 where they should be 2 x 6",
    ),
    ("q_proj", (192, 8), swapped(3, 2, 32), "the halves of each head of 64 rows of q_proj are interleaved"),
    (
        "qkv_proj",
        (8 * 3 * 16, 8),
        by_group(16, 3, 6),
        "q, k and v of qkv_proj lie by group (3 groups of 6 + 2 heads of 16) instead of all q, all k, all v",
    ),
    (
        "o_proj",
        (32, 48),
        lambda t: torch.cat(t.chunk(4, 1)),
        "4 TP shards of o_proj are glued along rows instead of columns",
    ),
    (
        "q_proj",
        (32, 48),
        lambda t: torch.cat(t.chunk(2), 1),
        "2 TP shards of q_proj are glued along columns instead of rows",
    ),
]


@pytest.mark.parametrize(("word", "shape", "fault", "said"), REARRANGED)
@pytest.mark.parametrize("at_hand", ["wrong", "right"])
def test_a_rearrangement_is_proved_with_either_side(
    word: str, shape: tuple[int, ...], fault: Callable[[Tensor], Tensor], said: str, at_hand: str
) -> None:
    assert one(word, matrix(*shape), fault, at_hand) == said


@pytest.mark.parametrize(("word", "shape", "fault", "_"), REARRANGED[:3])
def test_without_tensors_nothing_is_said_of_their_inside(
    word: str, shape: tuple[int, ...], fault: Callable[[Tensor], Tensor], _: str
) -> None:
    assert one(word, matrix(*shape), fault).endswith("is unlike every tensor of the reference")


ROUTER = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("word", "right", "fault", "at_hand", "said"),
    [
        (
            "embed_tokens",
            matrix(40, 8),
            lambda t: torch.cat([t, torch.zeros(24, 8, dtype=t.dtype)]),
            "wrong",
            "embed_tokens has 24 rows after the reference's 40, all zeros: padding was left in",
        ),
        (
            "embed_tokens",
            matrix(40, 8),
            lambda t: torch.cat([t, t[:24]]),
            "wrong",
            "embed_tokens has 24 rows after the reference's 40",
        ),
        (
            "q_proj",
            matrix(8, 8),
            lambda t: torch.cat([t, t]),
            "wrong",
            "q_proj is there 2 times along its rows",
        ),
        (
            "q_proj",
            matrix(8, 8),
            lambda t: t[4:],
            "right",
            "q_proj is TP shard 1 of 2 alone (rows): it was not gathered",
        ),
        (
            "o_proj",
            matrix(8, 8),
            lambda t: t[:, :2],
            "right",
            "o_proj is TP shard 0 of 4 alone (columns): it was not gathered",
        ),
        (
            "embed_tokens",
            matrix(40, 8),
            lambda t: t[:39],
            "right",
            "the last 1 of 40 rows of embed_tokens are missing",
        ),
        (
            "o_proj",
            matrix(8, 8),
            lambda t: torch.cat([t[:, :4], t[:, :4]], 1),
            "wrong",
            "all 2 TP shards of o_proj hold the same bits (columns)",
        ),
        (
            "gate",
            ROUTER,
            Tensor.bfloat16,
            "right",
            "gate was cast to bfloat16: 128 of 128 elements lost bits",
        ),
        (
            "gate",
            ROUTER.bfloat16().float(),
            Tensor.bfloat16,
            "right",
            "gate was cast to bfloat16: no element lost bits",
        ),
        ("gate", ROUTER.bfloat16(), Tensor.float, "right", "gate was cast to float32: no element lost bits"),
        (
            "gate",
            ROUTER.bfloat16(),
            Tensor.float,
            "wrong",
            "gate is float32; as bfloat16 it is the reference's",
        ),
        (
            "gate",
            ROUTER,
            lambda t: t.bfloat16().float(),
            "right",
            "gate went through bfloat16: 128 of 128 elements lost bits",
        ),
        (
            "input_layernorm",
            matrix(16),
            lambda t: (t.float() + 1).bfloat16(),
            "right",
            "input_layernorm is the reference plus 1",
        ),
        (
            "input_layernorm",
            matrix(16),
            lambda t: (t.float() - 1).bfloat16(),
            "right",
            "input_layernorm is the reference minus 1",
        ),
    ],
)
def test_what_else_is_proved(
    word: str, right: Tensor, fault: Callable[[Tensor], Tensor], at_hand: str, said: str
) -> None:
    assert one(word, right, fault, at_hand) == said


def test_one_sentence_for_all_layers() -> None:
    right = {
        NAME.format(n, p): matrix(16, 16) + n + ord(p[0]) for n in range(4) for p in ("o_proj", "q_proj")
    }
    wrong = {name: blocks([1, 0], 1)(t) for name, t in right.items() if "o_proj" in name}
    assert told(right, wrong, "wrong", "right") == [
        "layers 0-3: TP shards of o_proj are in the order 1,0 (columns)"
    ]


def test_other_weights_are_no_rearrangement() -> None:
    right, other = matrix(16, 16), matrix(16, 16).flip(0).flip(1) * 2
    name = NAME.format(3, "q_proj")
    [said] = told({name: right}, {name: other}, "wrong", "right")
    assert said.endswith("is unlike every tensor of the reference")


def test_one_bit_is_enough_to_prove_nothing() -> None:
    def fault(t: Tensor) -> Tensor:
        turned = t.t().contiguous()
        turned.view(torch.int16)[3, 4] ^= 1
        return turned

    assert one("o_proj", matrix(32, 48), fault, "wrong", "right").endswith(
        "unlike every tensor of the reference"
    )


def test_a_kind_that_nothing_explains_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge_plugins.audit.causes.inside import all as inside

    tried: list[str] = []

    def hypothesis(case: object) -> None:
        tried.append(case.right.name)  # type: ignore[attr-defined]

    monkeypatch.setattr(inside, "HYPOTHESES", (hypothesis,))
    right = {NAME.format(n, "q_proj"): matrix(4, 4) + n for n in range(9)}
    told(right, {name: t * 3 for name, t in right.items()}, "wrong")
    assert len(tried) == 3


def at(row: int, column: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Changes what lies to the right of and below (row, column)."""

    def fault(tensor: Tensor) -> Tensor:
        out = tensor.clone()
        out[row:, column:] = change(out[row:, column:])
        return out

    return fault


def one_bit(tensor: Tensor) -> Tensor:
    out = tensor.clone()
    out.view(torch.int16)[3, 7] ^= 1 << 4
    return out


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (one_bit, "1 of 1,024 elements of o_proj differs in bit 4 (row 3, column 7)"),
        (at(30, 30, torch.zeros_like), "4 of 1,024 elements of o_proj are zero (rows 30-31, columns 30-31)"),
        (at(31, 0, torch.neg), "32 of 1,024 elements of o_proj have the other sign (row 31, columns 0-31)"),
        (at(31, 31, lambda t: t / 0), "1 of 1,024 elements of o_proj is NaN or infinite (row 31, column 31)"),
        (at(30, 30, lambda t: t * 1.5), "4 of 1,024 elements of o_proj differ (rows 30-31, columns 30-31)"),
        (lambda t: t * 0.5, "model.layers.3.self_attn.o_proj.weight is the reference times 0.5"),
        (lambda t: t.reshape(16, 64), "o_proj has the reference's elements in its order, as [16, 64] instead of [32, 32]"),
    ],
)  # fmt: skip
def test_elements_that_differ_are_counted_and_placed(fault: Callable[[Tensor], Tensor], said: str) -> None:
    assert one("o_proj", matrix(32, 32), fault, "wrong", "right") == said


def projections(*words: str, rows: tuple[int, ...]) -> dict[str, Tensor]:
    """Two layers of tensors that a trainer keeps as one."""
    return {
        NAME.format(layer, word): matrix(size, 8) + layer + number
        for layer in (0, 1)
        for number, (word, size) in enumerate(zip(words, rows, strict=True))
    }


def cut_anew(view: Callable[[Tensor], Tensor], right: dict[str, Tensor], each: int) -> dict[str, Tensor]:
    """The tensors of each layer glued, seen through `view`, and cut as they were."""
    names = list(right)
    wrong: dict[str, Tensor] = {}
    for start in range(0, len(names), each):
        members = names[start : start + each]
        parts = view(torch.cat([right[n] for n in members])).split([len(right[n]) for n in members])
        wrong.update(zip(members, parts, strict=True))
    return wrong


@pytest.mark.parametrize("at_hand", [("wrong",), ("right",), ("wrong", "right")], ids=str)
@pytest.mark.parametrize(
    ("words", "rows", "view", "said"),
    [
        (
            ("gate_proj", "up_proj"), (48, 48), swapped(1, 2, 4),
            "gate_proj and up_proj are the halves of 4 TP shards glued together, each of which has both",
        ),
        (
            ("w1", "w3"), (48, 48), swapped(1, 4, 2),
            "w1 and w3 are glued from the halves of 4 TP shards of both together",
        ),
        (
            ("q_proj", "k_proj", "v_proj"), (128, 64, 64), by_group(16, 4, 2),
            ("q_proj, k_proj and v_proj are cut as all q, all k, all v from a projection that lies by group "
             "(4 groups of 2 + 2 heads of 16)"),
        ),
    ],
)  # fmt: skip
def test_what_is_one_in_the_trainer_was_cut_at_the_wrong_rows(
    words: tuple[str, ...],
    rows: tuple[int, ...],
    view: Callable[[Tensor], Tensor],
    said: str,
    at_hand: tuple[str, ...],
) -> None:
    right = projections(*words, rows=rows)
    assert told(right, cut_anew(view, right, len(words)), *at_hand) == [f"layers 0-1: {said}"]


def test_one_wrong_bit_and_rows_are_not_said_to_be_cut_wrongly() -> None:
    right = projections("gate_proj", "up_proj", rows=(48, 48))
    wrong = cut_anew(swapped(1, 2, 4), right, 2)
    for tensor in wrong.values():
        tensor.view(torch.int16)[3, 5] ^= 1
    [said] = told(right, wrong, "wrong", "right")
    assert said == "layers 0-1: 4 tensors (gate_proj, up_proj) are unlike every tensor of the reference"


def adapter(rank: int, size: float) -> Tensor:
    """What merging an adapter of this rank adds to a matrix of 64 x 96."""
    torch.manual_seed(rank)
    return size * torch.randn(64, rank) @ torch.randn(rank, 96)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("size", [0.5, -0.5, 10.0])
def test_a_difference_of_low_rank_is_told_with_both_sides_at_hand(dtype: torch.dtype, size: float) -> None:
    def merged(tensor: Tensor) -> Tensor:
        return (tensor.float() + adapter(4, size)).to(dtype)

    right = matrix(64, 96).to(dtype)
    said = "o_proj differs from the reference by a matrix of rank 4, as an adapter is"
    assert one("o_proj", right, merged, "wrong", "right") == said
    assert one("o_proj", right, merged, "right").endswith("unlike every tensor of the reference")


@pytest.mark.parametrize(
    "fault",
    [
        lambda t: (t.float() + adapter(32, 0.5)).bfloat16(),
        lambda t: (t.float() + 0.003 * adapter(1, 1.0)).bfloat16(),
        lambda t: (t.float() * (1 + 0.1 * torch.rand(t.shape))).bfloat16(),
        lambda t: torch.cat([t[:12] * 3 + 1, t[12:]]),
        lambda t: t[[*range(1, 12), 0, *range(12, 64)]],
    ],
    ids=["of high rank", "as small as roundings", "noise", "other rows", "rows in another order"],
)
def test_what_may_be_anything_is_not_called_an_adapter(fault: Callable[[Tensor], Tensor]) -> None:
    said = one("o_proj", matrix(64, 96), fault, "wrong", "right")
    assert said.endswith("unlike every tensor of the reference")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("factor", "said"), [(1.5, "1.5"), (45.25, "45.25"), (-0.3, "-0.3")])
def test_any_factor_is_told_with_both_sides_at_hand(dtype: torch.dtype, factor: float, said: str) -> None:
    def times(tensor: Tensor) -> Tensor:
        return (tensor.float() * factor).to(dtype)

    told_of = one("o_proj", matrix(32, 48).to(dtype), times, "wrong", "right")
    assert told_of.startswith(f"o_proj is the reference times {said[:3]}")


def test_a_factor_that_some_elements_escape_is_none() -> None:
    def fault(tensor: Tensor) -> Tensor:
        out = tensor * 1.5
        out[3] = tensor[3]
        return out

    assert "times" not in one("o_proj", matrix(32, 48), fault, "wrong", "right")
