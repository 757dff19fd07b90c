"""The preflight itself: every stage built once, every expert-parallel rank named, all compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

from bridge_plugins import plugins
from bridge_plugins.errors import UsageError
from bridge_plugins.names.param_name import ParamName
from bridge_plugins.names.preflight import expert_ranks, shapes
from bridge_plugins.names.preflight.compare import compare
from bridge_plugins.names.preflight.holdings import Held, held
from bridge_plugins.names.preflight.report import ExpertRank, Finding, Report, Stage
from bridge_plugins.names.preflight.simulation import rank_of, simulated_rank, smallest
from bridge_plugins.names.preflight.source import Shape, Source
from bridge_plugins.topology import ModelSizes, Topology, broken_rules


def check(
    source: Source,
    topology: Topology,
    *,
    patched: bool = True,
    layout: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Check the names of every rank of `topology`; `layout` is Megatron's text for explicit pipeline
    layouts.

    `patched` False takes the name patch back first, to show what stock names would be. `progress` is told
    of each stage. Raises `UsageError` for sizes that can't be, a model without a bridge, or another model's index.
    """
    patcher = plugins.load()
    topology = _with_stages(topology, layout)
    notes = _violations(source, topology, layout)
    import megatron.bridge  # noqa: F401 (the patches are judged when it is imported)

    if not patched:
        patcher.revert("names")
    cluster = Cluster(source, smallest(topology), layout or None)
    findings: list[Finding] = []
    for stage in range(topology.pp):
        progress(f"pipeline stage {stage + 1} of {topology.pp}")
        for found in cluster.visit(stage):
            if isinstance(found, str):
                notes.append(found)
            else:
                findings.append(found)
    everything = cluster.everything
    made = {name for one in everything for name in one.hf}
    if made and made.isdisjoint(source.tensors):
        raise UsageError(
            f"{source.name}: none of its {len(source.tensors)} tensors (such as {min(source.tensors)}) is one that "
            f"the bridge makes of a {source.family}; give the config and the index of one model"
        )
    progress("comparing with the checkpoint")
    findings += compare(everything, source, topology)
    return Report(
        model=source.name,
        family=source.family,
        topology=str(topology),
        bridge=f"megatron-bridge {version('megatron-bridge')}, names {patcher.status['names'].state.value}",
        patched=patched,
        parameters=len({one.whole for one in everything}),
        hf_tensors=len(source.tensors),
        expected_from=source.expected_from,
        stages=_stages(everything),
        experts=_experts(everything),
        findings=sorted(set(findings), key=lambda found: (found.kind, ParamName.parse(found.name).parts)),
        notes=list(dict.fromkeys(notes)),
    )


@dataclass
class Cluster:
    """The simulated cluster: what was found on the stages that were visited."""

    source: Source
    sizes: Topology
    layout: Any
    everything: list[Held] = field(default_factory=list)
    _cut: set[tuple[str, Shape]] = field(default_factory=set)
    _experts_built: bool = False

    def visit(self, stage: int) -> Iterator[Finding | str]:
        """Add what the stage's ranks hold to `everything`; give what is wrong with its shapes, and notes."""
        uncut = smallest(replace(self.sizes, tp=1, cp=1, etp=1, sp=False))
        with simulated_rank(self.source, uncut, rank_of(uncut, stage), self.layout) as rank:
            whole = shapes.shapes_of(rank)
            first = list(held(rank, stage, 0))
            self.everything += first
            has_experts = any(one.expert for one in first)
            for ep in range(1, self.sizes.ep) if has_experts else ():
                expert_ranks.move(rank.models, ep, self.sizes.ep)
                self.everything += held(rank, stage, ep, experts_only=True)
            yield from shapes.against_checkpoint(rank, first, self.source)
        if has_experts and self.sizes.ep > 1 and not self._experts_built:
            self._experts_built = True
            yield from self._moved_is_built(uncut, stage)
        # Parameters that differ in their numbers alone are cut alike: a stage of nothing new needn't be
        # built.
        kinds = shapes.kinds(whole)
        if uncut != self.sizes and not kinds <= self._cut:
            self._cut |= kinds
            with simulated_rank(self.source, self.sizes, rank_of(self.sizes, stage), self.layout) as rank:
                yield from shapes.misfits(shapes.shapes_of(rank), whole, self.sizes, stage)

    def _moved_is_built(self, uncut: Topology, stage: int) -> Iterator[Finding]:
        """Hold the last expert-parallel rank, moved to, against the same rank built in earnest."""
        last = uncut.ep - 1
        with simulated_rank(self.source, uncut, rank_of(uncut, stage, last), self.layout) as rank:
            built = set(held(rank, stage, last, experts_only=True))
        moved = {one for one in self.everything if (one.stage, one.ep) == (stage, last)}
        for one in sorted(built ^ moved, key=lambda one: one.whole):
            how = "built" if one in built else "moved to"
            yield Finding(
                "NAMING", one.local, f"PP {stage} EP {last}", f"{one.whole} only where the rank is {how}"
            )


def _with_stages(topology: Topology, layout: str) -> Topology:
    """The topology with the decoder layers of each chunk counted from `layout`."""
    if not layout:
        return topology
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    try:
        chunks = PipelineParallelLayerLayout.parse_str_to_list(layout)
    except Exception as error:  # Megatron's parser raises what it happens on
        raise UsageError(
            f"--layout {layout!r} can't be read ({error}); write Et*2|t*2|t*2|t*2L for 8 layers on 4 stages"
        ) from error
    counts = tuple(sum(_is_decoder(kind) for kind in chunk) for chunk in chunks)
    return replace(topology, stages=counts)


def _is_decoder(kind: Any) -> bool:
    return kind in ("t", "decoder") or getattr(kind, "name", "") == "decoder"


def _violations(source: Source, topology: Topology, layout: str) -> list[str]:
    try:
        sizes = ModelSizes.from_hf_config(source.config)
    except (UsageError, TypeError) as error:
        return [f"sizes not checked before building: {error}"]
    broken = broken_rules(topology, sizes)
    chunks = topology.pp * topology.vpp
    if layout and (sum(topology.stages), len(topology.stages)) != (sizes.layers, chunks):
        counts = ",".join(map(str, topology.stages))
        raise UsageError(
            f"--layout {layout!r} gives {counts} decoder layers to {len(topology.stages)} chunks; the model has "
            f"{sizes.layers} and PP·VPP is {chunks}; try --layout '{_evenly(sizes.layers, chunks)}'"
        )
    if broken:
        raise UsageError("; ".join(map(str, broken)))
    return []


def _evenly(layers: int, chunks: int) -> str:
    counts = [len(range(chunk, layers, chunks)) for chunk in range(chunks)]
    return f"E{'|'.join(f't*{count}' if count else '' for count in counts)}L"


def _stages(everything: list[Held]) -> list[Stage]:
    layers: dict[tuple[int, int], set[int]] = defaultdict(set)
    others: dict[tuple[int, int], set[str]] = defaultdict(set)
    for one in everything:
        name, place = ParamName.parse(one.whole), (one.stage, one.chunk)
        if name.layer is not None and "decoder" in name.layer_path and "vision_model" not in name.parts:
            layers[place].add(name.layer)
        else:
            others[place].add(
                name.parts[0] if name.layer is None else ".".join(name.layer_path[:-2] or name.parts[:1])
            )
    return [
        Stage(*place, sorted(layers[place]), sorted(others[place])) for place in sorted({*layers, *others})
    ]


def _experts(everything: list[Held]) -> list[ExpertRank]:
    experts: dict[int, set[int]] = defaultdict(set)
    for one in everything:
        if (expert := ParamName.parse(one.whole).expert) is not None:
            experts[one.ep].add(expert)
    return [ExpertRank(ep, sorted(numbers)) for ep, numbers in sorted(experts.items())]
