"""Audits three versions of a tiny model in a run that logs at steps of its own; prints what the sinks have kept, as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    os.environ |= {"BRIDGE_AUDIT_DIR": str(folder), "BRIDGE_AUDIT_SINKS": "tensorboard,wandb"}
    os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_SILENT": "true"}
    import torch
    import wandb  # type: ignore[import-not-found]

    import bridge_plugins
    from bridge_plugins.audit import WeightAudit

    bridge_plugins.load()
    run = wandb.init(project="tiny")
    for step in range(3):
        run.log({"loss": step}, step=step)
        audit = WeightAudit("tiny")
        list(audit.watch([("model.layers.0.w", torch.full((2, 2), 1.0 + step))]))
        audit.finish(str(7 + step))
        run.log({"reward": step}, step=step)  # NeMo-RL, say, logs several times at one step
    run.finish()
    wandb.teardown()  # its service writes the file, and has ended then
    print(json.dumps({"wandb": list(rows(folder)), "tensorboard": scalars(folder)}))


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of the run, from its file: W&B's records in LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2  # type: ignore[import-not-found]

    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    for content in _records(file.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(content)
        if record.WhichOneof("record_type") == "history":
            yield {
                item.key or ".".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }


def _records(data: bytes) -> Iterator[bytes]:
    whole, at = b"", 7  # W&B's own header
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a full record, or the last part of one
            yield whole
            whole = b""


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-not-found]
        EventAccumulator,
    )

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
