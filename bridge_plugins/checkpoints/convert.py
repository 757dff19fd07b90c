"""Conversions with processes of their own: one rank for each that the topology asks for, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bridge_plugins.checkpoints import paths, work
from bridge_plugins.checkpoints.messages import Converted
from bridge_plugins.checkpoints.part import whole
from bridge_plugins.errors import BridgePluginsError, UsageError
from bridge_plugins.launch import ranks
from bridge_plugins.launch.processes import Run, ended_by_signals
from bridge_plugins.topology import ModelSizes, Topology, broken_rules

#: Seconds; a conversion of a terabyte takes hours.
TIMEOUT = 24 * 3600.0


class ConversionError(BridgePluginsError):
    """What was written is not what was read: nothing is left of it. `converted` has the findings."""

    def __init__(self, converted: Converted) -> None:
        super().__init__(f"{len(converted.findings)} findings, the first: {converted.findings[0]}")
        self.converted = converted


def to_megatron(
    source: Path, out: Path, topology: Topology, progress: Callable[[str], None] = lambda _: None
) -> tuple[Path, Converted]:
    """Convert an HF folder to a torch_dist checkpoint at ``OUT_tp…_pp…_ep…_etp…``; that folder, and what is in it.

    Raises:
        UsageError: if `source` is no HF folder, the topology breaks a rule, or the checkpoint is there already.
        ConversionError: if what was read back is not bit for bit `source`. Nothing is left of it.
        BridgePluginsError: with the words of a rank that failed. Nothing is left of it.
    """
    if not (source / "config.json").is_file():
        raise UsageError(f"{source} has no config.json: name a Hugging Face folder")
    destination = out.with_name(paths.with_topology(out.name, topology))
    return destination, _converted(source, destination, source, topology, progress, to_hf=False)


def to_hf(
    source: Path,
    out: Path,
    topology: Topology,
    progress: Callable[[str], None] = lambda _: None,
    *,
    hf: Path | None = None,
) -> tuple[Path, Converted]:
    """Convert the latest iteration of a torch_dist checkpoint to an HF folder, on ranks of `topology`, whichever wrote it.

    Args:
        hf: an HF folder with the model's config and tokenizer; None for the one that `to_megatron` put into the checkpoint.

    Raises as `to_megatron`; `ConversionError` if the checkpoint has a summary, and this is something else.
    """
    iteration = paths.iteration(source)
    found = hf or next((f / paths.HF for f in (source, iteration.parent) if (f / paths.HF).is_dir()), None)
    if found is None or not (found / "config.json").is_file():
        raise UsageError(
            f"{source} doesn't say what model it is: give --hf, a Hugging Face folder with its config"
        )
    return out, _converted(source, out, found, topology, progress, to_hf=True)


def _converted(
    source: Path,
    destination: Path,
    hf: Path,
    topology: Topology,
    progress: Callable[[str], None],
    *,
    to_hf: bool,
) -> Converted:
    progress("reading the config")
    _refuse_what_breaks_a_rule(hf, topology)
    with ended_by_signals(), whole(destination) as part, Run() as run:
        progress(f"starting {topology.world} ranks")
        told = work.job(source.resolve(), part.resolve(), hf.resolve(), topology, to_hf=to_hf)
        process = ranks.start(run, "bridge_plugins.checkpoints.work", told, topology.world)
        converted = ranks.result(run, process, Converted, TIMEOUT, progress)
        if converted.findings:
            raise ConversionError(converted)
    return converted


def _refuse_what_breaks_a_rule(hf: Path, topology: Topology) -> None:
    import torch
    from transformers import AutoConfig

    from bridge_plugins.patches import cpu

    try:
        config = AutoConfig.from_pretrained(hf)
    except (OSError, ValueError) as error:
        raise UsageError(f"{hf} has no config that can be read: {str(error).splitlines()[0]}") from error
    broken = [str(violation) for violation in broken_rules(topology, ModelSizes.from_hf_config(config))]
    if not cpu.wanted() and topology.world > (gpus := torch.cuda.device_count()):
        broken.append(f"a GPU for each rank: WORLD={topology.world}, GPUs={gpus}; try BRIDGE_PLUGINS_CPU=1")
    if broken:
        listed = "\n".join(f"  {rule}" for rule in broken)
        raise UsageError(f"{hf} can't be converted with {topology}:\n{listed}")
