"""Real exports and what the ranks held, recorded once: mutations of them need no stack."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bridge_plugins.audit import Expected, Header, Record, Summary, summarize
from bridge_plugins.audit.megatron_local.part import LocalParts, read_parts
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.layout.sources import Source
from bridge_plugins.topology import Topology

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)  # each is its own, and can be a key
class Recorded:
    """A version as the bridge yielded it, in its order; the version before; and what each rank held of it."""

    topology: str
    tensors: Tensors
    before: Tensors
    held: tuple[LocalParts, ...] = ()
    held_before: tuple[LocalParts, ...] = ()

    @cached_property
    def summary(self) -> Summary:
        """Of the version, judged by nobody."""
        return _summary("2", map(_record, self.tensors, self.tensors.values()))

    @cached_property
    def summary_before(self) -> Summary:
        """Of the version before."""
        return _summary("1", map(_record, self.before, self.before.values()))

    def summary_of(self, items: Sequence[tuple[str, Tensor]]) -> Summary:
        """Of a stream in place of the version. What it has of the version itself isn't fingerprinted again."""
        known, records = self.tensors, self.summary.records
        return _summary("2", (records[n] if known.get(n) is t else _record(n, t) for n, t in items))

    @cached_property
    def expected(self) -> Expected:
        """The version as a checkpoint that was just loaded."""
        sources = {name: Source(name, tuple(t.shape), _dtype(t)) for name, t in self.tensors.items()}
        return Expected("the checkpoint", sources, self.summary.records, tensor=self.tensors.get)

    @cache  # noqa: B019 (as long as the tests run)
    def cast(self, dtype: torch.dtype) -> Recorded:
        """The same model in another dtype, with bits in every place that it has. What ranks held is left out."""
        if all(tensor.dtype is dtype for tensor in self.tensors.values()):
            return self
        return Recorded(self.topology, _cast(self.tensors, dtype, 1), _cast(self.before, dtype, 2))


def _record(name: str, tensor: Tensor) -> Record:
    return Record.of(name, tuple(tensor.shape), tensor.nbytes, fingerprint(tensor))


def _summary(version: str, records: Iterable[Record]) -> Summary:
    return summarize(Header("tiny", "", version), records)


def _cast(tensors: Tensors, dtype: torch.dtype, seed: int) -> Tensors:
    noise = torch.Generator().manual_seed(seed)
    return {
        name: (tensor.double() * (1 + 1e-3 * torch.rand(tensor.shape, generator=noise))).to(dtype)
        for name, tensor in tensors.items()
    }


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def read(folder: Path, topology: str) -> Recorded:
    """What `record` left in `folder`."""
    from safetensors.torch import load_file

    files = {version: load_file(folder / f"v{version}.safetensors") for version in ("1", "2")}
    order = json.loads((folder / "order.json").read_text())
    before, tensors = ({name: files[version][name] for name in order} for version in ("1", "2"))
    parts = [read_parts(path) for path in sorted(folder.glob("*.part"))]
    by_version = {v: tuple(p for p in parts if p.header.version == v) for v in ("1", "2")}
    return replace(Recorded(topology, tensors, before), held=by_version["2"], held_before=by_version["1"])


def record(checkpoint: str, topology: dict[str, Any], folder: str) -> None:
    """Runs on a rank: load, export and write what it holds; let every weight move, and do so again."""
    import torch.distributed as dist
    from safetensors.torch import save_file

    from bridge_plugins.audit.megatron_local import LocalAudit
    from bridge_plugins.layout.trainer import trainer_layout
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology(**topology), load=False)
    layout = trainer_layout(trainer.bridge, trainer.model)
    trainer.bridge.load_hf_weights(trainer.model)
    local = LocalAudit(layout, trainer.model, model="tiny")
    for version in ("1", "2"):
        exported = trainer.export()
        local.write(Path(folder), version)
        if dist.get_rank() == 0:
            save_file(
                {name: t.contiguous() for name, t in exported.items()}, f"{folder}/v{version}.safetensors"
            )
            Path(folder, "order.json").write_text(json.dumps(list(exported)))
        with torch.no_grad():
            for chunk in trainer.model:
                for parameter in chunk.parameters():
                    parameter.mul_(1.01)
