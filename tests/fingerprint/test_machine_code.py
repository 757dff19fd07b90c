"""The CPU's kernel as machine code: kept in a file, loaded without numba, and made anew where the file is none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bridge_plugins.fingerprint.cpu import machine_code
from bridge_plugins.fingerprint.cpu.run import measure
from bridge_plugins.fingerprint.formats import named

_RUN = """
import sys
import numpy as np
from bridge_plugins.fingerprint.cpu.run import measure
from bridge_plugins.fingerprint.formats import named
bits = np.arange(1, 4097, dtype=np.uint16)
table = np.array([[bits.ctypes.data, 2048, 2, 4, 1024, 0, 1, 0, 1]], np.int64)
print(measure(table, named("bfloat16"), named("bfloat16")).lanes.tolist(), "numba" in sys.modules)
"""


def _lanes() -> list[list[int]]:
    bits = np.arange(1, 4097, dtype=np.uint16)
    table = np.array([[bits.ctypes.data, 2048, 2, 4, 1024, 0, 1, 0, 1]], np.int64)
    return measure(table, named("bfloat16"), named("bfloat16")).lanes.tolist()


def test_what_was_compiled_once_runs_without_numba() -> None:
    """Also: it needs nothing of numba's at run time, or its loading would end the process."""
    expected = _lanes()  # compiles it, if it wasn't
    done = subprocess.run(
        [sys.executable, "-c", _RUN], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == f"{expected} False"


@pytest.mark.parametrize("damage", [lambda whole: whole[:-1], lambda whole: whole[:-1] + b"x", lambda _: b""])
def test_a_damaged_file_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    _lanes()
    whole = next(
        content
        for folder in machine_code._folders()
        for file in folder.glob("kernel-*.o")
        if (content := file.read_bytes())
    )
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path])
    (tmp_path / "kernel.o").write_bytes(whole)
    assert machine_code._kept("kernel.o") == whole[32:]
    (tmp_path / "kernel.o").write_bytes(damage(whole))
    assert machine_code._kept("kernel.o") is None


@pytest.mark.ci
def test_where_one_folder_cannot_be_written_to_the_next_one_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _lanes()
    (tmp_path / "file").touch()
    folders = [tmp_path / "file" / "no folder", tmp_path / "cache"]
    monkeypatch.setattr(machine_code, "_folders", lambda: folders)
    monkeypatch.setattr(machine_code, "_loaded", [])
    assert _lanes() == expected
    (kept,) = (tmp_path / "cache").iterdir()
    assert machine_code._kept(kept.name) == kept.read_bytes()[32:]
