"""What the doctor sees: pins, other environments, settings that bypass the bridge; and its command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.doctor import environment, frameworks
from bridge_plugins.errors import UsageError
from tests.plugins.conftest import Python


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("  vanilla_mbridge: True", ["verl"]),
        ("actor.megatron.vanilla_mbridge=true \\", ["verl"]),
        ("  vanilla_mbridge: False", []),
        ("  # vanilla_mbridge: True", []),
        ("--megatron-to-hf-mode raw", ["slime", "miles"]),
        ("--megatron-to-hf-mode bridge", []),
    ],
)
def test_settings_that_bypass_the_bridge_are_found(tmp_path: Path, text: str, found: list[str]) -> None:
    config = tmp_path / "config"
    config.write_text(f"first: line\n{text}\n")
    bypasses = frameworks.bypasses([config])
    assert [bypass.framework for bypass in bypasses] == found
    assert all(bypass.where == f"{config}:2" for bypass in bypasses)


def test_a_config_that_isnt_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml can't be read"):
        frameworks.bypasses([tmp_path / "none.yaml"])


def test_a_pin_that_isnt_met_shows() -> None:
    installed = environment.versions()
    assert all(pin.fits for pin in environment.pins(installed))
    broken = environment.pins({**installed, "transformers": "4.0.0"})
    assert {pin.package for pin in broken if not pin.fits} >= {"megatron-bridge"}


def test_another_environment_is_asked_through_its_interpreter() -> None:
    assert environment.versions_of(sys.executable) == environment.versions()
    with pytest.raises(UsageError, match="give a Python interpreter"):
        environment.versions_of("/no/such/python")


@pytest.mark.parametrize(("program", "why"), [("false", r"\(exit status 1\)"), ("true", "truncated")])
def test_a_program_that_is_no_interpreter_is_a_short_line(program: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as said:
        environment.versions_of(program)
    assert len(str(said.value)) < 120


def doctor(python: Python, *options: str, **variables: str) -> Any:
    return python(
        "-m", "bridge_plugins.cli", "plugins", "doctor", *options, BRIDGE_PLUGINS_CPU="1", **variables
    )


def test_the_report_has_versions_states_with_reasons_and_hooks(python: Python, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("vanilla_mbridge: True\n")
    done = doctor(python, "--json", "--config", str(tmp_path / "run.yaml"))
    assert done.returncode == 1, done.stderr  # for the config's sake alone
    report = json.loads(done.stdout)
    assert report["versions"]["megatron-bridge"]
    patches = {patch["name"]: patch for patch in report["patches"]}
    assert patches["names"]["state"] == "applied"
    assert patches["names"]["reason"].startswith("found here: A")
    plugins = {plugin["name"]: plugin for plugin in report["plugins"]}
    assert plugins["layer_numbers"]["hooks"] == ["global_layer_number"]
    assert all(pin["fits"] for pin in report["pins"])
    assert [bypass["remedy"] for bypass in report["bypasses"]] == ["vanilla_mbridge=False"]


def test_what_cant_be_done_is_exit_2_and_one_line(python: Python, tmp_path: Path) -> None:
    done = doctor(python, "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
