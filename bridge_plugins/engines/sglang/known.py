"""What a process of the engine knows of the model that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor, nn

from bridge_plugins.engines.sglang.digests import LayerDigests
from bridge_plugins.engines.sglang.holders import Agreement
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.errors import EngineError
from bridge_plugins.layout.probe import Block, Layout
from bridge_plugins.layout.reachable import dense, reachable
from bridge_plugins.layout.sources import Source


@dataclass
class Known:
    """The layout, and what the ranks made of it.

    Attributes:
        agreement: None if the ranks could not agree; `agreed` is then empty, and else the same on all of them.
        compared: bytes of this process that lie in some HF tensor.
        served: bytes of its parameters, and of all else that the loader writes.
        digests: made at start for a stream like the checkpoint, anew when a request tells of another one.
        target: of a draft, the model beside it whose embedding and output layer it may use.
    """

    layout: Layout
    sources: Sequence[Source]
    agreement: Agreement | None
    agreed: str
    compared: int = 0
    served: int = 0
    digests: LayerDigests | None = None
    target: nn.Module | None = None

    @staticmethod
    def of(
        model: nn.Module,
        layout: Layout,
        sources: Sequence[Source],
        agreement: Agreement | None,
        agreed: str,
    ) -> Known:
        """Of `model`, whose layout was found out."""
        known = Known(layout, sources, agreement, agreed)
        held = known.held(model)
        parameters = {id(parameter) for parameter in model.parameters()}
        written = known.written
        known.compared = sum(block.box.count * held[block.path].element_size() for block in layout.blocks)
        known.compared += sum(held[path].nbytes for path in layout.offsets)
        known.served = sum(
            one.tensor.nbytes
            for one in reachable(model)
            if id(one.tensor) in parameters or one.path in written
        )
        return known

    def digests_for(self, sent: Sent, held: Mapping[str, Tensor]) -> LayerDigests | None:
        """The table for a stream of such dtypes; None if the ranks did not agree."""
        if self.agreement is not None and (self.digests is None or self.digests.sent != sent):
            self.digests = LayerDigests(self.agreement, self.sources, held, sent)
        return self.digests

    def derived(self, held: Mapping[str, Tensor]) -> dict[str, str]:
        """Path of an own tensor → why it is not known what it holds. What is a constant more than another is looked at
        now: one that isn't any more was not computed again."""
        offsets = self.layout.offsets
        right = [offset.holds(held[path], held[offset.parent]) for path, offset in offsets.items()]
        now = dict(self.layout.derived)
        for (path, offset), same in zip(offsets.items(), _to_host(right), strict=True):
            if not same:
                now[path] = f"it is not {offset.parent} plus {offset.plus:g}: it was not computed again"
        return now

    @property
    def written(self) -> set[str]:
        """The paths of all that the loader writes."""
        layout = self.layout
        return {block.path for block in layout.blocks} | layout.derived.keys() | layout.offsets.keys()

    def borrowed(self, model: nn.Module) -> tuple[int, dict[str, str]]:
        """Of a draft: bytes of its parameters that are the target's memory; and which parameters are nobody's, and why.

        It gets them after it was loaded, so that its layout doesn't have them. One that is the target's no longer was
        left behind when the target's was replaced.
        """
        if self.target is None:
            return 0, {}
        written = self.written
        known = {one.tensor.data_ptr() for one in reachable(self.target)}
        known |= {one.tensor.data_ptr() for one in reachable(model) if one.path in written}
        rest = {path: each for path, each in model.named_parameters() if path not in written}
        strange = [path for path, parameter in rest.items() if parameter.data_ptr() not in known]
        why = "no weight of the checkpoint was loaded into it, and it is not the target's"
        return sum(rest[path].nbytes for path in rest.keys() - strange), dict.fromkeys(strange, why)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Cut so that they are equal to other ranks' or have nothing in common with them, if that was agreed on."""
        return self.agreement.blocks if self.agreement else self.layout.blocks

    def held(self, model: nn.Module) -> dict[str, Tensor]:
        """The model's tensors by path, as blocks see them; every one that the layout speaks of is there.

        Raises `EngineError` if one is gone.
        """
        gone: list[str] = []
        for attributes in (False, True):  # most models have nothing but parameters and buffers
            held = {one.path: dense(one.tensor) for one in reachable(model, attributes=attributes)}
            gone = [path for path in self._paths if path not in held]
            if not gone:
                return held
        raise EngineError(f"{gone[0]} was there when the layout was found out and is not any more")

    @cached_property
    def _paths(self) -> list[str]:
        """All tensors that the layout speaks of."""
        return list(dict.fromkeys(chain((block.path for block in self.layout.blocks), self.layout.offsets)))

    def __str__(self) -> str:
        said = f"{len(self.layout.blocks)} blocks, {self.compared:,} of {self.served:,} bytes"
        return said + (
            f", {len(self.layout.derived)} tensors computed by the loader" if self.layout.derived else ""
        )


def _to_host(flags: list[Tensor]) -> list[bool]:
    """One wait for all."""
    return torch.stack(flags).tolist() if flags else []
