"""Find out a layout: load coded weights through the holder's own loader and see where they land."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.layout.offsets import Offset, Offsets
from bridge_plugins.layout.planes import Coded, coded_sources, planes_for
from bridge_plugins.layout.prints import prints
from bridge_plugins.layout.reachable import reachable
from bridge_plugins.layout.restore import FromCopy, FromReload, Restore
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
        offsets: path of a local tensor → the tensor that it is a constant more than. Not in `derived`.
    """

    blocks: tuple[Block, ...] = ()
    untold: dict[str, str] = field(default_factory=dict)
    derived: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, Offset] = field(default_factory=dict)


@torch.no_grad()
def find_layout(
    model: nn.Module,
    load: Load,
    sources: Sequence[Source],
    *,
    reload: Callable[[], None] | None = None,
) -> Layout:
    """The layout of `sources` in `model`, whose own loader is `load`. Puts every bit back, whatever happens.

    Args:
        model: holds the tensors; all that its modules reach is looked at.
        load: loads weights as the model is served. It is called once for each plane, and once more before.
        sources: the HF tensors that it takes.
        reload: loads what the model holds now once more; fingerprints prove that it did. Without it a copy is kept,
            in a temporary file (see `layout.restore`).

    Raises:
        LayoutError: if something did not come back: the model must then not serve.
    """
    carriers = coded_sources(sources)
    carried = set(carriers)
    untold = {s.name: f"dtype {s.dtype} can't carry a code" for s in sources if s not in carried}
    device = next(model.parameters()).device
    planes = planes_for(carriers)
    states = [prints(reachable(model))]
    restore: Restore = FromCopy(model) if reload is None else FromReload(model, reload)
    traces: dict[str, Trace] = {}
    offsets = Offsets()
    try:
        # What has the same bits before, after one code and after the other was not written.
        load(Coded(carriers, planes[1], device))
        states.append(prints(reachable(model)))
        for plane in planes:
            load(Coded(carriers, plane, device))
            if plane is planes[0]:
                states.append(prints(reachable(model)))
                written = {path for path in states[2] if len({state.get(path) for state in states}) > 1}
            found = {held.path: held.tensor.detach() for held in reachable(model) if held.path in written}
            offsets.see(found)
            for path, tensor in found.items():
                trace = traces.setdefault(path, Trace(tensor.dtype, tensor.numel()))
                trace.see(plane, tensor, last=plane is planes[-1])
    finally:
        _put_back(restore)
    blocks: list[Block] = []
    derived: dict[str, str] = {}
    copied: set[str] = set()
    for path, trace in traces.items():
        mine = [Block(path, carriers[n], box) for n, box in trace.boxes() if n < len(carriers)]
        blocks += mine
        if why := trace.why_derived(sum(block.box.count for block in mine)):
            derived[path] = why
        elif mine:
            copied.add(path)
    made = {
        path: offset
        for path, offset in offsets.found().items()
        if path in derived and offset.parent in copied
    }
    return Layout(tuple(blocks), untold, {p: why for p, why in derived.items() if p not in made}, made)


def _put_back(restore: Restore) -> None:
    try:
        lost = restore()
    except Exception as error:
        raise LayoutError(
            f"after probing the layout the weights could not be put back ({type(error).__name__}: {error})"
        ) from error
    if lost:
        raise LayoutError(f"after probing the layout {len(lost)} tensors did not come back, first: {lost[0]}")
