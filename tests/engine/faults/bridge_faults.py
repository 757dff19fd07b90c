"""A plugin of SGLang that breaks the engine's memory on request. Found when this folder is on PYTHONPATH: tests alone.

``/weights_checker`` with the action ``fault.<name>:<json>``; `rank` says which rank's memory, `path` which tensor.
"""

from __future__ import annotations

import json
import os
from typing import Any

import torch

KEPT: dict[str, torch.Tensor] = {}


def register() -> None:
    """Called by each SGLang process."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.utils.weight_checker.WeightChecker.handle", handle, HookType.AROUND)
    if os.environ.get("BRIDGE_FAULT") == "lose":
        HookRegistry.register(
            "sglang.srt.models.qwen3_moe.Qwen3MoeForCausalLM.load_weights", lose, HookType.AFTER
        )


def handle(original: Any, checker: Any, action: str, *args: Any, **kwargs: Any) -> Any:
    if not action.startswith("fault."):
        return original(checker, action, *args, **kwargs)
    name, _, arguments = action.removeprefix("fault.").partition(":")
    asked = json.loads(arguments)
    if torch.distributed.get_rank() == asked.pop("rank", torch.distributed.get_rank()):
        with torch.no_grad():
            FAULTS[name](checker._get_model(), **asked)
    return None


def tensors(model: Any, beginning: str) -> dict[str, torch.Tensor]:
    """The served tensors whose path begins so: parameters, and attributes such as DeepSeek's absorbed weights."""
    found = {path: parameter.data for path, parameter in model.named_parameters()}
    for prefix, module in model.named_modules():
        found |= {f"{prefix}.{key}": v for key, v in vars(module).items() if isinstance(v, torch.Tensor)}
    chosen = {path: tensor for path, tensor in found.items() if path.startswith(beginning)}
    assert chosen, f"nothing begins with {beginning}; there are {sorted(found)[:40]}"
    return chosen


def flip(model: Any, path: str, index: list[int]) -> None:
    """One bit."""
    [tensor] = tensors(model, path).values()
    element = tensor[tuple(index)]
    bits = element.view(torch.int16 if element.element_size() == 2 else torch.int32)
    bits ^= 1


def exchange(model: Any, path: str, one: int, other: int) -> None:
    """Two members of a stack: experts, say."""
    for tensor in tensors(model, path).values():
        if tensor.dim() == 3:
            tensor[[one, other]] = tensor[[other, one]]


def keep(model: Any, path: str) -> None:
    """A copy, as a server makes when it sleeps."""
    KEPT.update({name: tensor.clone() for name, tensor in tensors(model, path).items()})


def put_back(model: Any, path: str) -> None:
    """The copy, over what came since."""
    for name, tensor in tensors(model, path).items():
        tensor.copy_(KEPT[name])


FAULTS = {"flip": flip, "exchange": exchange, "keep": keep, "put_back": put_back}

LOADS = 0


def lose(result: Any, model: Any, *_: Any, **__: Any) -> Any:
    """From the second load on, leave one tensor with another shape: nothing can put its bits back."""
    global LOADS
    LOADS += 1
    if LOADS == 2:
        norm = model.model.norm.weight
        norm.data = norm.data[:-1].clone()
        # The loads that follow would fail on it.
        model.load_weights = lambda weights: [None for _ in weights]
    return result
