"""Auto-load: on for exactly what a user asked for, free until the bridge is imported, harmless when broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.plugins.conftest import Python

#: Says "loaded before the bridge" when it is imported as a plugin.
TELLTALE = "print('plugin loaded')\n"
IMPORT = "import megatron.bridge\n"


@pytest.fixture
def telltale(megatron: Path) -> Path:
    (megatron / "telltale.py").write_text(TELLTALE)
    (megatron / "train.py").write_text("import sys; print(sys.argv[1:]);" + IMPORT)
    return megatron


def test_run_loads_before_the_bridge_and_leaves_arguments_alone(python: Python, telltale: Path) -> None:
    program = ["-m", "bridge_plugins.run", str(telltale / "train.py"), "--lr", "0"]
    done = python(*program, path=[telltale], BRIDGE_PLUGINS="telltale")
    assert done.stdout.splitlines() == ["['--lr', '0']", "plugin loaded", "bridge imported"]
    assert done.returncode == 0


def test_run_takes_a_module_too(python: Python, telltale: Path) -> None:
    done = python("-m", "bridge_plugins.run", "-m", "train", path=[telltale], BRIDGE_PLUGINS="telltale")
    assert done.stdout.splitlines() == ["[]", "plugin loaded", "bridge imported"]


@pytest.mark.parametrize("arguments", [[], ["-m"], ["no/such/script.py"]])
def test_run_without_a_program_is_one_clear_line(python: Python, arguments: list[str]) -> None:
    done = python("-m", "bridge_plugins.run", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "script" in done.stderr


def test_a_command_and_its_children_load_the_plugins(python: Python, telltale: Path) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, {str(telltale / 'train.py')!r}])"
    done = python(
        "-m", "bridge_plugins.cli", "plugins", "run", "--", sys.executable, "-c", child,
        path=[telltale], BRIDGE_PLUGINS="telltale",
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[]", "plugin loaded", "bridge imported"], done.stderr


def test_another_sitecustomize_is_run_as_well(python: Python, telltale: Path) -> None:
    (telltale / "sitecustomize.py").write_text("print('the other one')\n")
    done = python(
        "-m", "bridge_plugins.cli", "plugins", "run", "--", sys.executable, "-c", IMPORT,
        path=[telltale], BRIDGE_PLUGINS="telltale",
    )  # fmt: skip
    # Once for the command line's own process, once for the program's.
    assert done.stdout.splitlines() == ["the other one", "the other one", "plugin loaded", "bridge imported"]


def test_a_broken_plugin_doesnt_stop_the_program(python: Python, megatron: Path) -> None:
    (megatron / "broken.py").write_text("raise RuntimeError('broken on purpose')\n")
    (megatron / "train.py").write_text(IMPORT)
    done = python(
        "-m", "bridge_plugins.run", str(megatron / "train.py"), path=[megatron], BRIDGE_PLUGINS="broken"
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["bridge imported"]
    assert "broken on purpose" in done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that sees this one's packages, and into which a .pth may be written."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    paths = [entry for entry in sys.path if entry.endswith("site-packages")]
    root = str(Path(__file__).parents[2])
    (site / "a_shared.pth").write_text("\n".join([*paths, root]) + "\n")
    return folder


def in_environment(
    environment: Path, *arguments: str, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    variables = {"BRIDGE_PLUGINS": "telltale", "BRIDGE_PLUGINS_CPU": "0", "PYTHONPATH": str(path or "")}
    return subprocess.run(
        [str(environment / "bin/python"), *arguments],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_autoload_is_written_and_removed_on_request(environment: Path, telltale: Path) -> None:
    def autoload(option: str) -> str:
        done = in_environment(environment, "-m", "bridge_plugins.cli", "plugins", "autoload", option)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "off" in autoload("--status")
    assert in_environment(environment, "-c", IMPORT, path=telltale).stdout == "bridge imported\n"
    assert "on" in autoload("--enable")
    assert (
        in_environment(environment, "-c", IMPORT, path=telltale).stdout == "plugin loaded\nbridge imported\n"
    )
    assert "off" in autoload("--disable")
    assert in_environment(environment, "-c", IMPORT, path=telltale).stdout == "bridge imported\n"


def test_autoload_costs_nothing_until_the_bridge_is_imported(environment: Path, telltale: Path) -> None:
    in_environment(environment, "-m", "bridge_plugins.cli", "plugins", "autoload", "--enable")
    done = in_environment(environment, "-c", "import sys; print(*sorted(sys.modules))", path=telltale)
    ours = {name for name in done.stdout.split() if name.startswith("bridge_plugins")}
    assert ours == {"bridge_plugins", "bridge_plugins.autoload"}
    assert not {"pluggy", "wrapt", "torch", "telltale"} & set(done.stdout.split())


def test_autoload_survives_the_packages_removal(environment: Path, tmp_path: Path) -> None:
    in_environment(environment, "-m", "bridge_plugins.cli", "plugins", "autoload", "--enable")
    [site] = environment.glob("lib/python*/site-packages")
    other = tmp_path / "other"
    venv.create(other, with_pip=False)
    [bare] = other.glob("lib/python*/site-packages")
    shutil.copy(site / "bridge_plugins_autoload.pth", bare)
    done = in_environment(other, "-c", "print('started')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


def test_an_error_in_it_is_said_and_the_interpreter_starts(environment: Path, tmp_path: Path) -> None:
    in_environment(environment, "-m", "bridge_plugins.cli", "plugins", "autoload", "--enable")
    (tmp_path / "bridge_plugins").mkdir()
    (tmp_path / "bridge_plugins/__init__.py").write_text("raise RuntimeError('broken on purpose')\n")
    done = in_environment(environment, "-c", "print('started')", path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "broken on purpose" in done.stderr
