"""The sizes, a rank's coordinates, and the fields of a provider that they set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridge_plugins.errors import UsageError

_SIZES = (
    "tp", "pp", "vpp", "cp", "ep", "etp",
    "engine_tp", "engine_ep", "engine_pp", "engine_dp", "engine_moe_dp", "engines", "node_gpus",
)  # fmt: skip


class Coordinates(NamedTuple):
    """A rank's place in the dense part (tp, cp, dp, pp) and in the expert part (etp, ep, edp) of a trainer."""

    tp: int
    cp: int
    dp: int
    pp: int
    etp: int
    ep: int
    edp: int


@dataclass(frozen=True)
class Topology:
    """How a model is cut over trainer ranks and over engine ranks.

    Attributes:
        tp, pp, vpp, cp: tensor, pipeline, virtual pipeline (chunks per stage) and context parallel sizes.
        ep, etp: expert parallel size, and the tensor parallel size of the expert part (1 is recommended).
        world: trainer ranks; 0 means as few as the sizes need.
        sp: sequence parallelism; None means with tp > 1 (a MoE model needs it there).
        stages: decoder layers of each chunk in model order (``pp * vpp`` numbers); empty means evenly cut.
        engine_tp, engine_pp, engine_ep: what SGLang calls ``--tp-size``, ``--pp-size`` and ``--ep-size``. An engine has
            ``engine_tp * engine_pp`` GPUs.
        engine_dp: data-parallel ranks of attention inside an engine (SGLang's DP attention): they share out engine_tp.
        engine_moe_dp: copies of the experts inside an engine; ``--moe-dp-size``.
        engines: how many engines there are.
        node_gpus: GPUs of one machine.
    """

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    world: int = 0
    sp: bool | None = None
    stages: tuple[int, ...] = ()
    engine_tp: int = 1
    engine_ep: int = 1
    engine_pp: int = 1
    engine_dp: int = 1
    engine_moe_dp: int = 1
    engines: int = 1
    node_gpus: int = 8

    def __post_init__(self) -> None:
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: a parallel size is 1 or more")
        if self.world < 0:
            raise UsageError(
                f"world={self.world}: give the number of trainer ranks, or 0 for as few as are needed"
            )
        if self.world == 0:
            # The dense part needs tp·cp ranks a stage and the expert part etp·ep: both must divide a stage.
            object.__setattr__(self, "world", math.lcm(self.tp * self.cp, self.etp * self.ep) * self.pp)
        if self.sp is None:
            object.__setattr__(self, "sp", self.tp > 1)

    @property
    def dp(self) -> int:
        """Data parallel size of the dense part."""
        return self.world // (self.tp * self.cp * self.pp)

    @property
    def edp(self) -> int:
        """Data parallel size of the expert part."""
        return self.world // (self.etp * self.ep * self.pp)

    @property
    def machines(self) -> tuple[int, int]:
        """How many machines the trainer has, and how many GPUs of each it takes."""
        gpus = min(self.world, self.node_gpus)
        return self.world // gpus, gpus

    @property
    def engine_gpus(self) -> int:
        """GPUs of one engine."""
        return self.engine_tp * self.engine_pp

    @property
    def engine_expert_tp(self) -> int:
        """Tensor parallel size of the expert part of an engine: what EP and MoE-DP leave of its TP."""
        return self.engine_tp // (self.engine_ep * self.engine_moe_dp)

    def coordinates(self, rank: int) -> Coordinates:
        """Where `rank` lies, in Megatron's order tp-cp-ep-dp-pp (``parallel_state.RankGenerator``).

        Raises `UsageError` for a rank that the world has not got, or a world too small for one replica.
        """
        if not 0 <= rank < self.world or not self.dp or not self.edp:
            raise UsageError(f"rank {rank} has no place in {self}")
        rest, tp = divmod(rank, self.tp)
        rest, cp = divmod(rest, self.cp)
        pp, dp = divmod(rest, self.dp)
        rest, etp = divmod(rank, self.etp)
        rest, ep = divmod(rest, self.ep)
        return Coordinates(tp, cp, dp, pp, etp, ep, rest % self.edp)

    def provider_fields(self) -> dict[str, Any]:
        """The fields of a Megatron Bridge provider that these sizes set."""
        return {
            "tensor_model_parallel_size": self.tp,
            "pipeline_model_parallel_size": self.pp,
            "virtual_pipeline_model_parallel_size": self.vpp if self.vpp > 1 else None,
            "context_parallel_size": self.cp,
            "expert_model_parallel_size": self.ep,
            "expert_tensor_parallel_size": self.etp,
            "sequence_parallel": bool(self.sp),
            **({"pipeline_model_parallel_layout": self._layout()} if self.stages else {}),
        }

    @classmethod
    def from_provider(cls, provider: Any, *, world: int = 0) -> Topology:
        """Read the fields of a Megatron Bridge provider, or of any config that has Megatron's names."""

        def size(name: str, default: int = 1) -> int:
            return int(getattr(provider, name, None) or default)

        tp, pp = size("tensor_model_parallel_size"), size("pipeline_model_parallel_size")
        layout = _chunks(getattr(provider, "pipeline_model_parallel_layout", None))
        return cls(
            tp=tp,
            pp=pp,
            vpp=len(layout) // pp if layout else size("virtual_pipeline_model_parallel_size"),
            cp=size("context_parallel_size"),
            ep=size("expert_model_parallel_size"),
            etp=size("expert_tensor_parallel_size", tp),
            sp=bool(getattr(provider, "sequence_parallel", False)),
            stages=tuple(chunk.count("decoder") for chunk in layout),
            world=world,
        )

    def _layout(self) -> list[list[str]]:
        chunks = [["decoder"] * layers for layers in self.stages]
        chunks[0].insert(0, "embedding")
        chunks[-1].append("loss")
        return chunks

    def __str__(self) -> str:
        names = ("tp", "pp", "vpp", "cp", "ep", "etp")
        sizes = [
            f"{n.upper()}={getattr(self, n)}"
            for n in names
            if getattr(self, n) > 1 or n in ("tp", "pp", "ep")
        ]
        stages = [f"STAGES={','.join(map(str, self.stages))}"] if self.stages else []
        return " ".join([*sizes, *stages, *(["SP"] if self.sp else []), f"WORLD={self.world}"])


def _chunks(layout: Any) -> list[list[str]]:
    """A layout's chunks in model order, as a list was given; or from what Megatron makes of it, stage by stage."""
    if not layout:
        return []
    if isinstance(layout, list):
        return layout
    stages = layout.layout
    return [[part.name for part in stage[chunk]] for chunk in range(len(stages[0])) for stage in stages]
