"""Four bytes that differ are placed by fingerprints alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.unit.audit.test_diagnosis_inside import told

NAME = "model.layers.3.self_attn.o_proj.weight"
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def flipped(tensor: Tensor, *places: tuple[int, int]) -> Tensor:
    """Another bit in (element, bit)."""
    out = tensor.clone()
    bits = out.view(INTEGERS[out.element_size()]).view(-1)
    for element, bit in places:
        bits[element] ^= torch.tensor(1).bitwise_left_shift(bit).to(bits.dtype)
    return out


@pytest.mark.parametrize(
    ("dtype", "shape", "element", "bit", "said"),
    [
        (torch.bfloat16, (64, 48), 0, 0, "row 0, columns 0-1"),
        (torch.bfloat16, (64, 48), 64 * 48 - 1, 15, "row 63, columns 46-47"),
        (torch.bfloat16, (64, 47), 47 + 46, 7, "row 1, column 46"),
        (torch.float16, (4, 8, 6), 3 * 48 + 13, 4, "row 26, columns 0-1"),
        (torch.float32, (64, 48), 49, 31, "row 1, column 1"),
        (torch.float8_e4m3fn, (8, 9), 9 + 5, 3, "row 1, columns 4-7"),
        (torch.bfloat16, (33,), 17, 9, "columns 16-17"),
    ],
)
def test_a_bit_is_placed(
    dtype: torch.dtype, shape: tuple[int, ...], element: int, bit: int, said: str
) -> None:
    right = torch.randn(shape).to(dtype)
    expected = f"layer 3: {NAME} differs in 4 bytes alone ({said})"
    assert told({NAME: right}, {NAME: flipped(right, (element, bit))}) == [expected]


def test_a_large_tensor_is_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge_plugins.audit.causes import one_word

    monkeypatch.setattr(one_word, "_ROWS", 100)
    right = torch.randn(64, 48)
    [said] = told({NAME: right}, {NAME: flipped(right, (40 * 48 + 5, 3))})
    assert said.endswith("differs in 4 bytes alone (row 40, column 5)")


@pytest.mark.parametrize("places", [((3, 1), (5, 1)), ((3, 1), (51, 1)), ((0, 4), (3000, 9))], ids=str)
def test_two_words_are_not_called_one(places: tuple[tuple[int, int], ...]) -> None:
    right = torch.randn(64, 48)
    [said] = told({NAME: right}, {NAME: flipped(right, *places)})
    assert said.endswith("is unlike every tensor of the reference")
