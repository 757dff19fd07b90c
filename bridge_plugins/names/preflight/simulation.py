"""One rank of a cluster, simulated: its process groups (torch's ``fake`` backend) and its modules (meta device)."""

from __future__ import annotations

import contextlib
import fnmatch
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.fusions import FUSIONS
from bridge_plugins.names.preflight import kernels
from bridge_plugins.names.preflight.source import Source
from bridge_plugins.names.preflight.unfilled import unfilled
from bridge_plugins.topology import Topology

_RANK_GROUPS: dict[tuple[int, tuple[int, ...], tuple[bool, ...]], Any] = {}


class Keys:
    """The names in a checkpoint, for bridges that look at them (``StateSource`` without the weights)."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(names)

    def get_all_keys(self) -> list[str]:
        return self.names

    def has_glob(self, pattern: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for name in self.names)


@dataclass(frozen=True)
class SimulatedRank:
    """A rank's bridge and its chunks (one per virtual stage)."""

    bridge: Any
    provider: Any
    models: list[Any]


def smallest(topology: Topology) -> Topology:
    """The same cut in the smallest world: data-parallel replicas hold the same names."""
    return replace(topology, world=0)


def rank_of(topology: Topology, stage: int, ep: int = 0) -> int:
    """The first rank at this pipeline stage and expert-parallel place, in Megatron's order of ranks."""
    return stage * (topology.world // topology.pp) + ep * topology.etp


@contextlib.contextmanager
def simulated_rank(
    source: Source, topology: Topology, rank: int, layout: Any = None
) -> Iterator[SimulatedRank]:
    """Build what `rank` of `topology` would hold, on the meta device; the process groups last as long as
    this does.

    `layout` is Megatron's ``pipeline_model_parallel_layout`` where the topology's stages don't say it
    all. Raises `UsageError` where Megatron or the bridge refuses the model or the sizes.
    """
    import torch.distributed as dist
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=topology.world, store=FakeStore())
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            _only_own_groups(),
            _rank_groups_computed_once(),
            kernels.assumed(),
            unfilled(),
        ):
            yield _build(source, topology, layout)
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


@contextlib.contextmanager
def _only_own_groups() -> Iterator[None]:
    """Make no object for a group that this rank isn't in: Megatron asks every rank for the groups of all."""
    import torch.distributed as dist

    new_group = dist.new_group

    def own_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        if ranks is not None and dist.get_rank() not in ranks:
            return dist.GroupMember.NON_GROUP_MEMBER
        return new_group(ranks, *args, **kwargs)

    dist.new_group = own_group
    try:
        yield
    finally:
        dist.new_group = new_group


@contextlib.contextmanager
def _rank_groups_computed_once() -> Iterator[None]:
    """Keep what `generate_masked_orthogonal_rank_groups` gives: it is the same for every rank of a world."""
    from megatron.core import parallel_state

    original = parallel_state.generate_masked_orthogonal_rank_groups

    def kept(world_size: int, parallel_size: list[int], mask: list[bool]) -> Any:
        key = world_size, tuple(parallel_size), tuple(mask)
        if key not in _RANK_GROUPS:
            _RANK_GROUPS[key] = original(world_size, parallel_size, mask)
        return _RANK_GROUPS[key]

    parallel_state.generate_masked_orthogonal_rank_groups = kept
    try:
        yield
    finally:
        parallel_state.generate_masked_orthogonal_rank_groups = original


def become_alone() -> None:
    """Replace the simulated world by one of a single rank, for the modules that are built already.

    There the bridge's mappings convert whole tensors, and gather and broadcast nothing.
    """
    import torch.distributed as dist
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)


def _build(source: Source, topology: Topology, layout: Any) -> SimulatedRank:
    import torch
    from megatron.bridge import AutoBridge

    try:
        bridge = AutoBridge.from_hf_config(source.config)
        provider = bridge.to_megatron_provider(load_weights=False)
    except Exception as error:  # the bridge's own refusals come in many types
        raise UsageError(f"Megatron Bridge has no bridge for {source.family}: {_line(error)}") from error
    fields: dict[str, Any] = {
        **topology.provider_fields(),
        **dict.fromkeys(FUSIONS, False),
        "use_cpu_initialization": False,
        "init_model_with_meta_device": True,
        "perform_initialization": False,
        "moe_token_dispatcher_type": "alltoall",  # holds no parameters, and needs no kernels to be built
        # Tables of positions are computed for as many, layer by layer; they are no parameters.
        "original_max_position_embeddings": 64,
        "bf16": True,
        "params_dtype": torch.bfloat16,
        "pipeline_dtype": torch.bfloat16,
    }
    if "pipeline_model_parallel_layout" in fields and getattr(provider, "mtp_num_layers", None):
        fields["pipeline_model_parallel_layout"][-1][-1:] = ["mtp"] * provider.mtp_num_layers + ["loss"]
    if layout is not None:
        fields["pipeline_model_parallel_layout"] = layout
    for name, value in fields.items():
        if hasattr(provider, name):
            setattr(provider, name, value)
    try:
        provider.initialize_model_parallel(seed=1, create_gloo_process_groups=False)
        provider.finalize()
        models = provider.provide_distributed_model(
            wrap_with_ddp=False,
            use_cpu_initialization=False,
            init_model_with_meta_device=True,
            mixed_precision_wrapper=None,
        )
    except Exception as error:  # Megatron's own checks, whatever they raise
        raise UsageError(f"Megatron can't build this model at {topology}: {_line(error)}") from error
    model_bridge = bridge._model_bridge
    model_bridge.hf_config = source.config
    # Some registries depend on what the checkpoint has: experts one by one, or packed into one tensor.
    model_bridge.hf_pretrained = SimpleNamespace(
        config=source.config,
        state=SimpleNamespace(source=Keys(source.tensors)),
    )
    return SimulatedRank(model_bridge, provider, models)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
