"""A trainer rank's layout: which blocks of which HF tensors its parameters hold, found out by the bridge's own import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch import nn

from bridge_plugins.errors import LayoutError, UsageError
from bridge_plugins.layout.planes import Coded
from bridge_plugins.layout.probe import Layout, find_layout
from bridge_plugins.layout.sources import Source, read_sources
from bridge_plugins.layout.trainer_source import load_coded


def trainer_layout(
    bridge: Any, chunks: Sequence[nn.Module], sources: Sequence[Source] | None = None, *, group: Any = None
) -> Layout:
    """Where every HF tensor lies in this rank's parameters. Every rank must call this: an import has collectives.

    Call it after the model is built and before its optimizer is, which keeps copies of the parameters. Coded weights go
    through ``bridge.load_hf_weights`` five to seven times, made as they are asked for; every bit comes back afterwards.

    Args:
        bridge: the AutoBridge that imports the model.
        chunks: this rank's model, one chunk per virtual stage. The paths of the layout begin with the chunk's number.
        sources: the HF tensors; None for those of the checkpoint that the bridge was made from.
        group: a group of all ranks of the trainer, for one word on success; None for the default group.

    Returns:
        What was copied. Parameters that the bridge computes, quantizes (fp8) or leaves alone (adapters) stand in `derived`
        with the reason.

    Raises:
        LayoutError: on every rank, naming the ranks, if one of them failed or could not be put back.
        UsageError: if the bridge has no checkpoint and no `sources` are given.
    """
    listed = _sources_of(bridge) if sources is None else list(sources)

    def load(coded: Coded) -> None:
        load_coded(bridge, chunks, listed, coded)

    model = nn.ModuleList(chunks)
    layout, failure = Layout(), ""
    try:
        layout = find_layout(model, load, listed)
    except Exception as error:  # the other ranks must hear of it
        failure = f"{type(error).__name__}: {error}"
    _agree(failure, group)
    return Layout(layout.blocks, layout.untold, {**dict(_unwritten(model, layout)), **layout.derived})


def _unwritten(model: nn.Module, layout: Layout) -> Iterator[tuple[str, str]]:
    known = {block.path for block in layout.blocks} | {path.rpartition(".")[0] for path in layout.derived}
    for path, parameter in model.named_parameters():
        if parameter.numel() and path not in known and path not in layout.derived:
            yield path, "the import writes nothing to it, as to an adapter"


def _sources_of(bridge: Any) -> list[Source]:
    path = getattr(getattr(getattr(bridge.hf_pretrained, "state", None), "source", None), "path", None)
    if path is None:
        raise UsageError("the bridge was made without a checkpoint on disk: give the HF tensors as sources=")
    return read_sources(path)


def _agree(failure: str, group: Any) -> None:
    failures: list[str] = [failure]
    if dist.is_available() and dist.is_initialized():
        failures = [""] * dist.get_world_size(group)
        dist.all_gather_object(failures, failure, group=group)
    if failed := [rank for rank, word in enumerate(failures) if word]:
        ranks = ", ".join(map(str, failed[:8])) + (", …" if len(failed) > 8 else "")
        raise LayoutError(f"the layout was not found out on ranks {ranks}: {failures[failed[0]]}")
