"""What the forked ranks run: a model with LoRA adapters, exported merged or not, with a fault in its base or its merge."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bridge_plugins.topology import Topology

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit import Expected, Summary


def written_back(checkpoint: str) -> dict[str, list[str]]:
    """What the audit says of an unmerged base: as it was loaded, and with the adapters' start taken off it.

    "at hand": what a comparison says that has the tensors of both sides.
    """
    import torch

    from bridge_plugins.audit import Expected, WeightAudit
    from tests.names import adapters

    trainer = adapters.filled(checkpoint, Topology(), "LoRA", ["linear_proj"])
    expected = Expected.from_folder(checkpoint)
    parameters = dict(trainer.model[0].named_parameters())
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in parameters.items():
            if ".adapter." in name:
                parameter.normal_(0, 0.1)

    def export() -> tuple[dict[str, Tensor], Summary, list[str]]:
        audit = WeightAudit("tiny", expected=expected)
        stream = trainer.bridge.export_hf_weights(
            trainer.model, cpu=True, show_progress=False, merge_adapter_weights=False
        )
        tensors = dict(audit.watch(stream))
        summary, findings = audit.finish("1")
        return tensors, summary, [str(finding) for finding in findings if finding.counts]

    right, before, clean = export()
    right = {name: tensor.clone() for name, tensor in right.items()}
    with torch.no_grad():
        for name, parameter in parameters.items():
            if name.endswith("linear_proj.to_wrap.weight"):
                adapter = name.removesuffix("to_wrap.weight") + "adapter.linear_"
                parameter.sub_(parameters[f"{adapter}out.weight"] @ parameters[f"{adapter}in.weight"])
    wrong, after, said = export()
    return {"clean": clean, "wrong": said, "at hand": at_hand(before, right, after, wrong)}


def at_hand(before: Summary, right: dict[str, Tensor], after: Summary, wrong: dict[str, Tensor]) -> list[str]:
    """What ``bridge-audit diff`` says of two exports whose tensors are there."""
    from bridge_plugins.audit.comparison import compare
    from bridge_plugins.audit.diagnosis import diagnose

    changed = {one.name: one.found for one in compare(before, after).changed}
    return [
        f"diff {cause}" for cause in diagnose(changed, before.records, found=wrong.get, expected=right.get)
    ]


def merged(checkpoint: str) -> dict[str, Any]:
    """What the audit says of a merge held against a right one, and what sums would have said."""
    import torch

    from bridge_plugins.audit import Expected, WeightAudit
    from bridge_plugins.layout.sources import Source
    from tests.names import adapters

    trainer = adapters.filled(checkpoint, Topology(), "LoRA", ["linear_proj"])
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in trainer.model[0].named_parameters():
            if ".adapter." in name:
                parameter.normal_(0, 0.1)

    def export(expected: Expected | None) -> tuple[dict[str, Tensor], Summary, list[str]]:
        audit = WeightAudit("tiny", expected=expected)
        stream = trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False)
        tensors = dict(audit.watch(stream))
        summary, findings = audit.finish("1")
        return tensors, summary, [str(finding) for finding in findings if finding.counts]

    right, before, _ = export(None)
    sources = {name: Source(name, record.shape, record.dtype) for name, record in before.records.items()}
    reference = Expected("the other tool's merge", sources, before.records)
    _, _, clean = export(reference)
    with _rows_turned_over():
        wrong, after, said = export(reference)
    sums = [float(tensor.double().sum() - wrong[name].double().sum()) for name, tensor in right.items()]
    return {
        "clean": clean,
        "wrong": said,
        "at hand": at_hand(before, right, after, wrong),
        "sums": max(map(abs, sums)),
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
