"""Find out a layout: load coded weights through the holder's own loader and see where they land."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.layout.codes import CODED_DTYPES
from bridge_plugins.layout.planes import Coded, coded_sources, planes_for
from bridge_plugins.layout.reachable import Saved, reachable
from bridge_plugins.layout.sources import Source
from bridge_plugins.layout.trace import Trace

Load = Callable[[Coded], None]


@dataclass(frozen=True)
class Block:
    """A block of an HF tensor in a local one: local tensor's path, HF tensor, and the box that relates them."""

    path: str
    source: Source
    box: Box


@dataclass(frozen=True)
class Layout:
    """Where every HF tensor lies in one process.

    Attributes:
        blocks: what was copied, and whither.
        untold: HF name → why it is not known where that tensor lies.
        derived: path of a local tensor → why it is not known what its elements are. The loader writes it, so what
            is served depends on it, and its parents' bits alone prove nothing.
    """

    blocks: tuple[Block, ...] = ()
    untold: dict[str, str] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)


@torch.no_grad()
def find_layout(model: nn.Module, load: Load, sources: Sequence[Source]) -> Layout:
    """The layout of `sources` in `model`, whose own loader is `load`.

    Keeps a copy of the model's tensors in host memory meanwhile and puts every bit back, whatever happens.
    Raises `LayoutError` if that fails: the model must then not serve.
    """
    carriers = coded_sources(sources)
    carried = set(carriers)
    untold = {s.name: f"dtype {s.dtype} can't carry a code" for s in sources if s not in carried}
    saved = Saved(model)
    traces: dict[str, Trace] = {}
    derived: dict[str, str] = {}
    planes = planes_for(carriers)
    device = next(model.parameters()).device
    try:
        for held in reachable(model):
            if held.tensor.dtype in CODED_DTYPES:
                # Zero is no code: what is still zero afterwards was never written.
                held.tensor.data.zero_()
        for plane in planes:
            load(Coded(carriers, plane, device))
            for held in reachable(model):
                if held.tensor.dtype in CODED_DTYPES:
                    traces.setdefault(held.path, Trace()).see(plane, held.tensor)
                elif saved.changed(held):
                    derived[held.path] = f"the loader writes it, and {held.tensor.dtype} can't carry a code"
    finally:
        if lost := saved.restore():
            raise LayoutError(
                f"after probing the layout {len(lost)} tensors did not come back, first: {lost[0]}"
            )
    blocks = []
    for path, trace in traces.items():
        mine = [Block(path, carriers[n], box) for n, box in trace.boxes() if n < len(carriers)]
        blocks += mine
        if unknown := trace.written - sum(block.box.count for block in mine):
            derived[path] = f"{unknown} of {trace.written} elements are computed by the loader, not copied"
    return Layout(tuple(blocks), untold, derived)
