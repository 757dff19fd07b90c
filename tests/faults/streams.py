"""Recorded streams: what the bridge yielded in a real run, to be changed where a framework would, and audited again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bridge_plugins.topology import Topology

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit import Expected

Stream = list[tuple[str, "Tensor"]]
Transport = Callable[[Stream], object]


def record(checkpoint: str, topology: dict[str, Any], folder: str) -> None:
    """What the forked ranks run: one export, whose tensors and order the first rank keeps in `folder`."""
    import torch.distributed as dist
    from safetensors.torch import save_file

    from tests.stacks.trainer import build

    tensors = build(checkpoint, Topology(**topology)).export()
    if dist.get_rank() == 0:
        target = Path(folder)
        target.mkdir()
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()}, target / "stream.safetensors"
        )
        (target / "order.json").write_bytes(msgspec.json.encode(list(tensors)))


def read(folder: Path) -> Stream:
    """What `record` kept, in the order in which it came."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "stream.safetensors")
    return [(name, tensors[name]) for name in msgspec.json.decode((folder / "order.json").read_bytes())]


def judged(
    versions: Sequence[Iterable[Any]],
    expected: Expected | None,
    transport: Transport | None = None,
    **options: Any,
) -> list[str]:
    """What the audit says of the last of these versions of a stream. No step was made between them.

    Args:
        transport: takes each whole version, as a framework's update would, while it is audited.
        options: for `WeightAudit`.
    """
    from bridge_plugins.audit import WeightAudit

    audit = WeightAudit("tiny", expected=expected, **options)
    for number, stream in enumerate(versions):
        items = list(audit.watch(stream))
        if transport is not None:
            transport(items)
        _, findings = audit.finish(str(number + 1))
    return [str(finding) for finding in findings if finding.counts]
