"""The CPU set: off where it isn't wanted, and stepping aside for the real package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OFFER = (
    "from bridge_plugins.patches.cpu.standins import StandInFinder, in_use; StandInFinder(NAME).__enter__(); "
)


def python(code: str, path: Path | None = None, **env: str) -> str:
    import os

    given = {**os.environ, **env, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run(
        [sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["transformer_engine", "sgl_kernel"])
def test_a_real_package_wins_over_its_stand_in(tmp_path: Path, package: str) -> None:
    code = (
        OFFER.replace("NAME", repr(package))
        + f"import {package}; print(vars({package}).get('real', False), in_use())"
    )
    assert python(code) == f"False ['{package}']"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("real = True")
    assert python(code, tmp_path) == "True []"


def test_a_kernel_of_the_stand_in_is_an_error_when_called() -> None:
    code = OFFER.replace("NAME", "'sgl_kernel'") + (
        "import sgl_kernel\ntry: sgl_kernel.silu_and_mul()\nexcept NotImplementedError as error: print(error)"
    )
    assert "sgl_kernel.silu_and_mul is a stand-in" in python(code)


# Says which of the patches are applied, and whether torch is as it was.
STATE = (
    "import torch; before = torch.cuda.Stream\n"
    "import bridge_plugins; states = bridge_plugins.load().status\n"
    "on = [n for n, s in states.items() if n.startswith('cpu.') and s.state.value == 'applied']\n"
    "print(bool(on), torch.cuda.Stream is before)"
)


def test_the_set_is_on_without_a_gpu_and_off_when_told() -> None:
    assert python(STATE, CUDA_VISIBLE_DEVICES="") == "True False"
    assert python(STATE, CUDA_VISIBLE_DEVICES="", BRIDGE_PLUGINS_CPU="0") == "False True"


def test_reverting_gives_the_very_objects_back() -> None:
    code = (
        "import torch; before = (torch.cuda.Stream, torch.Tensor.cuda, torch.Tensor.type, torch.distributed.scatter)\n"
        "import bridge_plugins; patcher = bridge_plugins.load()\n"
        "for name in list(patcher.status): patcher.revert(name)\n"
        "after = (torch.cuda.Stream, torch.Tensor.cuda, torch.Tensor.type, torch.distributed.scatter)\n"
        "print(all(one is other for one, other in zip(before, after)), torch.overrides._get_current_function_mode())"
    )
    assert python(code, CUDA_VISIBLE_DEVICES="") == "True None"
