"""What each rank of a conversion does. Started by `convert` under torchrun."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge_plugins.audit.finding import Finding
from bridge_plugins.checkpoints import paths, raw, safetensors_files
from bridge_plugins.checkpoints.described import as_in_source, describe, read
from bridge_plugins.checkpoints.messages import Converted, Job
from bridge_plugins.checkpoints.model import Model, build
from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Topology

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit.expected import Expected
    from bridge_plugins.audit.summary import Summary

#: What a conversion must keep. Rules about what training does to weights have no say in it.
RULES = ("SET", "UNIQ", "SHAPE", "DTYPE", "HASH")

Say = Callable[[str], None]


def work(job: Job, say: Say) -> Converted:
    """Convert, whichever the direction."""
    topology = Topology(**{**job.topology, "stages": tuple(job.topology.get("stages", ()))})
    return (to_hf if job.to_hf else to_megatron)(job, topology, say)


def to_megatron(job: Job, topology: Topology, say: Say) -> Converted:
    """HF folder → torch_dist, through the bridge; then read back raw, and held against the folder, bit for bit."""
    import torch.distributed as dist

    from bridge_plugins.audit import Expected
    from bridge_plugins.first_rank import on_first_rank

    source, part = Path(job.source), Path(job.part)
    say(f"loading {source.name} through the bridge: {topology}")
    model = build(source, topology, weights=True)
    say("saving")
    iteration = part / paths.RELEASE
    on_first_rank(lambda: iteration.mkdir(), error_type=UsageError)
    raw.save(model.chunks, iteration)
    say("reading back")
    raw.forget(model.chunks)
    raw.load(model.chunks, iteration)
    say("comparing with the source")
    expected = Expected.from_folder(source) if dist.get_rank() == 0 else None
    summary = _audited(model, source.name, topology, expected, _drained)
    on_first_rank(lambda: _complete(summary, iteration, source, part), error_type=UsageError)
    converted = _converted(summary, str(source), summary.findings)
    known = expected.sources if expected else {}
    converted.wider = sum(
        record.dtype != known[name].dtype for name, record in summary.records.items() if name in known
    )
    return converted


def to_hf(job: Job, topology: Topology, say: Say) -> Converted:
    """torch_dist → HF folder: loaded raw, exported through the bridge, held against the checkpoint's summary."""
    import torch.distributed as dist

    from bridge_plugins.audit.reading import read_summary
    from bridge_plugins.first_rank import on_first_rank

    iteration, hf, part = paths.iteration(Path(job.source)), Path(job.hf), Path(job.part)
    model = build(hf, topology, weights=False)
    raw.forget(model.chunks)
    say(f"loading {iteration}: {topology}")
    raw.load(model.chunks, iteration)
    say("exporting through the bridge")

    def consume(stream: Iterable[tuple[str, Tensor]]) -> None:
        if dist.get_rank() == 0:
            safetensors_files.write(as_in_source(stream, read(hf)), part)
        else:
            _drained(stream)

    summary = _audited(model, Path(job.source).resolve().name, topology, None, consume)
    on_first_rank(lambda: safetensors_files.copy_artifacts(hf, part), error_type=UsageError)
    beside = paths.summary_of(iteration)
    if not beside.is_file():
        return _converted(summary, "", summary.findings)
    return _converted(summary, str(beside), _differences(read_summary(beside), summary))


def _audited(
    model: Model,
    name: str,
    topology: Topology,
    expected: Expected | None,
    consume: Callable[[Iterator[tuple[str, Tensor]]], None],
) -> Summary:
    from bridge_plugins.audit import WeightAudit

    audit = WeightAudit(name, str(topology), expected, rules=RULES)
    consume(audit.watch(model.bridge.export_hf_weights(model.chunks, cpu=True, show_progress=False)))
    return audit.finish("0")[0]


def _drained(stream: Iterable[Any]) -> None:
    for _ in stream:
        pass


def _complete(summary: Summary, iteration: Path, source: Path, part: Path) -> None:
    summary.write(paths.summary_of(iteration))
    safetensors_files.copy_artifacts(source, part / paths.HF)
    describe(source, part / paths.HF)
    (part / paths.TRACKER).write_text(paths.RELEASE)


def _differences(before: Summary, after: Summary) -> list[Finding]:
    from bridge_plugins.audit.comparison import compare
    from bridge_plugins.audit.diagnosis import diagnose

    difference = compare(before, after)
    wrong = {changed.name: after.records[changed.name] for changed in difference.changed}
    return [
        *(Finding("SET", name, "is in the checkpoint's summary and was not exported") for name in difference.missing),
        *(Finding("SET", name, "was exported and is not in the checkpoint's summary") for name in difference.unexpected),
        *(Finding("HASH", cause.where, cause.what, names=cause.names) for cause in diagnose(wrong, before.records)),
    ]  # fmt: skip


def _converted(summary: Summary, compared_with: str, findings: list[Finding]) -> Converted:
    nbytes = sum(record.nbytes for record in summary.records.values())
    counting = [finding for finding in findings if finding.counts]
    return Converted(len(summary.records), nbytes, summary.digest, compared_with, counting)


def job(source: Path, part: Path, hf: Path, topology: Topology, *, to_hf: bool) -> Job:
    """What the ranks of a conversion with `topology` are told."""
    return Job(str(source), str(part), str(hf), dataclasses.asdict(topology), to_hf)


if __name__ == "__main__":
    from bridge_plugins.launch.ranks import as_rank

    as_rank(work, Job)
