"""What an export says of itself: model, topology, and the HF source that the bridge reads."""

from __future__ import annotations

import functools
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import UsageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """Where an export comes from.

    Attributes:
        pretrained: what the bridge calls ``hf_pretrained``: a wrapper of a checkpoint, or a config; None of adapters.
        partial: why this export is not the whole model; empty if it is.
        cast: the export was asked for another dtype than the checkpoint's.
        adapters: adapters alone, which no checkpoint has.
    """

    pretrained: Any = None
    partial: str = ""
    cast: bool = False
    adapters: bool = False

    @property
    def model(self) -> str:
        """The model's name as the bridge knows it; empty if it says none."""
        if self.pretrained is None:
            return ""
        given = getattr(self.pretrained, "model_name_or_path", None) or getattr(
            self._config, "_name_or_path", None
        )
        return Path(str(given)).name if given else type(self._config).__name__

    @property
    def _config(self) -> Any:
        return getattr(self.pretrained, "config", self.pretrained)

    def expected(self, previous: Summary | None) -> Expected | None:
        """From the checkpoint's index and headers, else its config on the meta device, else the version before."""
        if self.adapters:
            return None
        found = _of_folder(self._folder) if self._folder else None
        if found is None and hasattr(self._config, "to_dict"):
            found = _of_config(self._config)
        if found is None and previous is not None:
            found = Expected.from_summary(previous)
        if found is None or not self.cast:
            return found
        return Expected(found.origin, found.sources, {}, found.tied, found.layers, dtypes=False)

    @property
    def _folder(self) -> str:
        source = getattr(getattr(self.pretrained, "state", None), "source", None)
        try:
            return str(getattr(source, "path", "") or "")
        except Exception as error:  # another's property, which may look for files
            logger.info("the bridge's source has no folder: %s", error)
            return ""


@functools.lru_cache(maxsize=4)
def _of_folder(folder: str) -> Expected | None:
    try:
        return Expected.from_folder(folder, fingerprints=False)
    except UsageError as error:
        logger.info("no expected names from %s: %s", folder, error)
        return None


def _of_config(config: Any) -> Expected | None:
    try:
        return Expected.from_config(config, type(config).__name__)
    except UsageError as error:
        logger.info("no expected names from the config: %s", error)
        return None


def topology() -> str:
    """This run's parallel sizes, as Megatron has them; empty if it isn't initialised."""
    state = _parallel_state()
    if state is None:
        return ""
    from bridge_plugins.topology import Topology

    sizes = Topology(
        tp=state.get_tensor_model_parallel_world_size(),
        pp=state.get_pipeline_model_parallel_world_size(),
        vpp=state.get_virtual_pipeline_model_parallel_world_size() or 1,
        cp=state.get_context_parallel_world_size(),
        ep=state.get_expert_model_parallel_world_size(),
        etp=state.get_expert_tensor_parallel_world_size() or 1,
        world=ranks()[1],
    )
    return str(sizes)


def ranks() -> tuple[int, int]:
    """This rank and the number of ranks, without asking any other."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def is_first() -> bool:
    """Whether this rank is the first of those that hold one model and so yield the same: it keeps the records.

    A model of several components (each with its own ranks) has one first rank for each of them.
    """
    state = _parallel_state()
    if state is None:
        return True
    coordinates = (
        state.get_tensor_model_parallel_rank(),
        state.get_pipeline_model_parallel_rank(),
        state.get_data_parallel_rank(with_context_parallel=True),
    )
    return not any(coordinates)


def _parallel_state() -> Any:
    # What was never imported was never initialised.
    state = sys.modules.get("megatron.core.parallel_state")
    return state if state is not None and state.model_parallel_is_initialized() else None
