"""Hooks that raise and plugins that can't be imported: each is said, none stops the run or another plugin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bridge_plugins.audit import Finding, WeightAudit, read_summary
from bridge_plugins.audit.automatic import Automatic
from bridge_plugins.audit.origin import Origin
from bridge_plugins.errors import VetoError
from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.plugins import manager


class NoRules:
    @hookimpl
    def audit_rules(self) -> Any:
        raise RuntimeError("no rules today")


class BadRule:
    code = "BAD"

    def check(self, *_: Any) -> Any:
        yield Finding("BAD", "here", "one was found before it failed")
        raise RuntimeError("half way")

    @hookimpl
    def audit_rules(self) -> Any:
        return [self]


class BadSink:
    @hookimpl
    def audit_finished(self, summary: Any) -> None:
        raise RuntimeError(f"no room for {summary.header.version}")


class Objects:
    @hookimpl
    def before_push(self) -> None:
        raise RuntimeError("not\non a Friday")


@pytest.fixture
def plugin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path))
    made = request.param()
    manager().register(made, "hostile")
    yield made
    manager().unregister(made)


def items() -> list[tuple[str, torch.Tensor]]:
    return [("model.layers.0.w", torch.tensor([1.0, float("nan")]))]


@pytest.mark.parametrize("plugin", [NoRules, BadRule, BadSink], indirect=True)
def test_the_run_goes_on_and_the_other_rules_judge(
    plugin: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    automatic = Automatic()
    assert len(list(automatic.exported(iter(items()), Origin))) == 1
    automatic.close()
    assert "STATS" in [finding.rule for finding in read_summary(tmp_path).findings]
    audit = WeightAudit("tiny")
    list(audit.watch(items()))
    assert "STATS" in [finding.rule for finding in audit.finish("1")[1]]
    said = {NoRules: "gave no rules", BadRule: "rule BAD failed", BadSink: "sink hostile of the audit failed"}
    assert said[type(plugin)] in caplog.text


@pytest.mark.parametrize("plugin", [BadRule], indirect=True)
def test_a_rule_that_fails_is_a_finding_that_strict_mode_stops(plugin: Any) -> None:  # noqa: ARG001
    audit = WeightAudit("tiny", strict=True)
    list(audit.watch([("model.layers.0.w", torch.ones(2))]))
    with pytest.raises(VetoError, match=r"BAD here: one was found before it failed \(and 1 more\)"):
        audit.finish("1")


@pytest.mark.parametrize("plugin", [Objects], indirect=True)
def test_before_push_alone_may_stop_a_version(plugin: Any) -> None:  # noqa: ARG001
    audit = WeightAudit("tiny", strict=False)
    list(audit.watch([("model.layers.0.w", torch.ones(2))]))
    with pytest.raises(VetoError, match=r"version 1 is not pushed: not$"):
        audit.finish("1")


ASK = """
import bridge_plugins
bridge_plugins.load()
from bridge_plugins.plugins import manager, origins
print(*(name for name, origin in origins().items() if origin.left_out), manager().has_plugin("zz_good"))
"""
MODULES = {
    "raises": "raise RuntimeError('on import')",
    "exits": "import sys; sys.exit(3)",
    "no_python": "def (",
    "imports": "import no_such_module",
    "patches": "from bridge_plugins.hookspecs import hookimpl\n@hookimpl\ndef bridge_patches(): raise ValueError('x')",
    "unknown_hook": "from bridge_plugins.hookspecs import hookimpl\n@hookimpl\ndef no_such_hook(): pass",
    "other_arguments": "from bridge_plugins.hookspecs import hookimpl\n@hookimpl\ndef before_push(nonsense): pass",
}


def test_a_plugin_that_can_not_be_imported_stops_nothing(tmp_path: Path) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"bad_{name}.py").write_text(text)
    (tmp_path / "zz_good.py").write_text(
        "from bridge_plugins.hookspecs import hookimpl\n@hookimpl\ndef audit_rules(): return []\n"
    )
    names = [f"bad_{name}" for name in MODULES]
    environment = {
        "PATH": "", "PYTHONPATH": str(tmp_path), "BRIDGE_PLUGINS": ",".join([*names, "zz_good", "not_there"])
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    *left_out, good = done.stdout.split()
    assert good == "True"
    assert {"not_there", "bad_raises", "bad_exits", "bad_no_python", "bad_imports"} <= set(left_out)
