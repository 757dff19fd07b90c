"""What every file of a rank has in common: its header and its name."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist

from bridge_plugins.audit.label import spelt
from bridge_plugins.audit.summary import Header, package_versions
from bridge_plugins.plugins import patcher


def local_header(stage: str, version: str, *, model: str, topology: str) -> Header:
    """This rank's header."""
    distributed = dist.is_available() and dist.is_initialized()
    rank, world = (dist.get_rank(), dist.get_world_size()) if distributed else (0, 1)
    return Header(
        model=model,
        topology=topology,
        version=version,
        stage=stage,
        rank=rank,
        patches={name: status.state.value for name, status in patcher().status.items()},
        packages=package_versions(),
        world=world,
    )


def path_of(folder: Path, header: Header) -> Path:
    """Where a rank's file lies in `folder`. It is no summary, and is not called ``.json``: a folder's summaries are."""
    return folder / f"v{spelt(header.version)}.{header.stage}.rank{header.rank:05d}.part"
