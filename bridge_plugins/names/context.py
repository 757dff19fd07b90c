"""Where a name is asked for: this rank's model chunks, their config, and the rank's place in its groups."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge_plugins.names import wrappers
from bridge_plugins.names.groups import Place, place


@dataclass(frozen=True)
class NameContext:
    """What a hook may need beside the name. Nothing in it issues a collective.

    Attributes:
        models: this rank's chunks, one per virtual stage, as Megatron Bridge was given them.
        config: the model's TransformerConfig, as Megatron Bridge passes it on.
        chunk: which of `models` holds the parameter.
    """

    models: Sequence[Any]
    config: Any
    chunk: int = 0

    def find(self, path: tuple[str, ...]) -> list[Any] | None:
        """The modules from the model to the one at `path`, or None."""
        return wrappers.find(self.models[self.chunk], path)

    @functools.cached_property
    def pp(self) -> Place:
        """This rank's pipeline stage and their number."""
        return place(self._group("pp", "get_pipeline_model_parallel_group"))

    @functools.cached_property
    def ep(self) -> Place:
        """This rank's place among the expert-parallel ranks."""
        return place(self._group("ep", "get_expert_model_parallel_group"))

    def _group(self, field: str, getter: str) -> Any:
        """From the model's own pg_collection; from parallel_state where it has none or has None there."""
        from megatron.core import parallel_state

        collection = wrappers.attribute(self.models[0], "pg_collection")
        if collection is None:
            collection = wrappers.attribute(getattr(self.models[0], "language_model", None), "pg_collection")
        group = getattr(collection, field, None)
        if group is None and parallel_state.model_parallel_is_initialized():
            group = getattr(parallel_state, getter)(check_initialized=False)
        return group

    def __str__(self) -> str:
        """Rank and coordinates, for an error's text."""
        import torch.distributed as dist

        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        return (
            f"rank {rank} (pipeline stage {self.pp.rank} of {self.pp.size}, chunk {self.chunk} of "
            f"{len(self.models)}, expert-parallel rank {self.ep.rank} of {self.ep.size})"
        )
