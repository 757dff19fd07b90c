"""Buckets: what the engine's loader joins in one call travels in one, whatever the order and the size."""

from __future__ import annotations

import random
import re
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from bridge_plugins.engines.sglang import buckets as room
from bridge_plugins.engines.sglang.buckets import buckets

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def deepseek(layers: int = 3, *, fp8: bool = False, q_lora: bool = True) -> list[tuple[str, Tensor]]:
    """Names as DeepSeek-V3's checkpoint has them, each tensor 64 elements."""
    names = ["model.embed_tokens.weight"]
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        names += [f"{prefix}.input_layernorm.weight"]
        attention = ["kv_a_proj_with_mqa", "kv_b_proj", "o_proj", *(["q_a_proj"] if q_lora else ["q_proj"])]
        modules = [f"{prefix}.self_attn.{name}" for name in attention]
        modules += [f"{prefix}.mlp.experts.{e}.{p}_proj" for e in range(4) for p in ("gate", "up", "down")]
        for module in modules:
            names += [f"{module}.weight", *([f"{module}.weight_scale_inv"] if fp8 else [])]
    return [(n, torch.zeros(64, dtype=FP8 if fp8 and re.search("proj.*weight$", n) else BF16)) for n in names]


def partners(name: str, *, fp8: bool) -> set[str]:
    pairs = [("q_a_proj", "kv_a_proj_with_mqa"), ("gate_proj", "up_proj")]
    other = {one: two for pair in pairs for one, two in (pair, pair[::-1])}
    module, _, _ = name.rpartition(".")
    parent, _, last = module.rpartition(".")
    modules = {module, *([f"{parent}.{other[last]}"] if last in other else [])}
    return {f"{m}.{p}" for m in modules for p in ("weight", *(["weight_scale_inv"] if fp8 else []))}


def split_pairs(stream: list[tuple[str, Tensor]], nbytes: int, *, fp8: bool) -> list[str]:
    """Names whose partner is in another bucket; and everything arrives once, in whole."""
    cut = [[name for name, _ in bucket] for bucket in buckets(iter(stream), nbytes)]
    assert sorted(name for bucket in cut for name in bucket) == sorted(name for name, _ in stream)
    names = {name for name, _ in stream}
    return [n for bucket in cut for n in bucket if not (partners(n, fp8=fp8) & names) <= set(bucket)]


def shuffled_in_layers(stream: list[tuple[str, Tensor]], seed: int) -> list[tuple[str, Tensor]]:
    layers: dict[str, list[tuple[str, Tensor]]] = {}
    for item in stream:
        layers.setdefault(room.place_of(item[0]).layer, []).append(item)
    for items in layers.values():
        random.Random(seed).shuffle(items)  # noqa: S311
    return [item for items in layers.values() for item in items]


@pytest.mark.parametrize("nbytes", [1, 128, 400, 1000, 3000])
@pytest.mark.parametrize("seed", range(8))
def test_joined_projections_are_never_split(nbytes: int, seed: int) -> None:
    assert split_pairs(shuffled_in_layers(deepseek(), seed), nbytes, fp8=False) == []


@pytest.mark.parametrize("nbytes", [1, 128, 1000])
@pytest.mark.parametrize("seed", range(8))
def test_nor_is_an_fp8_weight_from_its_scale(nbytes: int, seed: int) -> None:
    assert split_pairs(shuffled_in_layers(deepseek(fp8=True), seed), nbytes, fp8=True) == []


def test_without_the_rule_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "JOINED", ())
    assert any("q_a_proj" in name for name in split_pairs(deepseek(), 128, fp8=False))


def test_a_projection_that_has_no_companion_does_not_wait_for_ever() -> None:
    """DeepSeek-V2-Lite has no q_a_proj: its kv_a_proj must go when its layer is over."""
    sizes = [len(bucket) for bucket in buckets(iter(deepseek(20, q_lora=False)), 128)]
    assert max(sizes) <= 6


def test_a_bucket_is_given_away_before_the_next_tensor_is_made() -> None:
    """What was sent is not held while the stream goes on: the next bucket fills with the last one gone."""
    made: list[weakref.ref[Tensor]] = []
    alive = []

    def stream() -> Iterator[tuple[str, Tensor]]:
        for number in range(12):
            alive.append(sum(one() is not None for one in made))
            tensor = torch.zeros(64, dtype=BF16)
            made.append(weakref.ref(tensor))
            yield f"model.layers.0.x{number}.weight", tensor
            del tensor

    for bucket in buckets(stream(), 256):
        assert len(bucket) == 2
        del bucket
    assert max(alive) == 2
