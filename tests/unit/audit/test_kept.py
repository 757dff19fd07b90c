"""What a rule found of names, dtypes and shapes is kept from version to version: never where one of them has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
import torch

from bridge_plugins.audit import Summary
from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.rules import BUILT_IN, Context
from tests.unit.audit.model import Weights, expected, said, summary, weights

UP = "model.layers.2.mlp.experts.1.up_proj.weight"
RULES = {rule.code: rule for rule in BUILT_IN}


def without(tensors: Weights) -> Weights:
    return {name: tensor for name, tensor in tensors.items() if name != UP}


def wire_of(change: Callable[[Weights], Weights], **header: str) -> Callable[[Context], Context]:
    return lambda context: replace(context, wire=summary(change(weights()), stage="wire", **header))


def same(context: Context) -> Context:
    return context


@pytest.mark.parametrize(
    ("code", "stream", "context"),
    [
        ("SET", without, same),
        ("COV", lambda w: {n: t for n, t in w.items() if ".layers.3." not in n}, same),
        ("SHAPE", lambda w: {**w, UP: w[UP][:4]}, same),
        ("DTYPE", lambda w: {**w, UP: w[UP].to(torch.float16)}, same),
        ("PAIR", without, same),
        ("SET", dict, wire_of(without)),
        ("SHAPE", dict, wire_of(lambda w: {**w, UP: w[UP][:4]})),
        ("DTYPE", dict, wire_of(lambda w: {**w, UP: w[UP].to(torch.float16)})),
        ("PAIR", dict, wire_of(without)),
        ("SET", dict, lambda c: replace(c, expected=expected(without(weights())))),
        ("SET", dict, lambda c: replace(c, unread={"odd": "why"})),
        ("DTYPE", dict, lambda c: replace(c, declared=Declared(dtypes=((UP, "float32"),)))),
    ],
)
def test_what_changes_after_clean_versions_is_found(
    code: str, stream: Callable[[Weights], Weights], context: Callable[[Context], Context]
) -> None:
    rule, clean = RULES[code], Context(expected=expected(weights()))
    for version in "12":
        assert said(rule.check(summary(weights(int(version)), version=version), clean)) == []
    found = said(rule.check(summary(stream(weights(3)), version="3"), context(clean)))
    assert found
    assert said(rule.check(summary(stream(weights(4)), version="4"), context(clean))) == found
    assert said(rule.check(summary(weights(5), version="5"), clean)) == []


def test_a_fault_of_names_is_told_of_every_version_and_of_no_partial_one() -> None:
    rule, context = RULES["SET"], Context(expected=expected(weights()))
    whole = summary(without(weights()))
    partial: Summary = msgspec.structs.replace(
        whole, header=msgspec.structs.replace(whole.header, partial="its consumer closed it early")
    )
    assert len(said(rule.check(whole, context))) == len(said(rule.check(whole, context))) == 1
    assert said(rule.check(partial, context)) == []


def test_a_pair_that_is_torn_apart_by_the_buckets_of_one_version_is_found() -> None:
    rule, one = RULES["PAIR"], summary(weights(), bucket=1)
    name = "model.layers.1.self_attn.q_a_proj.weight"
    apart = {**one.records, name: msgspec.structs.replace(one.records[name], bucket=2)}
    torn = msgspec.structs.replace(one, records=apart)
    assert [len(said(rule.check(each, Context()))) for each in (one, torn, one)] == [0, 1, 0]
