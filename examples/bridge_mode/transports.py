"""The ways from the trainer to the engine that the examples can take, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.engines.sglang.transports.from_disk import FromDisk
from bridge_plugins.engines.sglang.transports.from_distributed import FromDistributed
from bridge_plugins.engines.sglang.transports.from_tensor import FromTensor
from bridge_plugins.errors import UsageError

TRANSPORTS: dict[str, Callable[[Path], Transport]] = {
    "from-tensor": lambda _: FromTensor(),
    "from-distributed": lambda _: FromDistributed(),
    "from-disk": lambda folder: FromDisk(folder / "versions"),
}


def refuse(name: str) -> None:
    """Raise `UsageError` unless there is a transport of that name."""
    if name not in TRANSPORTS:
        raise UsageError(f"--transport {name} is unknown; try {', '.join(TRANSPORTS)}")
