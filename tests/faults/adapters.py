"""What the forked ranks run: a model with LoRA adapters, exported merged or not, with a fault in its base or its merge."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bridge_plugins.topology import Topology


def written_back(checkpoint: str) -> dict[str, list[str]]:
    """What the audit says of an unmerged base: as it was loaded, and with the adapters' start taken off it."""
    import torch

    from bridge_plugins.audit import Expected, WeightAudit
    from tests.names import adapters

    trainer = adapters.filled(checkpoint, Topology(), "LoRA", ["linear_proj"], linear_in=0.5)
    expected = Expected.from_folder(checkpoint)

    def said() -> list[str]:
        audit = WeightAudit("tiny", expected=expected)
        stream = trainer.bridge.export_hf_weights(
            trainer.model, cpu=True, show_progress=False, merge_adapter_weights=False
        )
        for _ in audit.watch(stream):
            pass
        return [str(finding) for finding in audit.finish("1")[1] if finding.counts]

    clean = said()
    with torch.no_grad():
        for name, parameter in trainer.model[0].named_parameters():
            if name.endswith("linear_proj.to_wrap.weight"):
                parameter.sub_(0.25)
    return {"clean": clean, "written back": said()}


def merged(checkpoint: str) -> dict[str, Any]:
    """What the audit says of a merge held against a right one, and what sums would have said."""
    import torch

    from bridge_plugins.audit import Expected, WeightAudit
    from bridge_plugins.layout.sources import Source
    from tests.names import adapters

    trainer = adapters.filled(checkpoint, Topology(), "LoRA", ["linear_proj"], linear_in=0.5)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in trainer.model[0].named_parameters():
            if "linear_out" in name:
                parameter.normal_(0, 0.1)

    def export(expected: Expected | None) -> tuple[Any, list[str], dict[str, float]]:
        audit = WeightAudit("tiny", expected=expected)
        stream = trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False)
        sums = {name: float(tensor.double().sum()) for name, tensor in audit.watch(stream)}
        summary, findings = audit.finish("1")
        return summary, [str(finding) for finding in findings if finding.counts], sums

    right, _, sums = export(None)
    sources = {name: Source(name, record.shape, record.dtype) for name, record in right.records.items()}
    reference = Expected("the other tool's merge", sources, right.records)
    _, clean, _ = export(reference)
    with _rows_turned_over():
        _, wrong, sums_of_wrong = export(reference)
    return {
        "clean": clean,
        "wrong": wrong,
        "sums": max(abs(sums[name] - sums_of_wrong[name]) for name in sums),
    }


@contextlib.contextmanager
def _rows_turned_over() -> Iterator[None]:
    """The merge adds the adapter's rows in another order: count, sum and zeros of each tensor stay what they were."""
    from bridge_plugins.patching import Patcher, Replace, State, wrapping

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        base = args[0] if args else kwargs["base_weight"]
        return base + (wrapped(*args, **kwargs) - base).flip(0)

    patch = Replace(
        "fault.merge", "megatron.bridge.peft.lora_merge:LoRAMerge.merge", "nothing", wrapping(wrapper)
    )
    patcher = Patcher()
    patcher.add(patch, "tests")
    assert patcher.status[patch.name].state is State.APPLIED
    yield
    patcher.revert(patch.name)
