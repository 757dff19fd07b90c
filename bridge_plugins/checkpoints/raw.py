"""A torch_dist checkpoint as Megatron itself writes and reads it: no name is converted, the bridge takes no part.

The bridge's own `save_megatron_model` calls the same functions of Megatron Core, from a package that imports data sets and a
quantiser; a conversion needs neither.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridge_plugins.errors import BridgePluginsError

_NO_WEIGHT = "_extra_state"  # what Transformer Engine keeps for fp8 beside the weights


#: How Megatron 0.19 cuts what it saves; its loader asks the checkpoint for it.
_CONTENT = {"singleton_local_shards": False}


def save(chunks: list[Any], iteration: Path) -> None:
    """Save the weights of `chunks` as a checkpoint without optimizer. `iteration` must be there, and empty. Collective."""
    from megatron.core import dist_checkpointing

    state = {"checkpoint_version": 3.0, "iteration": 0, **_sharded(chunks, _CONTENT)}
    dist_checkpointing.save(state, str(iteration), content_metadata=_CONTENT)


def load(chunks: list[Any], iteration: Path) -> None:
    """Load an iteration's weights into `chunks`, in place, whatever topology it was written with. Collective.

    Megatron's own loader unpickles parts of the checkpoint: load only what you trust.

    Raises `BridgePluginsError` naming the first weight that the checkpoint hasn't got.
    """
    from megatron.core import dist_checkpointing
    from torch.distributed.checkpoint.api import (
        CheckpointException,  # a BaseException: what ranks met while reading
    )

    folder = str(iteration)
    try:
        metadata = dist_checkpointing.load_content_metadata(folder)
        found = dist_checkpointing.load(_sharded(chunks, metadata), folder)
    except (
        Exception,
        CheckpointException,
    ) as error:  # Megatron has a dozen kinds for what is missing or of another shape
        causes = (
            [cause for cause, _ in error.failures.values()]
            if isinstance(error, CheckpointException)
            else [error]
        )
        why = f"{type(causes[0]).__name__}: {str(causes[0]).splitlines()[0]}"
        raise BridgePluginsError(f"{iteration} can't be loaded: {why}") from error
    for key, chunk in zip(_keys(chunks), chunks, strict=True):
        missing, _ = chunk.load_state_dict(found[key], strict=False)
        if lost := [name for name in missing if not name.endswith(_NO_WEIGHT)]:
            raise BridgePluginsError(f"{iteration} has no {lost[0]} ({len(lost)} such weights)")


def forget(chunks: list[Any]) -> None:
    """Overwrite every weight, so that what a load leaves out is not taken for loaded."""
    import torch  # here: Megatron's writer starts a process that imports this module again

    for chunk in chunks:
        for name, tensor in chunk.state_dict().items():
            if isinstance(tensor, torch.Tensor) and not name.endswith(_NO_WEIGHT):
                tensor.fill_(torch.nan if tensor.is_floating_point() else 0)


def _sharded(chunks: list[Any], metadata: Any) -> dict[str, Any]:
    return {
        key: chunk.sharded_state_dict(metadata=metadata)
        for key, chunk in zip(_keys(chunks), chunks, strict=True)
    }


def _keys(chunks: list[Any]) -> list[str]:
    """As Megatron names them: ``model``, or ``model0``, ``model1`` … of virtual stages."""
    return ["model"] if len(chunks) == 1 else [f"model{number}" for number in range(len(chunks))]
