"""A diff holds no tensor: what it allocates stays far below the size of one."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

ROWS, COLS = 32768, 4096  # 256 MiB in bfloat16
ROOM = 192 << 20

# The limit is on memory of the process's own (RLIMIT_DATA); files that are mapped read-only don't count.
_DIFF = """
import re, resource, sys
from pathlib import Path
from bridge_plugins.cli.differences import find
small, a, b, room = sys.argv[1:]
find(small, small + "-other", [])  # what is imported and compiled is no part of it
used = 1024 * int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + int(room), -1))
print(*map(str, find(a, b, []).causes), sep="\\n")
"""


def _matrix() -> Tensor:
    return torch.randn(ROWS, COLS, generator=torch.Generator().manual_seed(0)).bfloat16()


def _save(folder: Path, tensor: Tensor) -> Path:
    folder.mkdir()
    save_file({"model.layers.0.self_attn.o_proj.weight": tensor.contiguous()}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("diff")
    _save(root / "small", torch.randn(64, 64))
    _save(root / "small-other", torch.randn(64, 64))
    return _save(root / "right", _matrix())


@pytest.mark.ci
@pytest.mark.parametrize(
    ("happened", "said"),
    [
        (lambda right: right * 1.7, "the reference times 1.7"),
        (
            lambda right: right[: ROWS // 2].repeat(2, 1),
            "all 2 TP shards of o_proj hold the same bits (rows)",
        ),
        (
            lambda right: right.reshape(4, 64, -1, COLS).transpose(0, 1),
            "ordered as 64 x 4 blocks of 128 where they should be 4 x 64",
        ),
        (lambda right: right[torch.randperm(ROWS)], "unlike every tensor of the reference"),
    ],
    ids=["scaled", "repeated", "rows moved", "unknown"],
)
def test_no_tensor_is_ever_copied(
    right: Path, tmp_path: Path, happened: Callable[[Tensor], Tensor], said: str
) -> None:
    wrong = happened(_matrix())
    other = _save(tmp_path / "wrong", wrong.bfloat16().reshape(ROWS, COLS))
    command = [sys.executable, "-c", _DIFF, right.parent / "small", right, other, ROOM]
    done = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-1000:]
    assert said in done.stdout
