"""The roll-up is linear, and tells apart what a layer holds under which name."""

import torch
from hypothesis import given, settings

from bridge_plugins.fingerprint import Digest, Fingerprint, fingerprint, layer_term, tensor_term
from bridge_plugins.fingerprint.rollup import layer_key, tensor_key
from tests.fingerprint.cases import seeds

SHAPES = {"q_proj.weight": (8, 6), "k_proj.weight": (8, 6), "gate.weight": (4, 6)}


def weights(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def term(name: str, found: Fingerprint) -> Digest:
    return tensor_term(name, found.dtype, SHAPES[name], found.lanes)


def digest(tensors: dict[str, torch.Tensor]) -> Digest:
    return sum((term(name, fingerprint(tensor)) for name, tensor in tensors.items()), Digest())


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_digests_add_over_shards_and_order(seed: int) -> None:
    tensors = weights(seed)
    shards = [
        term(name, fingerprint(tensor[row : row + 2], row_offset=row))
        for name, tensor in reversed(tensors.items())
        for row in range(0, len(tensor), 2)
    ]
    assert sum(shards, Digest()) == digest(tensors)
    ranks = [sum(shards[rank::3], Digest()) for rank in range(3)]
    layers = [layer_term("model.layers.5", rank) for rank in ranks]
    assert sum(layers, Digest()) == layer_term("model.layers.5", digest(tensors))


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_exchanged_tensors_change_a_layer(seed: int) -> None:
    tensors = weights(seed)
    other = tensors | {"q_proj.weight": tensors["k_proj.weight"], "k_proj.weight": tensors["q_proj.weight"]}
    assert digest(other) != digest(tensors)


def test_exchanged_layers_change_a_model_and_are_found() -> None:
    five, six = digest(weights(5)), digest(weights(6))
    model = layer_term("model.layers.5", five) + layer_term("model.layers.6", six)
    swapped = layer_term("model.layers.5", six) + layer_term("model.layers.6", five)
    assert model != swapped
    # Names inside a layer are relative: the same weights have the same digest wherever they are.
    assert {five: 5, six: 6}[digest(weights(6))] == 6


def test_keys_depend_on_every_field() -> None:
    keys = {
        tensor_key("a.weight", "bfloat16", (4, 8)),
        tensor_key("b.weight", "bfloat16", (4, 8)),
        tensor_key("a.weight", "float32", (4, 8)),
        tensor_key("a.weight", "bfloat16", (8, 4)),
        tensor_key("a.weight", "bfloat16", (48,)),
        layer_key("a.weight"),
    }
    assert len(keys) == 6
    assert all(key % 2 == 1 and key < 2**64 for key in keys)


def test_pinned() -> None:
    # Summaries on disk depend on these for ever.
    assert tensor_key("mlp.gate.weight", "bfloat16", (128, 2048)) == 0x8257495715A8DCD1
    assert layer_key("model.layers.5") == 0x767B3CCFE36F7775
    assert str(Digest((1, 2**64 - 1))) == "0000000000000001ffffffffffffffff"
