"""Sizes of a trainer and of the engines it pushes to, a rank's coordinates, and the rules that bind them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridge_plugins.errors import UsageError


@dataclass(frozen=True)
class ModelSizes:
    """The numbers of a model that a topology must divide, as its HF config gives them. ``experts`` is 0 if dense."""

    layers: int
    heads: int
    kv_heads: int
    hidden: int
    ffn: int
    experts: int = 0
    expert_ffn: int = 0

    @classmethod
    def from_hf_config(cls, config: Any) -> ModelSizes:
        """Read a ``transformers`` config. Raises `UsageError` naming the field that it lacks."""
        config = getattr(config, "text_config", None) or config

        def first(*names: str, default: int | None = None) -> int:
            for name in names:
                if getattr(config, name, None) is not None:
                    return int(getattr(config, name))
            if default is None:
                raise UsageError(
                    f"the model's config ({type(config).__name__}) has none of: {', '.join(names)}"
                )
            return default

        heads = first("num_attention_heads")
        ffn = first("intermediate_size")
        return cls(
            layers=first("num_hidden_layers"),
            heads=heads,
            kv_heads=first("num_key_value_heads", default=heads),
            hidden=first("hidden_size"),
            ffn=ffn,
            experts=first("num_experts", "n_routed_experts", "num_local_experts", default=0),
            expert_ffn=first("moe_intermediate_size", default=ffn),
        )


class Violation(NamedTuple):
    """A rule that a topology breaks: the rule, the numbers that break it, and a setting that works."""

    rule: str
    numbers: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.numbers}; try {self.remedy}"


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
        engine_tp, engine_ep: what SGLang calls ``--tp-size`` and ``--ep-size``; the expert part of an engine has
            a tensor parallel size of ``engine_tp // engine_ep``.
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

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "engine_tp", "engine_ep"):
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

    def violations(self, model: ModelSizes) -> list[Violation]:
        """Every rule of Megatron's and of SGLang's that these sizes break for `model`; empty if it can work."""
        return [*self._trainer_violations(model), *self._engine_violations(model)]

    def _trainer_violations(self, model: ModelSizes) -> Iterator[Violation]:
        dense, expert = self.tp * self.cp * self.pp, self.etp * self.ep * self.pp
        if self.world % dense or self.world % expert:
            yield Violation(
                "the world divides into dense replicas (TP·CP·PP) and expert replicas (ETP·EP·PP)",
                f"WORLD={self.world}, TP·CP·PP={dense}, ETP·EP·PP={expert}",
                f"WORLD={math.lcm(dense, expert)} or a multiple of it",
            )
        yield from _divides("attention heads by TP", "TP", self.tp, model.heads, "heads")
        yield from _divides("key-value heads by TP", "TP", self.tp, model.kv_heads, "kv heads")
        yield from _divides("the feed-forward size by TP", "TP", self.tp, model.ffn, "ffn")
        yield from self._pipeline_violations(model)
        if not model.experts:
            if self.ep > 1:
                yield Violation("a dense model has no experts to cut", f"EP={self.ep}, experts=0", "EP=1")
            return
        yield from _divides("experts by EP", "EP", self.ep, model.experts, "experts")
        yield from _divides(
            "the experts' feed-forward size by ETP", "ETP", self.etp, model.expert_ffn, "expert ffn"
        )
        if self.tp > 1 and not self.sp:
            yield Violation(
                "a MoE model with TP>1 needs sequence parallelism",
                f"TP={self.tp}, EP={self.ep}, no SP",
                "SP=1",
            )

    def _pipeline_violations(self, model: ModelSizes) -> Iterator[Violation]:
        chunks = self.pp * self.vpp
        if self.vpp > 1 and self.pp == 1:
            yield Violation("virtual stages need a pipeline", f"VPP={self.vpp}, PP=1", "VPP=1, or PP=2")
        if chunks > model.layers:
            yield Violation(
                "each of PP·VPP chunks has a layer",
                f"PP·VPP={chunks}, layers={model.layers}",
                f"PP={model.layers} VPP=1",
            )
        elif self.stages:
            if len(self.stages) != chunks or sum(self.stages) != model.layers or min(self.stages) < 0:
                yield Violation(
                    "STAGES gives the layers of each of PP·VPP chunks and sums to the model's",
                    f"STAGES={','.join(map(str, self.stages))}, PP·VPP={chunks}, layers={model.layers}",
                    "STAGES=" + ",".join(str(len(range(c, model.layers, chunks))) for c in range(chunks)),
                )
        elif model.layers % chunks:
            uneven = ",".join(str(len(range(c, model.layers, chunks))) for c in range(chunks))
            yield Violation(
                "layers divide evenly over PP·VPP chunks, or STAGES says how",
                f"layers={model.layers}, PP·VPP={chunks}",
                f"STAGES={uneven}",
            )

    def _engine_violations(self, model: ModelSizes) -> Iterator[Violation]:
        yield from _divides(
            "attention heads by the engine's TP", "ENGINE_TP", self.engine_tp, model.heads, "heads"
        )
        if model.kv_heads % self.engine_tp and self.engine_tp % model.kv_heads:
            yield Violation(
                "the engine's TP divides the key-value heads or is a multiple of them",
                f"ENGINE_TP={self.engine_tp}, kv heads={model.kv_heads}",
                f"ENGINE_TP={math.gcd(self.engine_tp, model.kv_heads)}",
            )
        if self.engine_tp % self.engine_ep:
            yield Violation(
                "the engine's EP divides its TP (SGLang counts a GPU once for both)",
                f"ENGINE_TP={self.engine_tp}, ENGINE_EP={self.engine_ep}",
                f"ENGINE_TP={self.engine_ep}",
            )
            return
        if not model.experts:
            yield from _divides(
                "the feed-forward size by the engine's TP", "ENGINE_TP", self.engine_tp, model.ffn, "ffn"
            )
            if self.engine_ep > 1:
                yield Violation(
                    "a dense model has no experts to cut",
                    f"ENGINE_EP={self.engine_ep}, experts=0",
                    "ENGINE_EP=1",
                )
            return
        yield from _divides(
            "experts by the engine's EP", "ENGINE_EP", self.engine_ep, model.experts, "experts"
        )
        expert_tp = self.engine_tp // self.engine_ep
        yield from _divides(
            "the experts' feed-forward size by ENGINE_TP/ENGINE_EP",
            "ENGINE_TP/ENGINE_EP", expert_tp, model.expert_ffn, "expert ffn",
        )  # fmt: skip


def _divides(rule: str, name: str, size: int, whole: int, of: str) -> Iterator[Violation]:
    if whole % size:
        works = max(n for n in range(1, size + 1) if whole % n == 0)
        yield Violation(f"a parallel size divides {rule}", f"{name}={size}, {of}={whole}", f"{name}={works}")
