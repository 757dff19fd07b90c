"""Architectures in SGLang's own model classes: what the readback covers of each, in several cuts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.engine.architectures import ARCHITECTURES
from tests.engine.probe_case import Result

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "engine_layouts.py"

#: One of each kind: fused q/k/v and tied embeddings, padding, experts, latent attention, stacked 3-D experts.
HANDFUL = ("Qwen3, tied embeddings", "Qwen3, odd vocabulary", "Mixtral", "DeepSeek-V3", "GPT-OSS")

#: Tensors that a loader computes from others (a norm plus one): compared by nothing.
COMPUTED = {"Gemma2", "Qwen3-Next"}


def results(*names: str, sizes: tuple[str, ...]) -> list[Result]:
    """Of one process that imports SGLang once."""
    command = [sys.executable, str(SCRIPT), "--json", *names, "--sizes", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr[-2000:]
    return [msgspec.json.decode(line, type=Result) for line in done.stdout.splitlines() if line[:1] == "{"]


def check(found: list[Result]) -> None:
    for result in found:
        said = f"{result.architecture} {result.sizes}"
        assert not result.failure, f"{said}: {result.failure}"
        assert (result.equal, result.mismatched) == (result.tensors, ()), said
        if result.architecture in COMPUTED:
            assert set(result.asked) == {"layers", "records"}
            assert all("computed by the loader" in why for why in result.not_compared.values()), said
        else:
            assert not result.not_compared, f"{said}: {result.not_compared}"
            assert result.asked == ("layers",), said


@pytest.mark.ci
def test_every_tensor_of_a_handful_is_compared_in_two_cuts() -> None:
    found = results(*HANDFUL, sizes=("2,1", "1,1,2"))
    assert len(found) == 2 * len(HANDFUL)
    check(found)
    # Nothing of these is padded, so that every byte of the engine's weights is some HF tensor's.
    assert all(r.compared == r.served for r in found if r.architecture in ("Mixtral", "DeepSeek-V3"))


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_every_architecture_is_compared() -> None:
    for sizes in ("1,1", "2,1", "4,1"):
        found = results(*ARCHITECTURES, sizes=(sizes,))
        assert len(found) == len(ARCHITECTURES)
        check(found)
