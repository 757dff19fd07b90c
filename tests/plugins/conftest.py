from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the third-party package was built and installed, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")
    for path in (Path(__file__).parent / "third_party").iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--target", str(folder), str(source)],
        check=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def megatron(tmp_path: Path) -> Path:
    """A folder with a package ``megatron.bridge`` that says that it was imported: the real one takes 10 s."""
    package = tmp_path / "megatron" / "bridge"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('bridge imported')\n")
    return tmp_path


@pytest.fixture
def python() -> Python:
    """Run Python in a process of its own; folders in `path` come first, keywords are environment variables."""

    def run(*arguments: str, path: list[Path] | None = None, **variables: str) -> Any:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("BRIDGE_", "PYTHON"))}
        environment = {
            **inherited,
            "BRIDGE_PLUGINS_CPU": "0",
            "PYTHONPATH": os.pathsep.join(map(str, path or [])),
            **variables,
        }
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120
        )

    return run
