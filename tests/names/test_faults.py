"""Every known fault of the name function: seen in a stock function that has it, and gone with the patch."""

from __future__ import annotations

import pytest

from tests.stacks.ranks import Ranks

#: Read and run on the real wheels; a version that isn't here is judged by its probes alone.
STOCK = {"0.3.1": "ABCDEFGHIJ", "0.4.2": "ABCDEFGHIJ", "0.5.1": "ACDEFGIJ", "0.6.2": "ACDEFGIJ"}


def faults() -> dict[str, str]:
    """The faults by letter: of what is installed, with the patch, and after the patch was taken back."""
    from importlib.metadata import version

    from megatron.bridge.models.conversion import model_bridge

    import bridge_plugins
    from bridge_plugins.names.faults import faults_of

    def found() -> str:
        return "".join(fault.letter for fault in faults_of(model_bridge._megatron_local_name_to_global))

    patcher = bridge_plugins.load()
    with_patch, reason = found(), patcher.status["names"].reason
    patcher.revert("names")
    return {
        "version": version("megatron-bridge"),
        "with patch": with_patch,
        "reason": reason,
        "stock": found(),
    }


def test_the_patch_mends_every_fault_that_is_there(ranks: Ranks) -> None:
    [found] = ranks("tests.names.test_faults:faults", backend=None)
    assert found["with patch"] == ""
    assert found["reason"] == f"found here: {', '.join(found['stock'])}"
    if found["version"] not in STOCK:
        pytest.skip(f"megatron-bridge {found['version']} was never read; its probes find {found['stock']}")
    assert found["stock"] == STOCK[found["version"]]
