"""The built wheel, installed in an empty place: every room is in it, `patches` under its own address too."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.ci
def test_a_wheel_imports_as_an_editable_install_does(tmp_path: Path) -> None:
    # Built from a copy: setuptools would leave a build folder behind, and put what it finds there into the next wheel.
    source = tmp_path / "source"
    unwanted = shutil.ignore_patterns(".venv", ".git", "build", "*.egg-info", "__pycache__", ".gpu")
    shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(source),
    ]
    subprocess.run(build, check=True, capture_output=True, timeout=240)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    on_disk = {
        f"bridge_plugins/{path.relative_to(ROOT / 'bridge_plugins')}"
        for path in (ROOT / "bridge_plugins").rglob("*.py")
    } | {
        f"bridge_plugins/patches/{path.relative_to(ROOT / 'patches')}"
        for path in (ROOT / "patches").rglob("*.py")
    }
    assert packed == on_disk
    place = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(place),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    code = f"import sys; sys.path.insert(0, {str(place)!r}); import bridge_plugins.patches.cpu as p; print(p.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.startswith(str(place))
