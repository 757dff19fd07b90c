"""What a process of the engine answers, from a model that it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from bridge_plugins.engines.sglang.inside import probe_after_load, readback
from bridge_plugins.errors import EngineError, LayoutError
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.layout.probe import find_layout
from bridge_plugins.layout.sources import Source


class Model(nn.Module):
    """Two fused tensors, and an output layer that is a copy of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.zeros(6, 4, dtype=torch.bfloat16))
        self.head = nn.Parameter(torch.zeros(6, 4, dtype=torch.bfloat16))
        self.fused = nn.Parameter(torch.zeros(5, 4))  # float32, fed bfloat16

    def load(self, weights: object) -> None:
        for name, w in weights:  # type: ignore[attr-defined]
            if name == "embed":
                self.embed.data.copy_(w)
                self.head.data.copy_(w)
            else:
                self.fused.data[{"q": slice(0, 2), "k": slice(2, 5)}[name]] = w.float()


SOURCES = [
    Source("embed", (6, 4), "bfloat16"),
    Source("q", (2, 4), "bfloat16"),
    Source("k", (3, 4), "bfloat16"),
]


@pytest.fixture
def model() -> Model:
    made = Model()
    made._bridge_layout = find_layout(made, made.load, SOURCES)  # type: ignore[assignment]
    return made


def test_each_tensor_is_told_as_the_stream_had_it(model: Model) -> None:
    weights = {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in SOURCES}
    model.load((name, w.clone()) for name, w in weights.items())
    for _ in range(2):  # the table is made once and used again
        answer = readback(model)
        for name, w in weights.items():
            for copy in answer.tensors[name]:
                assert copy.lanes == fingerprint(w).lanes
                assert copy.lossy == 0
        weights = {name: w + 1 for name, w in weights.items()}
        model.load((name, w.clone()) for name, w in weights.items())


def test_a_copy_that_stayed_behind_is_told_on_its_own(model: Model) -> None:
    model.embed.data.normal_()
    copies = readback(model).tensors["embed"]
    assert len(copies) == 2
    assert copies[0].lanes != copies[1].lanes


def test_values_that_the_stream_could_not_have_sent_are_counted(model: Model) -> None:
    model.fused.data[0, 0] = 1 / 3
    assert readback(model).tensors["q"][0].lossy == 1


def test_a_tensor_that_moved_is_found_at_its_new_address(model: Model) -> None:
    new = torch.randn(6, 4).to(torch.bfloat16)
    model.embed.data = new.clone()
    lanes = {copy.lanes for copy in readback(model).tensors["embed"]}
    assert fingerprint(new).lanes in lanes


def test_the_bits_are_taken_in_the_streams_dtype(model: Model) -> None:
    model.fused.data.normal_()
    answer = readback(model, dtype="bfloat16", dtypes={"q": "float32"})
    assert answer.tensors["q"][0].lanes == fingerprint(model.fused.data[:2]).lanes
    assert answer.tensors["q"][0].dtype == "float32"
    assert answer.tensors["k"][0].dtype == "bfloat16"
    assert readback(model, dtype="float32").untold["embed"] == "the engine holds bfloat16 of float32"


def test_a_tensor_that_is_gone_or_has_another_shape_is_named(model: Model) -> None:
    readback(model)
    model.fused.data = torch.zeros(6, 4)
    with pytest.raises(EngineError, match="not what the layout was found out for"):
        readback(model)
    del model.head
    with pytest.raises(EngineError, match="head was there when the layout was found out"):
        readback(model)


class Runner:
    """What `probe_after_load` uses of SGLang's ModelRunner."""

    def __init__(self, model_path: str) -> None:
        self.model = Model()
        self.model.load_weights = self.model.load  # type: ignore[assignment]
        self.model_config = self
        self.model_path = model_path


def test_a_server_whose_layout_cannot_be_found_out_serves_and_says_why(tmp_path: Path) -> None:
    runner = Runner(str(tmp_path))
    assert probe_after_load("loaded", runner) == "loaded"
    assert "no *.safetensors in" in readback(runner.model).derived["all"]


def test_without_a_layout_it_says_what_to_do() -> None:
    with pytest.raises(LayoutError, match="BRIDGE_READBACK=1"):
        readback(Model())
