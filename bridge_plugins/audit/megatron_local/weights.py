"""A rank's parameters, fingerprinted where they lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from bridge_plugins.audit.exchange import merge_ranks
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.megatron_local.build import build_of
from bridge_plugins.audit.megatron_local.file import local_header, path_of
from bridge_plugins.audit.megatron_local.merge import Merge
from bridge_plugins.audit.megatron_local.part import LocalPart, LocalParts
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint import FingerprintTable, Part
from bridge_plugins.fingerprint.coverage import merged
from bridge_plugins.layout.probe import Block, Layout
from bridge_plugins.layout.reachable import reachable
from bridge_plugins.whole_file import write_json

STAGE = "megatron_local"


class LocalAudit:
    """Fingerprints a rank's parameters where they lie, in one pass that is worked out once and kept.

    Args:
        layout: from `layout.trainer.trainer_layout`, for these `chunks`.
        chunks: this rank's model, one chunk per virtual stage.
        model, topology: for the header.
        dtypes: HF name → the stream's dtype as torch spells it, where that is narrower than the parameter's (an export
            with a ``weight_dtype``, a float32 router that is sent as bfloat16).
    """

    def __init__(
        self,
        layout: Layout,
        chunks: Sequence[nn.Module],
        *,
        model: str = "",
        topology: str = "",
        dtypes: Mapping[str, str] | None = None,
    ) -> None:
        self._chunks = nn.ModuleList(chunks)
        self._model, self._topology = model, topology
        self._not_compared = layout.untold | layout.derived
        self._build = build_of(layout, chunks)
        groups: dict[tuple[str, str], list[Block]] = defaultdict(list)
        for block in layout.blocks:
            groups[block.source.name, block.path].append(block)
        self._groups = [groups[key] for key in sorted(groups)]
        self._dtypes = dict(dtypes or {})
        self._table: FingerprintTable | None = None
        self._static: list[LocalPart] = []

    def take(self, version: str) -> LocalParts:
        """What this rank holds now. No collective; one wait for the device.

        Raises `LayoutError` if a parameter is gone or has another shape than when the layout was found out.
        """
        tensors = self._tensors()
        if self._table is None:
            self._prepare(tensors)
        assert self._table is not None
        try:
            measured = self._table.run(tensors).measured()
        except ValueError as error:
            raise LayoutError(f"parameters are not what the layout was found out for: {error}") from error
        starts = np.cumsum([0, *(len(group) for group in self._groups)][:-1])
        sums = measured.add_up(starts) if self._groups else measured
        columns = (sums.lanes, sums.absmax, sums.sum_of_squares, sums.counts)
        parts = tuple(
            msgspec.structs.replace(
                part, lanes=tuple(lanes), lossy=lossy, absmax=absmax, squares=squares, zeros=zeros,
                nonfinite=nans + infs,
            )
            for part, lanes, absmax, squares, (zeros, nans, infs, lossy) in zip(
                self._static, *(column.tolist() for column in columns), strict=True
            )
        )  # fmt: skip
        header = local_header(STAGE, version, model=self._model, topology=self._topology)
        return LocalParts(header, parts, self._not_compared, self._build)

    def write(self, folder: Path, version: str) -> Path:
        """Leave what this rank holds in a file of `folder`, for `merge_files`. No collective."""
        local = self.take(version)
        path = path_of(folder, local.header)
        write_json(local, path)
        return path

    def finish(self, version: str, group: Any = None) -> tuple[Summary, list[Finding]]:
        """The whole model's summary, of all ranks' parts. Every rank of `group` must call it.

        Args:
            version: the weight version.
            group: a CPU process group of all ranks of the trainer; None for the default group, if there is one.

        Returns:
            The summary, with records on rank 0 and without them on the others; and the findings, on every rank.

        Raises:
            LayoutError: on every rank, with what went wrong on one of them.
        """
        merge = Merge()
        summary = merge_ranks(lambda: self.take(version), merge.add, merge.summary, Summary.brief, group)
        return summary, summary.findings

    def _tensors(self) -> list[Tensor]:
        held = {one.path: one.tensor for one in reachable(self._chunks)}
        paths = [block.path for group in self._groups for block in group]
        if gone := [path for path in paths if path not in held]:
            raise LayoutError(f"{gone[0]} was there when the layout was found out and is not any more")
        return [held[path] for path in paths]

    def _prepare(self, tensors: list[Tensor]) -> None:
        parts = []
        remaining = iter(tensors)
        for group in self._groups:
            source, path = group[0].source, group[0].path
            for block in group:
                tensor = next(remaining)
                sent = (
                    getattr(torch, self._dtypes[source.name]) if source.name in self._dtypes else tensor.dtype
                )
                parts.append(Part(tensor, block.box, None if sent is tensor.dtype else sent))
            boxes = merged(block.box.place for block in group)
            places = tuple((*box.size, *box.offset, *box.stride) for box in boxes)
            nbytes = sum(block.box.count for block in group) * sent.itemsize
            name = str(sent).removeprefix("torch.")
            self._static.append(LocalPart(source.name, source.shape, path, places, name, (0, 0), nbytes))
        self._table = FingerprintTable(parts)
