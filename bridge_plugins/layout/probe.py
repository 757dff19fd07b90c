"""Find out a layout: load coded weights through the holder's own loader and see where they land."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.layout.codes import CODED_DTYPES
from bridge_plugins.layout.planes import coded, coded_sources, planes_for
from bridge_plugins.layout.reachable import Saved, reachable
from bridge_plugins.layout.sources import Source
from bridge_plugins.layout.trace import Trace

Load = Callable[[Iterable[tuple[str, Tensor]]], None]


@dataclass(frozen=True)
class Block:
    """A block of an HF tensor in a local one: local tensor's path, HF tensor, and the box that relates them."""

    path: str
    source: Source
    box: Box


@dataclass(frozen=True)
class Layout:
    """Where every HF tensor lies in one process: its blocks, and what could not be told and why, by HF name."""

    blocks: tuple[Block, ...]
    untold: dict[str, str]


@torch.no_grad()
def find_layout(model: nn.Module, load: Load, sources: Sequence[Source]) -> Layout:
    """The layout of `sources` in `model`, whose own loader is `load`.

    Keeps a copy of the model's tensors in host memory meanwhile and puts every bit back, whatever happens.
    Raises `LayoutError` if that fails: the model must then not serve.
    """
    carriers = coded_sources(sources)
    untold = {s.name: f"dtype {s.dtype} can't carry a code" for s in sources if s not in set(carriers)}
    # Coded as float16 if any source is: its patterns mean other numbers than bfloat16's, and one read fits all.
    dtype = torch.float16 if any(s.dtype == "float16" for s in carriers) else torch.bfloat16
    saved = Saved(model)
    traces: dict[str, Trace] = {}
    try:
        for plane in planes_for(carriers):
            device = next(model.parameters()).device
            load(coded(carriers, plane, device))
            for held in reachable(model):
                if held.tensor.dtype in CODED_DTYPES:
                    traces.setdefault(held.path, Trace(dtype)).see(plane, held.tensor)
    finally:
        if lost := saved.restore():
            raise LayoutError(
                f"after probing the layout {len(lost)} tensors did not come back, first: {lost[0]}"
            )
    blocks = tuple(
        Block(path, carriers[number], box)
        for path, trace in traces.items()
        for number, box in trace.boxes()
        if number < len(carriers)
    )
    return Layout(blocks, untold)
