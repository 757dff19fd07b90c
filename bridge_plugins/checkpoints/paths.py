"""What a checkpoint's folder is called, and what lies in it.

NAME_tp2_pp2_ep2_etp1/
    iter_0000000/                what Megatron loads: the weights (torch_dist), and the bridge's run_config.yaml
    iter_0000000.summary.json    the audit's summary of what was read back from it
    hf/                          config and tokenizer
    latest_checkpointed_iteration.txt
"""

from __future__ import annotations

from pathlib import Path

from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Topology

HF = "hf"
RELEASE = "release"
TRACKER = "latest_checkpointed_iteration.txt"


def with_topology(name: str, topology: Topology) -> str:
    """``NAME_tp2_pp2_ep2_etp1``: every size that cuts weights is said, 1 as well; VPP only where there is more than one."""
    vpp = f"_vpp{topology.vpp}" if topology.vpp > 1 else ""
    return f"{name}_tp{topology.tp}_pp{topology.pp}{vpp}_ep{topology.ep}_etp{topology.etp}"


def is_checkpoint(folder: Path) -> bool:
    """Whether `folder` looks like one of Megatron's: what it says is its latest iteration, or an iteration itself."""
    return (folder / TRACKER).is_file() or (folder / ".metadata").is_file()


def iteration(folder: Path) -> Path:
    """The folder of the latest iteration in `folder`, or `folder` itself if it is an iteration's.

    Raises `UsageError` if there is none, or the tracker names one that isn't there.
    """
    if (folder / ".metadata").is_file():
        return folder
    try:
        text = (folder / TRACKER).read_text().strip()
    except OSError as error:
        raise UsageError(f"{folder} has no {TRACKER}: name a torch_dist checkpoint") from error
    # The tracker's text comes from outside: a number, or the word that Megatron uses.
    if not text.isdecimal() and text != RELEASE:
        raise UsageError(f"{folder / TRACKER} holds {text[:40]!r}: expected the number of an iteration")
    found = folder / (RELEASE if text == RELEASE else f"iter_{int(text):07d}")
    if not (found / ".metadata").is_file():
        raise UsageError(
            f"{found} is no whole torch_dist checkpoint (it has no .metadata), and {TRACKER} names it"
        )
    return found


def summary_of(iteration: Path) -> Path:
    """Where the summary of an iteration lies: beside its folder."""
    return iteration.with_name(f"{iteration.name}.summary.json")
