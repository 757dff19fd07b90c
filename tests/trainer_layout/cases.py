"""What a rank does in these tests. Each function runs on every rank of a real process group."""

from __future__ import annotations

from typing import Any

from bridge_plugins.topology import Topology
from tests.stacks.trainer import Trainer, build


def topology_of(fields: dict[str, Any]) -> Topology:
    return Topology(**{**fields, "stages": tuple(fields.get("stages", ()))})


def layout(
    checkpoint: str, topology: dict[str, Any], provider: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Find this rank's layout, then load the random checkpoint and hold every block against the file's."""
    import torch
    from safetensors.torch import load_file

    from bridge_plugins.layout.trainer import trainer_layout

    trainer = build(checkpoint, topology_of(topology), load=False, **(provider or {}))
    before = [tensor.clone() for tensor in _tensors(trainer)]
    found = trainer_layout(trainer.bridge, trainer.model)
    restored = all(torch.equal(a, b) for a, b in zip(before, _tensors(trainer), strict=True))

    trainer.bridge.load_hf_weights(trainer.model)
    files = load_file(f"{checkpoint}/model.safetensors")
    held = {f"{c}.{name}": p for c, chunk in enumerate(trainer.model) for name, p in chunk.named_parameters()}
    held |= {f"{c}.{name}": b for c, chunk in enumerate(trainer.model) for name, b in chunk.named_buffers()}
    wrong = [
        block.path
        for block in found.blocks
        if not torch.equal(
            _at(held[block.path], block.box.local_offset, block.box.size, block.box.local_stride).float(),
            _at(files[block.source.name], block.box.offset, block.box.size, block.box.stride).float(),
        )
    ]
    told: dict[str, int] = {}
    for block in found.blocks:
        told[block.path] = told.get(block.path, 0) + block.box.count
    return {
        "restored": restored,
        "blocks": len(found.blocks),
        "wrong": wrong,
        "untold": found.untold,
        "derived": found.derived,
        # Elements of parameters that no block tells: padding, or a hole.
        "rest": {
            path: p.numel() - told.get(path, 0)
            for path, p in held.items()
            if isinstance(p, torch.nn.Parameter) and p.numel() != told.get(path, 0)
        },
        "sources": sorted({block.source.name for block in found.blocks}),
        "all": sorted(files),
    }


def _tensors(trainer: Trainer) -> list[Any]:
    return [t for chunk in trainer.model for t in (*chunk.parameters(), *chunk.buffers())]


def _at(tensor: Any, offset: Any, size: Any, stride: Any) -> Any:
    rows = tensor.detach().reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.detach().reshape(1, 1)
    ends = [offset[axis] + (size[axis] - 1) * stride[axis] + 1 for axis in (0, 1)]
    return rows[offset[0] : ends[0] : stride[0], offset[1] : ends[1] : stride[1]]
