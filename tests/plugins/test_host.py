"""Plugins: how they are found, switched off, and kept from harming each other or the user's program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import Python

SHOW = """
import json, logging, math, sys
logging.basicConfig(level=logging.INFO, format="%(message)s")
before = math.tau
from bridge_plugins import load
from bridge_plugins.plugins import manager, origins, hooks_of
patcher = load()
assert load() is patcher
first = math.tau
if patcher.status.get("acme.tau"):
    patcher.revert("acme.tau")
print(json.dumps({
    "plugins": {n: [o.where, o.left_out] for n, o in origins().items()},
    "patches": {n: [s.state.value, s.reason] for n, s in patcher.status.items()},
    "halved": first == before / 2,
    "reverted": math.tau is before,
    "torch": "torch" in sys.modules,
}))
"""


def shown(done: Any) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_installed_package_is_found_through_its_entry_point(python: Python, third_party: Path) -> None:
    done = python("-c", SHOW, path=[third_party])
    found = shown(done)
    assert found["plugins"]["acme"] == ["acme_bridge_names of acme-bridge-names 1.2.3", ""]
    assert (found["halved"], found["reverted"]) == (True, True)
    # Provenance in the log: which patch, of which plugin, of which distribution, with what target and
    # outcome.
    [line] = [line for line in done.stderr.splitlines() if "acme.tau" in line]
    for part in ("acme-bridge-names 1.2.3", "math:tau", "applied", "tau is too large"):
        assert part in line


def test_the_built_in_plugins_are_found_the_same_way_and_import_no_torch(python: Python) -> None:
    found = shown(python("-c", SHOW))
    assert {"cpu", "layer_numbers", "expert_numbers", "names", "lora_experts"} <= set(found["plugins"])
    assert not any(left_out for _, left_out in found["plugins"].values())
    assert found["patches"]["names"][0] == "waiting"
    assert found["torch"] is False


def test_a_plugin_is_switched_off_by_its_name(python: Python, third_party: Path) -> None:
    found = shown(python("-c", SHOW, path=[third_party], BRIDGE_PLUGINS_DISABLE="acme, layer_numbers"))
    assert "switched off" in found["plugins"]["acme"][1]
    assert "switched off" in found["plugins"]["layer_numbers"][1]
    assert found["halved"] is False
    assert found["plugins"]["expert_numbers"][1] == ""


def test_a_patch_is_switched_off_by_its_name(python: Python, third_party: Path) -> None:
    found = shown(python("-c", SHOW, path=[third_party], BRIDGE_PLUGINS_DISABLE="acme.tau"))
    assert found["patches"]["acme.tau"][0] == "off"
    assert found["halved"] is False


def test_all_are_switched_off_at_once(python: Python, third_party: Path) -> None:
    found = shown(python("-c", SHOW, path=[third_party], BRIDGE_PLUGINS_DISABLE="all"))
    assert found["patches"] == {}
    assert all("switched off" in left_out for _, left_out in found["plugins"].values())


def test_a_module_is_a_plugin_when_the_environment_names_it(python: Python, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        (Path(__file__).parent / "third_party/acme_bridge_names.py").read_text()
    )
    found = shown(python("-c", SHOW, path=[tmp_path], BRIDGE_PLUGINS="mine, not_there"))
    assert found["halved"] is True
    assert "No module named 'not_there'" in found["plugins"]["not_there"][1]  # said, and the others go on


@pytest.mark.parametrize(
    ("patch", "state", "reason"),
    [
        ("Replace('p', 'math:gone', 'x', lambda f: f)", "refused", "math:gone does not exist"),
        ("Replace('p', 'math:hypot.gone', 'x', lambda f: f)", "refused", "does not exist"),
        ("Replace('p', 'json:dumps', 'x', lambda f: f, signature=('thing',))", "refused", "takes (obj"),
        ("Replace('p', 'math:tau', 'x', lambda f: f, probe=lambda _: False)", "not needed", "does not have"),
        ("Replace('p', 'math:tau', 'x', lambda f: 1 / 0)", "failed", "ZeroDivisionError"),
        ("Replace('p', 'math:tau', 'x', lambda f: f, probe=lambda _: 'found: B')", "applied", "found: B"),
        ("Replace('p', 'no_such.module:f', 'x', lambda f: f)", "waiting", "until no_such.module"),
    ],
)
def test_a_patch_says_what_became_of_it(
    python: Python, tmp_path: Path, patch: str, state: str, reason: str
) -> None:
    (tmp_path / "mine.py").write_text(
        "import json\n"
        "from bridge_plugins.hookspecs import hookimpl\n"
        "from bridge_plugins.patching import Replace\n"
        f"@hookimpl\ndef bridge_patches(): return [{patch}, Replace('next', 'math:e', 'x', lambda f: 3)]\n"
    )
    patches = shown(python("-c", SHOW, path=[tmp_path], BRIDGE_PLUGINS="mine"))["patches"]
    assert patches["p"][0] == state
    assert reason in patches["p"][1]
    assert patches["next"][0] == "applied"  # one that fails never stops another


def test_strict_makes_a_bad_patch_an_error(python: Python, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from bridge_plugins.hookspecs import hookimpl\n"
        "from bridge_plugins.patching import Replace\n"
        "@hookimpl\ndef bridge_patches(): return [Replace('p', 'math:gone', 'x', lambda f: f)]\n"
    )
    done = python(
        "-c",
        "import bridge_plugins; bridge_plugins.load(strict=True)",
        path=[tmp_path],
        BRIDGE_PLUGINS="mine",
    )
    assert done.returncode == 1
    assert "PatchError: patch p refused: math:gone does not exist" in done.stderr
