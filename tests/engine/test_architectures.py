"""SGLang's own model classes in processes without a server: what is covered of each, and faults in their memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.engine.architectures import ARCHITECTURES
from tests.engine.model_rank import Sizes
from tests.engine.probe_case import Case, Result
from tests.faults.named import Named

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "engine_layouts.py"

#: One of each kind: tied embeddings, padding, norms plus one, experts, latent attention, stacked 3-D experts.
HANDFUL = ("Qwen3, tied embeddings", "Qwen3, odd vocabulary", "Gemma2", "Mixtral", "DeepSeek-V3", "GPT-OSS")

TP2, PP2 = Sizes(tp=2), Sizes(pp=2)
EXPERTS = "model.layers.1.mlp.experts."
KV_B = "model.layers.0.self_attn.kv_b_proj.weight"


def results(cases: list[Case]) -> list[Result]:
    """Of one process that imports SGLang once."""
    command = [sys.executable, str(SCRIPT), "--json"]
    done = subprocess.run(command, input=msgspec.json.encode(cases), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:].decode(errors="replace")
    lines = [line for line in done.stdout.splitlines() if line[:1] == b"{"]
    assert len(lines) == len(cases), done.stderr[-2000:].decode(errors="replace")
    return [msgspec.json.decode(line, type=Result) for line in lines]


def check(result: Result) -> None:
    said = f"{result.architecture} {result.sizes}"
    assert not result.failure, f"{said}: {result.failure}"
    assert (result.equal, result.mismatched) == (result.tensors, ()), said
    assert not result.not_compared, f"{said}: {result.not_compared}"
    assert result.asked == ("layers",), said


def stale(path: str) -> tuple[tuple[str, dict[str, object]], ...]:
    """A copy from before the push comes back after it."""
    return (("keep", {"path": path}), ("load", {"plus": 0.5}), ("put_back", {"path": path}))


#: What is broken → (the case, the tensors that must be named, what the findings must say).
BROKEN: dict[str, tuple[Case, set[str], str]] = {
    "a bit of an expert, on rank 1": (
        Case("Qwen3-MoE", Sizes(2, 2), (("flip", {"rank": 1, "path": EXPERTS + "w13", "index": [1, 5, 7]}),)),
        {EXPERTS + "3.gate_proj.weight"},
        "layer 1 expert 3",
    ),
    "a bit of a replica, on rank 1": (
        Case("Qwen3-MoE", Sizes(2, 2), (("flip", {"rank": 1, "path": "model.norm.weight", "index": [3]}),)),
        {"model.norm.weight"},
        "(ranks 1)",
    ),
    "a bit on the second pipeline stage": (
        Case(
            "Qwen3", PP2, (("flip", {"rank": 1, "path": "model.layers.1.input_layernorm.weight", "index": [0]}),)
        ),
        {"model.layers.1.input_layernorm.weight"},
        "(ranks 1)",
    ),
    "two experts": (
        Case("Mixtral", TP2, (("exchange", {"path": "model.layers.1.block_sparse_moe.experts.w", "one": 0, "other": 3}),)),
        {f"model.layers.1.block_sparse_moe.experts.{expert}.w{n}.weight" for expert in (0, 3) for n in (1, 2, 3)},
        "exchanged",
    ),
    "a layer from before the push": (
        Case("Qwen3", TP2, stale("model.layers.1.")),
        set(),  # all of the layer
        "still serves version 1 of 11 tensors",
    ),
    "absorbed keys from before the push": (
        Case("DeepSeek-V3", TP2, stale("model.layers.0.self_attn.w_kc")), {KV_B}, "model.layers.0.self_attn.w_kc",
    ),
    "absorbed values from before the push, on rank 1": (
        Case(
            "DeepSeek-V3", TP2,
            (
                ("keep", {"path": "model.layers.0.self_attn.w_vc"}),
                ("load", {"plus": 0.5}),
                ("put_back", {"rank": 1, "path": "model.layers.0.self_attn.w_vc"}),
            ),
        ),
        {KV_B},
        "(ranks 1)",
    ),
}  # fmt: skip


CLEAN = [Case(name, TP2) for name in HANDFUL] + [Case(HANDFUL[0], PP2), Case("DeepSeek-V3", PP2)]
NORM = "model.layers.0.input_layernorm.gemma_weight"
STALE_NORM = Case("Gemma2", Sizes(), stale(NORM))


@pytest.fixture(scope="module")
def found() -> dict[str, Result]:
    """What came of every case, by its name in `BROKEN`, or its architecture and sizes."""
    cases = {f"{case.architecture} {case.sizes}": case for case in CLEAN}
    cases |= {what: case for what, (case, _, _) in BROKEN.items()} | {NORM: STALE_NORM}
    return dict(zip(cases, results(list(cases.values())), strict=True))


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_a_handful_is_compared_whole_and_what_is_broken_is_named(found: dict[str, Result]) -> None:
    for case in CLEAN:
        result = found[f"{case.architecture} {case.sizes}"]
        check(result)
        # Nothing of these is padded: every byte of the engine's weights is some HF tensor's.
        assert result.compared == result.served or result.architecture in ("Qwen3, odd vocabulary", "GPT-OSS")
    for what, (case, names, said) in BROKEN.items():
        result = found[what]
        assert not result.failure, f"{what}: {result.failure}"
        assert set(result.mismatched) == (names or set(result.mismatched)), what
        assert len(result.mismatched) == (len(names) or 11), what
        assert any(said in finding for finding in result.findings), (what, result.findings)
        assert not result.not_compared, (what, result.not_compared)
        assert case.architecture == result.architecture


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.fault(
    74, place="engine's buffers", rule="READBACK",
    named="model.layers.0.input_layernorm.gemma_weight: not compared, it is not "
    "model.layers.0.input_layernorm.weight plus 1: it was not computed again",
)  # fmt: skip
def test_norms_plus_one_that_stayed_behind_are_not_compared(found: dict[str, Result], named: Named) -> None:
    result = found[NORM]
    assert (result.failure, result.mismatched) == ("", ())
    named(f"READBACK {path}: not compared, {why}" for path, why in result.not_compared.items())


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_every_architecture_is_compared() -> None:
    for result in results([Case(name, Sizes(tp)) for name in ARCHITECTURES for tp in (1, 2, 4)]):
        check(result)
