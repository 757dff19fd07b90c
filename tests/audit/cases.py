"""What the forked ranks run."""

from __future__ import annotations

import random
from typing import Any

from bridge_plugins.topology import Topology


def clean_run(
    checkpoint: str,
    topology: dict[str, Any],
    kind: str = "",
    seed: int = 0,
    declared_frozen: list[str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Versions as a run makes them: loaded, exported again, trained at RL rates, with orders and buckets shuffled.

    Every version is sent: the first rank packs it into buckets, as a push does; for an fp8 engine, if `kind` is
    "quantised".
    """
    import torch.distributed as dist

    from bridge_plugins.audit import Expected, WeightAudit
    from bridge_plugins.audit.declared import Declared
    from bridge_plugins.engines.sglang.wire import Bucket
    from tests.audit.trainer import build, step
    from tests.faults.quantised import quantised

    sizes = Topology(**{**topology, "stages": tuple(topology.get("stages", ()))})
    trainer = build(checkpoint, sizes, learning_rate=1e-6, kind=kind, **fields)
    # Of the rest of the model only the experts' bias moves: no optimizer has it.
    frozen = {"lora": ("*mlp*.weight", "*norm*"), "frozen": ("*down_proj*",)}.get(kind, ())
    if declared_frozen:
        frozen = tuple(declared_frozen)
    audit = WeightAudit(
        "tiny",
        str(sizes),
        Expected.from_folder(checkpoint),
        declared=Declared(frozen=frozen),
        strict=not declared_frozen,
    )

    def send(bucket: list[Any]) -> None:
        if bucket and dist.get_rank() == 0:
            Bucket(quantised(bucket) if kind == "quantised" else bucket)

    shuffle = random.Random(seed)  # noqa: S311 (every rank shuffles alike)
    said, digests, infos = [], [], []
    for number, steps in enumerate((0, 0, 1, 2)):
        for count in range(steps):
            step(trainer, 10 * number + count)
        items = trainer.export()
        shuffle.shuffle(items)
        # SGLang joins DeepSeek's q_a and kv_a within one load call: two buckets would be a fault.
        size = len(items) if any("q_a_proj" in item[0] for item in items) else shuffle.randrange(1, 40)
        bucket: list[Any] = []
        for item in audit.watch(items):
            bucket.append(item)
            if len(bucket) == size:
                send(bucket)
                bucket = []
        send(bucket)
        summary, findings = audit.finish(str(number + 1), trained=steps > 0)
        said += [str(finding) for finding in findings if finding.counts]
        infos += [str(finding) for finding in findings if not finding.counts]
        digests.append(summary.digest)
    wide = sorted(
        {record.dtype for name, record in summary.records.items() if name.endswith("mlp.gate.weight")}
    )
    return {
        "routers": wide,
        "said": said,
        "infos": infos,
        "digests": digests,
        "tensors": len(summary.records),
    }


def switch_on(folder: str, **environment: str) -> None:
    """Automatic mode in this rank, as ``BRIDGE_AUDIT=1`` and `load` have it."""
    import os

    import bridge_plugins
    from bridge_plugins.patches import audit, audit_sglang
    from bridge_plugins.plugins import manager, patcher

    os.environ.update(BRIDGE_AUDIT="1", BRIDGE_AUDIT_DIR=folder, **environment)
    for name, module in (("audit", audit), ("audit_sglang", audit_sglang)):
        if not manager().has_plugin(name):
            manager().register(module, name)
    bridge_plugins.load()
    states = {name: status for name, status in patcher().status.items() if name.startswith("audit")}
    assert states["audit"].state.value == "applied", states
    assert all(status.state.value in ("applied", "waiting", "not needed") for status in states.values()), (
        states
    )


def automatic_run(checkpoint: str, topology: dict[str, Any], folder: str, saved: str) -> dict[str, Any]:
    """Exports of every kind, with no call to the audit."""
    import torch.distributed as dist

    from bridge_plugins.patches.cpu.standins import StandInFinder
    from tests.stacks.trainer import build

    switch_on(folder, BRIDGE_AUDIT_MAX_VERSIONS="5")
    trainer = build(checkpoint, Topology(**topology))
    bridge, model = trainer.bridge, trainer.model
    arguments = {"cpu": True, "show_progress": False}
    whole = [item for item in bridge.export_hf_weights(model, **arguments)]  # noqa: C416 (one by one)
    tasks = bridge.get_conversion_tasks(model)
    prebuilt = list(bridge.export_hf_weights(model, conversion_tasks=tasks, **arguments))
    some = list(bridge.export_hf_weights(model, conversion_tasks=tasks[: len(tasks) // 2], **arguments))
    early = bridge.export_hf_weights(model, **arguments)
    for _ in range(3):
        next(early)
    early.close()
    dist.barrier()
    with StandInFinder("modelopt"):  # which a save asks whether the model is quantised
        bridge.save_hf_weights(model, saved, show_progress=False)
    kinds = {type(item).__name__ for item in whole}
    limit = list(bridge.export_hf_weights(model, **arguments))
    over = list(bridge.export_hf_weights(model, **arguments))
    lengths = [len(whole), len(prebuilt), len(some), len(limit), len(over)]
    return {"kinds": sorted(kinds), "lengths": lengths}


def off(checkpoint: str) -> list[str]:
    """What an export imports of the audit while nobody asks for one."""
    import sys

    import bridge_plugins
    from bridge_plugins.patches import audit, audit_miles, audit_nemo_rl, audit_sglang, audit_slime
    from bridge_plugins.plugins import manager
    from tests.stacks.trainer import build

    for module in (audit, audit_sglang, audit_miles, audit_slime, audit_nemo_rl):
        if not manager().is_registered(module):
            manager().register(module)
    patcher = bridge_plugins.load()
    before = set(sys.modules)
    build(checkpoint, Topology()).export()
    wrapped = [name for name in patcher.status if name.startswith("audit")]
    return wrapped + [name for name in set(sys.modules) - before if name.startswith("bridge_plugins.audit")]


def finish_with(
    objects: str = "",
    strict: bool = False,
    odd_rank: int = -1,
    fault: str = "",
    versions: list[str] | None = None,
) -> dict[str, Any]:
    """One `finish` on every rank: what each of them is told. `odd_rank` sees other weights, or in another order."""
    import torch
    import torch.distributed as dist

    from bridge_plugins.audit import Finding, Summary, WeightAudit
    from bridge_plugins.errors import VetoError
    from bridge_plugins.hookspecs import hookimpl
    from bridge_plugins.plugins import manager

    asked: list[int] = []

    class Objects:
        @hookimpl
        def before_push(self, summary: Summary, findings: list[Finding]) -> None:  # noqa: ARG002
            asked.append(dist.get_rank())
            if objects:
                raise ValueError(objects)

    manager().register(Objects())
    rank = dist.get_rank()
    items = [
        (f"model.layers.{n}.w.weight", torch.randn(8, 16, generator=torch.Generator().manual_seed(n)))
        for n in range(6)
    ]
    if rank == odd_rank:
        items = {
            "bits": [(n, t + 1) if ".4." in n else (n, t) for n, t in items],
            "order": items[::-1],
            "missing": items[:-1],
        }[fault]
    if fault == "nan":
        items[2] = (items[2][0], items[2][1] * float("nan"))
    audit = WeightAudit("tiny", strict=strict)
    for _ in audit.watch(items):
        pass
    version = versions[rank] if versions else "1"
    vetoed = ""
    findings: list[Finding] = []
    try:
        findings = audit.finish(version)[1]
    except VetoError as error:
        vetoed = str(error)
    dist.barrier()  # no rank hangs, and none is ahead
    return {"vetoed": vetoed, "findings": [str(finding) for finding in findings], "asked": asked}


def expected_names(folders: list[str]) -> dict[str, Any]:
    """By folder, what the files say and the config on the meta device doesn't, and the other way round."""
    import transformers

    from bridge_plugins.audit import Expected

    apart = {}
    for folder in folders:
        files = Expected.from_folder(folder, fingerprints=False)
        config = Expected.from_config(transformers.AutoConfig.from_pretrained(folder), "tiny")
        shapes = {name: source.shape for name, source in files.sources.items()}
        made = {name: source.shape for name, source in config.sources.items()}
        same = (files.tied, files.layers) == (config.tied, config.layers)
        apart[folder] = sorted(shapes.items() ^ made.items()) + ([] if same else ["tied or layers"])
    return apart


def export_once(
    checkpoint: str, topology: dict[str, Any], folder: str, from_config: bool = False, fault: str = ""
) -> None:
    """One export in automatic mode; `from_config`: by a bridge that knows a config and no checkpoint.

    Fault "local numbers": a pipeline stage keeps its own layer numbers; "not gathered": the output layer stays cut.
    """
    from tests.stacks.trainer import build

    switch_on(folder)
    trainer = build(checkpoint, Topology(**topology))
    if from_config:
        from megatron.bridge import AutoBridge

        trainer.bridge = AutoBridge.from_hf_config(trainer.bridge.hf_pretrained.config)
    if fault:
        switch_in(fault)
    trainer.export()


def switch_in(fault: str) -> None:
    """A fault of the export. The import is done by now, and was right."""
    import re

    from bridge_plugins.patching import Patcher, Replace, wrapping

    def local_numbers(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        number = re.compile(r"\.layers\.(\d+)")
        return number.sub(lambda m: f".layers.{int(m[1]) % 2}", wrapped(*args, **kwargs), count=1)

    def not_gathered(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
        return [args[0]] if "lm_head" in str(mapping.hf_param) else wrapped(*args, **kwargs)

    conversion = "megatron.bridge.models.conversion"
    target, wrapper = {
        "local numbers": (f"{conversion}.model_bridge:_megatron_local_name_to_global", local_numbers),
        "not gathered": (
            f"{conversion}.param_mapping:MegatronParamMapping.gather_from_tp_ranks",
            not_gathered,
        ),
    }[fault]
    Patcher().add(Replace(f"fault.{fault}", target, "nothing", wrapping(wrapper)), "tests")
