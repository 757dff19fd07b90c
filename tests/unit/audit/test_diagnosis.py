"""What happened to whole tensors: one sentence for each cause, and none that bits don't prove."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bridge_plugins.audit.diagnosis import Cause, diagnose
from bridge_plugins.audit.record import Record

Records = dict[str, Record]
LAYERS, EXPERTS = 6, 8


def model(version: int = 0) -> Records:
    """A model whose every tensor has lanes of its own, but for the equal input norms of layers 0 and 1."""
    names = ["model.embed_tokens.weight", "lm_head.weight"]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        names += [at + f"self_attn.{p}_proj.weight" for p in "qkv"] + [at + "input_layernorm.weight"]
        names += [at + f"mlp.experts.{e}.{p}_proj.weight" for e in range(EXPERTS) for p in ("gate", "up")]
    made = {name: Record(name, (4, 6), "bfloat16", (n + 1, version), 48) for n, name in enumerate(names)}
    first = "model.layers.0.input_layernorm.weight"
    made[second] = renamed(made[first], second) if (second := first.replace("0", "1")) else made[first]
    return made


def renamed(record: Record, name: str) -> Record:
    return Record(name, record.shape, record.dtype, record.lanes, record.nbytes)


def carried(source: Callable[[str], str]) -> Records:
    """The model where each name carries the weights of source(name)."""
    return {name: renamed(model()[source(name)], name) for name in model()}


def number(pattern: str, change: Callable[[int], int]) -> Callable[[str], str]:
    """Changes the number after `pattern` in a name."""
    return lambda name: re.sub(rf"(?<={pattern})\d+", lambda match: str(change(int(match[0]))), name)


def told(found: Records, reference: Records | None = None, **more: object) -> list[str]:
    right = reference or model()
    wrong = {name: record for name, record in found.items() if record.lanes != right[name].lanes}
    causes = diagnose(wrong, right, **more)  # type: ignore[arg-type]
    explained = [name for cause in causes for name in cause.names]
    assert sorted(explained) == sorted(wrong), "each wrong tensor is explained once"
    return [str(cause) for cause in causes]


def swap(one: int, other: int) -> Callable[[int], int]:
    return lambda n: {one: other, other: one}.get(n, n)


LAYER, EXPERT = r"layers\.", r"experts\."


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (number(LAYER, lambda n: 2 if n == 5 else n), ["layer 5: carries the weights of layer 2"]),
        (number(LAYER, swap(5, 2)), ["layers 2 and 5: are exchanged"]),
        (number(LAYER, lambda n: (n + 3) % 6), ["layers 0-2 and 3-5: are exchanged"]),
        (number(LAYER, lambda n: n + 3 if n < 3 else n), ["layers 0-2: carry the weights of layers 3-5"]),
        (
            number(LAYER, lambda n: (n + 1) % 6),
            ["layers 0-5: are rotated: layer n carries the weights of layer (n + 1) mod 6"],
        ),
        (
            number(LAYER, lambda n: (n % 2) * 3 + n // 2),
            ["layers 1-4: are interleaved: layer n carries the weights of layer (n mod 2)·3 + n div 2"],
        ),
        (
            lambda name: number(LAYER, swap(3, 4))(name) if "q_proj" in name else name,
            ["layers 3 and 4: are exchanged (q_proj alone)"],
        ),
        (number(EXPERT, swap(0, 1)), ["layers 0-5: experts 0 and 1 are exchanged"]),
        (number(EXPERT, lambda n: (n + 4) % 8), ["layers 0-5: experts 0-3 and 4-7 are exchanged"]),
        (
            number(EXPERT, lambda n: n + 4 if n < 4 else n),
            ["layers 0-5: experts 0-3 carry the weights of experts 4-7"],
        ),
        (
            number(EXPERT, lambda n: [3, 5, 0, 7, 1, 2, 4, 6][n]),
            ["layers 0-5: experts 0-7 carry other experts' weights: 0 has 3's, 1 has 5's, 2 has 0's, 3 has 7's, …"],
        ),
        (
            lambda name: number(EXPERT, swap(0, 1))(name) if "2.mlp" in name and "up" in name else name,
            ["layer 2: experts 0 and 1 are exchanged (up_proj alone)"],
        ),
        (
            lambda name: re.sub("gate|up", lambda m: {"gate": "up", "up": "gate"}[m[0]], name),
            ["layers 0-5 experts 0-7: gate_proj and up_proj are exchanged"],
        ),
        (
            lambda name: re.sub("[qkv]_proj", lambda m: {"q": "k", "k": "v", "v": "q"}[m[0][0]] + "_proj", name),
            ["layers 0-5: k_proj, q_proj, v_proj hold the weights of v_proj, k_proj, q_proj"],
        ),
        (
            lambda name: name.replace("gate", "up") if "1.mlp.experts.0." in name else name,
            ["layer 1 expert 0: gate_proj holds the weights of up_proj"],
        ),
        (
            lambda name: "lm_head.weight" if "embed" in name else name,
            ["model.embed_tokens.weight: holds the bits of lm_head.weight"],
        ),
    ],
)  # fmt: skip
def test_weights_in_anothers_place(source: Callable[[str], str], said: list[str]) -> None:
    assert told(carried(source)) == said


def changed(found: Records, lanes: tuple[int, int], *names: str) -> Records:
    return found | {name: Record(name, (4, 6), "bfloat16", lanes, 48) for name in names}


def test_zeros_and_bits_of_nobody_are_one_sentence_each() -> None:
    queries = [f"model.layers.{n}.self_attn.q_proj.weight" for n in (1, 2)]
    keys = [name.replace("q_proj", "k_proj") for name in queries]
    found = changed(changed(model(), (0, 0), *queries), (77, 78), *keys)
    assert told(found) == [
        f"layers 1-2: 2 tensors ({queries[0]}, …) are all zeros",
        "layers 1-2: 2 tensors (k_proj) are unlike every tensor of the reference",
    ]


def test_an_earlier_version_is_recognised() -> None:
    old, new = model(1), model(2)
    found = {name: old[name] if "layers.3." in name else record for name, record in new.items()}
    [said] = told(found, new, earlier={"version 1": old})
    assert said.startswith("layer 3: 20 tensors (")
    assert said.endswith("are as in version 1: nothing changed since")


def test_bits_that_several_tensors_have_prove_nothing() -> None:
    name = "model.layers.4.input_layernorm.weight"
    found = model() | {name: renamed(model()["model.layers.0.input_layernorm.weight"], name)}
    assert told(found) == [f"layer 4: {name} is like several others of the reference"]


def test_nothing_wrong_has_no_cause() -> None:
    assert diagnose({}, model()) == []
    assert str(Cause("layer 1", "is late", ())) == "layer 1: is late"


def test_a_part_of_a_stack_is_no_rotation_of_the_whole() -> None:
    names = {n: f"model.layers.{n}.w.weight" for n in range(3, 7)}
    right = {names[n]: Record(names[n], (4, 6), "bfloat16", (n, 1), 48) for n in names}
    wrong = {names[n]: renamed(right[names[n + 1 if n < 6 else 3]], names[n]) for n in names}
    assert told(wrong, right) == [
        "layers 3-5: carry the weights of layers 4-6",
        "layer 6: carries the weights of layer 3",
    ]
