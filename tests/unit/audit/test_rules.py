"""Each rule sees its fault, names where it is, and says nothing of a clean version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bridge_plugins.audit import Expected, Finding, Summary, WeightAudit
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules import Context
from bridge_plugins.audit.rules.stats import Stats
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.layout.sources import Source
from bridge_plugins.plugins import manager

Weights = dict[str, Tensor]


def weights(seed: int = 0) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    names = ["model.embed_tokens.weight", "model.norm.weight"]
    for layer in range(3):
        names += [f"model.layers.{layer}.self_attn.{p}_proj.weight" for p in "qk"]
        names += [
            f"model.layers.{layer}.mlp.experts.{e}.{p}_proj.weight" for e in range(3) for p in ("gate", "up")
        ]
    return {name: torch.randn(4, 6, generator=generator).to(torch.bfloat16) for name in names}


def expected(tensors: Weights) -> Expected:
    return Expected(
        "the checkpoint",
        {n: Source(n, tuple(t.shape), "bfloat16") for n, t in tensors.items()},
        {n: Record.of(n, tuple(t.shape), t.nbytes, fingerprint(t)) for n, t in tensors.items()},
    )


def judge(stream: list[tuple[str, Tensor]], truth: Weights) -> list[Finding]:
    audit = WeightAudit("tiny", expected=expected(truth))
    for _ in audit.watch(stream):
        pass
    return audit.finish("1")[1]


def exchange(tensors: Weights, one: str, other: str) -> Weights:
    return {n.replace(one, "\0").replace(other, one).replace("\0", other): t for n, t in tensors.items()}


def test_a_clean_version_has_no_finding() -> None:
    assert judge(list(weights().items()), weights()) == []
    assert judge(list(reversed(weights().items())), weights()) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda w: {n: t for n, t in w.items() if "layers.1." not in n}, "SET layer 1: 8 tensors"),
        (lambda w: {n: t for n, t in w.items() if n != "model.norm.weight"}, "SET model.norm.weight: "),
        (lambda w: {**w, "model.layers.9.x": torch.zeros(1)}, "SET layer 9: model.layers.9.x came that"),
        (lambda w: {n: t[:2] if "norm" in n else t for n, t in w.items()}, "SHAPE model.norm.weight: is [2, 6]"),
        (lambda w: {n: t.half() if "norm" in n else t for n, t in w.items()}, "DTYPE model.norm.weight: is float16"),
        (lambda w: exchange(w, "layers.0.", "layers.2."), "HASH layers 0 and 2: are exchanged"),
        (
            lambda w: exchange(w, "layers.1.mlp.experts.0.", "layers.1.mlp.experts.2."),
            "HASH layer 1: experts 0 and 2 are exchanged",
        ),
        (lambda w: exchange(w, "gate_proj", "up_proj"), "HASH layers 0-2 experts 0-2: gate_proj and up_proj are exchanged"),
        (lambda w: exchange(w, "q_proj", "k_proj"), "HASH layers 0-2: k_proj and q_proj are exchanged"),
        (
            # Only one of the two is wrong: that is no exchange.
            lambda w: {n: w[n.replace("gate", "up")] if "1.mlp.experts.0.gate" in n else t for n, t in w.items()},
            "HASH layer 1 expert 0: gate_proj holds the weights of up_proj",
        ),
        (
            lambda w: exchange(w, "layers.1.mlp.experts.0.gate", "layers.2.mlp.experts.0.up"),
            "HASH layer 1 expert 0 mlp.experts.0.gate_proj.weight: holds the bits of model.layers.2.mlp.experts.0.up_proj",
        ),
        (
            lambda w: {n: torch.zeros_like(t) if "layers.1.self" in n else t for n, t in w.items()},
            "HASH layer 1: 2 tensors (model.layers.1.self_attn.q_proj.weight, …) are all zeros",
        ),
        (
            lambda w: {n: t.flip(0) if "layers.1.self_attn.q" in n else t for n, t in w.items()},
            "HASH layer 1: model.layers.1.self_attn.q_proj.weight is unlike every tensor of the reference",
        ),
        (
            lambda w: {n: t * float("nan") if "norm" in n else t for n, t in w.items()},
            "STATS model.norm.weight: 24 elements are NaN",
        ),
    ],
)  # fmt: skip
def test_a_fault_is_named(fault: Callable[[Weights], Weights], said: str) -> None:
    findings = judge(list(fault(weights()).items()), weights())
    assert any(str(finding).startswith(said) for finding in findings), [str(f) for f in findings]


def test_a_layer_in_anothers_place_is_one_finding_not_one_per_tensor() -> None:
    findings = judge(list(exchange(weights(), "layers.0.", "layers.2.").items()), weights())
    assert [len(finding.names) for finding in findings] == [16]


def test_a_name_that_comes_twice_is_found() -> None:
    stream = [*weights().items(), *[(n, t) for n, t in weights().items() if "layers.2." in n]]
    assert any(str(f).startswith("UNIQ layer 2: 8 tensors") for f in judge(stream, weights()))


def versions(first: Weights, second: Weights, *, trained: bool) -> list[Finding]:
    audit = WeightAudit("tiny", expected=expected(first))
    for number, tensors in enumerate((first, second)):
        for _ in audit.watch(tensors.items()):
            pass
        findings = audit.finish(str(number), trained=trained and number > 0)[1]
    return findings


def test_delta() -> None:
    assert versions(weights(), weights(), trained=False) == []
    assert versions(weights(), weights(seed=1), trained=True) == []
    one_moved = {n: t + 1 if "norm" in n else t for n, t in weights().items()}
    still = versions(weights(), one_moved, trained=True)
    assert [str(finding) for finding in still if finding.counts] == []
    assert still[0].what.startswith("25 of 26 tensors have the bits of version 0")
    assert "no tensor moved since version 0" in str(versions(weights(), weights(), trained=True)[0])
    assert "DELTA model.norm.weight: 1 tensors moved" in str(versions(weights(), one_moved, trained=False)[0])


def test_without_a_checkpoint_nothing_is_claimed() -> None:
    audit = WeightAudit("tiny")
    for _ in audit.watch(weights().items()):
        pass
    summary, findings = audit.finish("1")
    assert findings == []
    assert summary.header.expected == ""


def test_rules_are_chosen_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = [(n, t * float("nan")) for n, t in weights().items() if n != "model.norm.weight"]

    def codes(**chosen: Any) -> set[str]:
        audit = WeightAudit("tiny", expected=expected(weights()), **chosen)
        for _ in audit.watch(stream):
            pass
        return {finding.rule for finding in audit.finish("1")[1]}

    assert codes() == {"SET", "STATS", "HASH"}
    assert codes(rules=()) == set()
    assert codes(rules=("SET", Stats())) == {"SET", "STATS"}
    monkeypatch.setenv("BRIDGE_AUDIT_RULES", "STATS, HASH")
    assert codes() == {"STATS", "HASH"}
    with pytest.raises(UsageError, match="there is no rule SETT; known are SET, UNIQ, COV"):
        codes(rules=("SETT",))


class NoOddNames:
    """A plugin's rule."""

    code = "ODD"

    def check(self, summary: Summary, context: Context) -> list[Finding]:  # noqa: ARG002
        return [Finding(self.code, "model", "too many tensors")] if len(summary.records) > 3 else []


class Plugin:
    @hookimpl
    def audit_rules(self) -> list[NoOddNames]:
        return [NoOddNames()]


def test_a_plugin_adds_a_rule_that_is_chosen_like_any_other() -> None:
    manager().register(plugin := Plugin())
    try:
        assert "ODD too many" in str(judge(list(weights().items()), weights())[0]).replace(" model:", "")
        audit = WeightAudit("tiny", rules=("ODD",))
        for _ in audit.watch(weights().items()):
            pass
        assert [finding.rule for finding in audit.finish("1")[1]] == ["ODD"]
    finally:
        manager().unregister(plugin)
