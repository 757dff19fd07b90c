"""What an import costs, and that the two sides can live in two environments."""

from __future__ import annotations

import subprocess
import sys

import pytest


def imported_by(code: str) -> set[str]:
    """The top-level modules that are there after running `code` in a fresh interpreter."""
    script = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "never"),
    [
        ("import bridge_plugins", {"torch", "megatron", "sglang", "numpy"}),
        ("import bridge_plugins.topology, bridge_plugins.launch.processes", {"torch", "megatron", "sglang"}),
        (
            "import bridge_plugins.audit.megatron_local.merge, bridge_plugins.audit.megatron_local.claims",
            {"torch", "megatron", "sglang"},
        ),
        ("import bridge_plugins.audit.megatron_local, bridge_plugins.layout.trainer", {"megatron", "sglang"}),
        ("import bridge_plugins.launch.flags", {"torch", "megatron", "sglang"}),
        ("import bridge_plugins.engines.sync, bridge_plugins.parity", {"megatron", "sglang"}),
        ("import bridge_plugins.engines.sglang.inside", {"megatron", "sglang"}),
    ],
)
def test_imports_nothing_of(code: str, never: set[str]) -> None:
    assert not imported_by(code) & never
