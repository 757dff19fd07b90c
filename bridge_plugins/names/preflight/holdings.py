"""What a simulated rank holds: each parameter by local, global and HF names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bridge_plugins.names.param_name import ParamName
from bridge_plugins.names.preflight.simulation import SimulatedRank


@dataclass(frozen=True)
class Held:
    """A parameter or a persistent buffer at one place of the cluster.

    `hf` is empty where the bridge's registry maps the global name to nothing; `error` says why there is
    no global name. `packed` is a tensor of the checkpoint that holds several experts. `elements` counts
    those that this rank holds.
    """

    stage: int
    chunk: int
    ep: int
    local: str
    whole: str
    hf: tuple[str, ...]
    packed: bool = False
    error: str = ""
    elements: int = 0

    @property
    def expert(self) -> bool:
        """Whether each expert-parallel rank holds another one of these."""
        return ParamName.parse(self.local).expert is not None


def parameters(rank: SimulatedRank) -> Iterator[tuple[int, str, Any]]:
    """Chunk, local name and tensor of all that the bridge would export, as ``build_conversion_tasks`` goes over it."""
    buffers = _persistent_buffers()
    for chunk, model in enumerate(rank.models):
        for name, tensor in (*model.named_parameters(), *buffers(model)):
            if "_extra_state" not in name:
                yield chunk, rank.bridge._unwrap_name(name), tensor


def held(rank: SimulatedRank, stage: int, ep: int, *, experts_only: bool = False) -> Iterator[Held]:
    """What the rank holds, named by whatever name function is in place now (patched or stock)."""
    from megatron.bridge.models.conversion import model_bridge

    registry = rank.bridge.mapping_registry()
    config = rank.models[0].config
    tied = getattr(config, "share_embeddings_and_output_weights", False) or getattr(
        rank.provider, "share_embeddings_and_output_weights", False
    )
    for chunk, local, tensor in parameters(rank):
        if tied and "output_layer" in local:
            continue  # as the bridge does: the embedding stands for both
        if experts_only and ParamName.parse(local).expert is None:
            continue
        try:
            whole = model_bridge._megatron_local_name_to_global(rank.models, config, local, chunk)
        except Exception as error:  # stock raises AssertionError, TypeError, …
            yield Held(stage, chunk, ep, local, local, (), error=f"{type(error).__name__}: {error}")
            continue
        mapping = registry.megatron_to_hf_lookup(whole)
        names = mapping.hf_param if mapping is not None else {}
        hf = (names,) if isinstance(names, str) else tuple(names.values())
        packed = bool(getattr(mapping, "is_grouped_export", False))
        yield Held(stage, chunk, ep, local, whole, hf, packed, elements=tensor.numel())


def _persistent_buffers() -> Any:
    try:
        from megatron.bridge.models.conversion.utils import persistent_buffers
    except ImportError:  # megatron-bridge 0.3 exports none
        return lambda _: ()
    return persistent_buffers
