"""What a process of the engine answers, from a model that it holds."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from bridge_plugins.engines.sglang.actions import layers, probe, records
from bridge_plugins.engines.sglang.holders import agree, places
from bridge_plugins.engines.sglang.inside import probe_after_load
from bridge_plugins.engines.sglang.known import Known
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
    layout = find_layout(made, made.load, SOURCES)
    mine = places(layout.blocks, {source.name: number for number, source in enumerate(SOURCES)})
    made._bridge_known = Known.of(made, layout, SOURCES, agree(layout.blocks, 0, [mine], SOURCES), "yes")  # type: ignore[assignment]
    return made


def test_each_tensor_is_told_as_the_stream_had_it(model: Model) -> None:
    weights = {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in SOURCES}
    model.load((name, w.clone()) for name, w in weights.items())
    told = records(model).tensors
    assert set(told) == set(weights)
    for name, w in weights.items():
        for copy in told[name]:
            assert copy.lanes == fingerprint(w).lanes
            assert (copy.lossy, copy.absmax) == (0, float(w.abs().max()))


def test_a_copy_that_stayed_behind_is_told_on_its_own(model: Model) -> None:
    model.embed.data.normal_()
    copies = records(model).tensors["embed"]
    assert len(copies) == 2
    assert copies[0].lanes != copies[1].lanes


def test_layers_follow_the_weights_and_a_tensor_that_moved(model: Model) -> None:
    first = layers(model).digests
    assert layers(model).digests == first
    model.embed.data = torch.randn(6, 4).to(torch.bfloat16)
    assert layers(model).digests != first
    model.embed.data = torch.zeros(6, 4, dtype=torch.bfloat16)
    assert layers(model).digests == first


def test_the_bits_are_taken_in_the_streams_dtype(model: Model) -> None:
    model.fused.data.normal_()
    told = records(model, dtype="bfloat16", dtypes={"q": "float32"})
    assert told.tensors["q"][0].lanes == fingerprint(model.fused.data[:2]).lanes
    assert told.tensors["q"][0].dtype == "float32"
    assert told.tensors["k"][0].dtype == "bfloat16"
    assert records(model, dtype="float32").untold["embed"] == "the engine holds bfloat16 of float32"


def test_a_tensor_that_is_gone_or_has_another_shape_is_named(model: Model) -> None:
    layers(model)
    model.fused.data = torch.zeros(6, 4)
    with pytest.raises(EngineError, match="not what the layout was found out for"):
        layers(model)
    del model.head
    with pytest.raises(EngineError, match="head was there when the layout was found out"):
        layers(model)


class Runner:
    """What the hooks use of SGLang's ModelRunner."""

    is_draft_worker, pp_size, device = False, 1, "cpu"

    def __init__(self, model_path: str) -> None:
        self.model = Model()
        self.model.load_weights = self.model.load  # type: ignore[assignment]
        self.model_config = types.SimpleNamespace(
            model_path=model_path, dtype=torch.float32, quantization=None
        )
        self.loader = object()


def test_a_server_whose_layout_cannot_be_found_out_serves_and_says_why(tmp_path: Path) -> None:
    runner = Runner(str(tmp_path))
    assert probe_after_load("loaded", runner) == "loaded"
    assert layers(runner.model).derived == 1
    assert "no *.safetensors in" in records(runner.model).derived["all"]


def test_without_a_layout_it_says_what_to_do() -> None:
    with pytest.raises(LayoutError, match="BRIDGE_READBACK=1"):
        layers(Model())


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from safetensors.torch import save_file

    save_file(
        {s.name: torch.randn(s.shape).to(torch.bfloat16) for s in SOURCES}, tmp_path / "model.safetensors"
    )
    # SGLang's loader module, of which only two static methods are used: here those of a version without them.
    loader = types.ModuleType("sglang.srt.model_loader.loader")
    loader.DefaultModelLoader = type("DefaultModelLoader", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sglang.srt.model_loader.loader", loader)
    return tmp_path


def test_weights_that_are_packed_after_loading_are_left_alone_where_that_cannot_be_undone(
    checkpoint: Path,
) -> None:
    runner = Runner(str(checkpoint))
    runner.model_config.quantization = "fp8"
    weights = torch.randn(6, 4).to(torch.bfloat16)
    runner.model.load([("embed", weights)])
    assert probe_after_load("loaded", runner) == "loaded"
    assert records(runner.model).derived["all"].startswith("fp8 weights are packed anew once they are loaded")
    assert torch.equal(runner.model.embed.data, weights)


def test_live_probing_is_asked_for(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_READBACK", "live")
    runner = Runner(str(checkpoint))
    weights = torch.randn(6, 4).to(torch.bfloat16)
    runner.model.load([("embed", weights)])
    probe_after_load("loaded", runner)
    with pytest.raises(LayoutError, match=r"ask for the action bridge\.probe"):
        layers(runner.model)
    told = probe(runner.model)
    assert (told.derived, told.compared) == (0, 2 * 6 * 4 * 2 + 5 * 4 * 4)
    # What was there comes back, not what the checkpoint has.
    assert torch.equal(runner.model.embed.data, weights)


def test_a_live_probe_that_loses_weights_ends_the_server(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_READBACK", "live")
    runner = Runner(str(checkpoint))

    def load(weights: object) -> None:
        Model.load(runner.model, weights)
        runner.model.head.data = torch.zeros(2, 2, dtype=torch.bfloat16)

    runner.model.load_weights = load  # type: ignore[assignment]
    probe_after_load("loaded", runner)
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: killed.append(given))
    with pytest.raises(LayoutError, match="did not come back"):
        probe(runner.model)
    assert killed == [(os.getppid(), signal.SIGQUIT)]


class Counting(Model):
    """Counts how often it is loaded."""

    loads = 0

    def load(self, weights: object) -> None:
        Counting.loads += 1
        super().load(weights)


def start(checkpoint: Path) -> tuple[Runner, int]:
    """A server's start, and how often its model was loaded for the probe."""
    runner = Runner(str(checkpoint))
    runner.model = Counting()
    runner.model.load_weights = runner.model.load  # type: ignore[assignment]
    Counting.loads = 0
    probe_after_load("loaded", runner)
    return runner, Counting.loads


def test_a_layout_is_kept_and_a_damaged_file_is_ignored(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("layouts")
    monkeypatch.setenv("BRIDGE_LAYOUT_DIR", str(folder))
    first, loads = start(checkpoint)
    assert loads
    again, loads = start(checkpoint)
    assert loads == 0
    assert again.model._bridge_known.layout == first.model._bridge_known.layout  # type: ignore[union-attr]
    [file] = folder.iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:-7], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b""):
        file.write_bytes(damaged)
        mended, loads = start(checkpoint)
        assert loads
        assert mended.model._bridge_known.layout == first.model._bridge_known.layout  # type: ignore[union-attr]
        assert file.read_bytes() == whole


def test_a_kept_layout_belongs_to_one_way_to_start(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_LAYOUT_DIR", str(tmp_path_factory.mktemp("layouts")))
    start(checkpoint)
    monkeypatch.setattr(Runner, "server_args", types.SimpleNamespace(quantization="fp8"), raising=False)
    assert start(checkpoint)[1]
