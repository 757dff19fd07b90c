"""What a rank does in these tests. Each function runs on every rank of a real process group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridge_plugins.topology import Topology
from tests.names import adapters
from tests.stacks.trainer import Trainer, build


def topology_of(fields: dict[str, Any]) -> Topology:
    return Topology(**{**fields, "stages": tuple(fields.get("stages", ()))})


def layout(
    checkpoint: str,
    topology: dict[str, Any],
    provider: dict[str, Any] | None = None,
    fault: str = "",
    lora: list[str] | None = None,
    ddp: bool = False,
) -> dict[str, Any]:
    """Find this rank's layout, then load the random checkpoint and hold every block against the file's.

    `lora`: modules that get adapters. `ddp`: the model is wrapped for training, as a trainer has it.
    """
    import torch
    from safetensors.torch import load_file

    from bridge_plugins.layout.trainer import trainer_layout
    from tests.trainer_layout import faults

    if fault:
        faults.switch_in(fault)
    trainer = _built(checkpoint, topology_of(topology), provider or {}, lora, ddp)
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


def _built(
    checkpoint: str, topology: Topology, provider: dict[str, Any], lora: list[str] | None, ddp: bool
) -> Trainer:
    if lora:
        return adapters.filled(checkpoint, topology, "LoRA", lora)
    if ddp:
        from examples.bridge_mode import model

        trained = model.build(Path(checkpoint), topology, learning_rate=1e-3)
        return Trainer(trained.bridge, None, trained.chunks)
    return build(checkpoint, topology, load=False, **provider)


def _tensors(trainer: Trainer) -> list[Any]:
    # By named_buffers: what wraps a model for training has a list under the name `buffers`.
    return [
        tensor for chunk in trainer.model for _, tensor in (*chunk.named_parameters(), *chunk.named_buffers())
    ]


def _at(tensor: Any, offset: Any, size: Any, stride: Any) -> Any:
    rows = tensor.detach().reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.detach().reshape(1, 1)
    ends = [offset[axis] + (size[axis] - 1) * stride[axis] + 1 for axis in (0, 1)]
    return rows[offset[0] : ends[0] : stride[0], offset[1] : ends[1] : stride[1]]


def stages(
    checkpoint: str,
    topology: dict[str, Any],
    *,
    provider: dict[str, Any] | None = None,
    fault: str = "",
    late: str = "",
    drift: int | None = None,
    folder: str = "",
) -> dict[str, Any]:
    """The stages megatron_local and hf of one version, on this rank, with `fault` in the bridge from the start.

    `late`: a fault that begins after the import and some training, when no checkpoint is there to compare with.

    `drift`: the rank whose copy of a norm is changed after the import. With `folder` the ranks leave files as well, and
    the first rank merges them.
    """
    import torch.distributed as dist

    from bridge_plugins.audit.expected import Expected
    from bridge_plugins.audit.megatron_local import LocalAudit
    from bridge_plugins.audit.megatron_local.merge import merge_files
    from bridge_plugins.audit.weight_audit import WeightAudit
    from bridge_plugins.layout.trainer import trainer_layout
    from tests.trainer_layout import faults

    if fault:
        faults.switch_in(fault)
    trainer = build(checkpoint, topology_of(topology), load=False, **(provider or {}))
    layout = trainer_layout(trainer.bridge, trainer.model)
    trainer.bridge.load_hf_weights(trainer.model)
    if drift == dist.get_rank():
        _flip_a_bit(trainer)
    if late:
        faults.switch_in(late)

    local = LocalAudit(layout, trainer.model, model="tiny")
    summary, findings = local.finish("1")
    if folder:
        local.write(Path(folder), "1")
        dist.barrier()
        if dist.get_rank() == 0:
            assert merge_files(Path(folder).iterdir()) == summary
    audit = WeightAudit(model="tiny", expected=Expected.from_folder(checkpoint))
    for _ in audit.watch(trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False)):
        pass
    exported, exported_findings = audit.finish("1", trained=bool(late))
    return {
        "tensors": len(exported.records),
        "same": summary.digest == exported.digest,
        "layers": [layer.name for layer in summary.layers] == [layer.name for layer in exported.layers]
        and [layer.digest for layer in summary.layers] == [layer.digest for layer in exported.layers],
        "unlike": sorted(
            name
            for name in summary.records
            if summary.records[name].lanes != exported.records[name].lanes
            or summary.records[name].nbytes != exported.records[name].nbytes
        ),
        "names": sorted(summary.records),
        "local": [[f.rule, f.severity, str(f), list(f.ranks)] for f in findings],
        "export": [str(finding) for finding in exported_findings],
    }


def claims(
    checkpoint: str,
    topology: dict[str, Any],
    *,
    provider: dict[str, Any] | None = None,
    fault: str = "",
    drift: int | None = None,
) -> list[list[Any]]:
    """What the names that ranks claim contradict, with `fault` in the name function from now on. No layout."""
    import torch.distributed as dist

    from bridge_plugins.audit.megatron_local.names import NameAudit
    from tests.trainer_layout import faults

    trainer = build(checkpoint, topology_of(topology), **(provider or {}))
    if fault:
        faults.switch_in(fault)
    if drift == dist.get_rank():
        _flip_a_bit(trainer)
    return [[f.rule, str(f), list(f.ranks)] for f in NameAudit(trainer.model).finish("1")]


def unlike_its_layout(checkpoint: str) -> str:
    """One rank's parameter is another tensor than the layout was found out for: what each rank is told."""
    import torch.distributed as dist

    from bridge_plugins.audit.megatron_local import LocalAudit
    from bridge_plugins.errors import LayoutError
    from bridge_plugins.layout.trainer import trainer_layout

    trainer = build(checkpoint, Topology(pp=2))
    local = LocalAudit(trainer_layout(trainer.bridge, trainer.model), trainer.model)
    local.finish("1")
    if dist.get_rank() == 1:
        del trainer.model[0].module.decoder.final_layernorm.weight
    try:
        local.finish("2")
    except LayoutError as error:
        return str(error)
    return ""


def _flip_a_bit(trainer: Trainer) -> None:
    import torch

    parameter = next(p for n, p in trainer.model[0].named_parameters() if n.endswith("layer_norm_weight"))
    with torch.no_grad():
        parameter.view(torch.int16)[3] ^= 1
