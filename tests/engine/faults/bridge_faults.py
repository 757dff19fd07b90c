"""A plugin of SGLang that breaks the engine's memory on request. Found when this folder is on PYTHONPATH: tests alone.

``/weights_checker`` with the action ``fault.<name>:<json>``; `rank` says which rank's memory, `path` which tensor, `role`
whether the target's or a draft's. ``arm`` breaks the loader instead, until ``disarm`` (see bridge_loaders.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import torch

KEPT: dict[str, torch.Tensor] = {}
UNDO: list[Callable[[], object]] = []


def register() -> None:
    """Called by each SGLang process."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.utils.weight_checker.WeightChecker.handle", handle, HookType.AROUND)
    HookRegistry.register(
        "sglang.srt.model_executor.model_runner.ModelRunner.load_model", remember, HookType.AFTER
    )
    if os.environ.get("BRIDGE_FAULT") == "lose":
        HookRegistry.register(
            "sglang.srt.models.qwen3_moe.Qwen3MoeForCausalLM.load_weights", lose, HookType.AFTER
        )


def handle(original: Any, checker: Any, action: str, *args: Any, **kwargs: Any) -> Any:
    if not action.startswith("fault."):
        return original(checker, action, *args, **kwargs)
    name, _, arguments = action.removeprefix("fault.").partition(":")
    asked = json.loads(arguments)
    role = kwargs.get("role", "target")
    if name != "disarm" and role != asked.pop("role", "target"):
        return None
    if torch.distributed.get_rank() == asked.pop("rank", torch.distributed.get_rank()):
        with torch.no_grad():
            FAULTS[name](checker._get_model(), **asked)
    return None


def remember(result: Any, runner: Any, *_: Any, **__: Any) -> Any:
    """Where a model's runner is: what it holds beside the weights."""
    runner.model._test_runner = (runner,)
    return result


def tensors(model: Any, beginning: str) -> dict[str, torch.Tensor]:
    """The served tensors whose path begins so: parameters, buffers, and attributes such as DeepSeek's absorbed weights."""
    found = {path: parameter.data for path, parameter in model.named_parameters()}
    found |= dict(model.named_buffers())
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


def garbage(model: Any, path: str) -> None:
    """What memory holds that was released and came back."""
    for tensor in tensors(model, path).values():
        tensor.copy_(torch.randn(tensor.shape))


def scale(model: Any, path: str, by: float) -> None:
    """As a scale does that is read in another format."""
    for tensor in tensors(model, path).values():
        tensor.mul_(by)


def elsewhere(model: Any, path: str) -> None:
    """The same bits at another address: a captured graph would still read the old one."""
    for name in tensors(model, path):
        module, _, key = name.rpartition(".")
        setattr(model.get_submodule(module), key, getattr(model.get_submodule(module), key).clone())


def longer(model: Any, path: str) -> None:
    """Twice as long, as a table of positions is for a longer context."""
    for name, tensor in tensors(model, path).items():
        module, _, key = name.rpartition(".")
        setattr(model.get_submodule(module), key, torch.cat([tensor, tensor]))


def caches(model: Any) -> None:
    """What requests have left behind, which is no weight."""
    [runner] = model._test_runner
    pool = runner.token_to_kv_pool
    for buffer in (*pool.k_buffer, *pool.v_buffer):
        buffer.normal_()


def arm(model: Any, loader: str, **given: Any) -> None:
    """Put `loader` of bridge_loaders.py around the model's own."""
    import bridge_loaders

    disarm(model)
    around, own = getattr(bridge_loaders, loader), model.load_weights
    model.load_weights = lambda weights, *_, **__: around(model, own, weights, **given)


def disarm(model: Any) -> None:
    """The model's own loader again, and its own tensors."""
    vars(model).pop("load_weights", None)
    while UNDO:
        UNDO.pop()()


FAULTS = {
    f.__name__: f
    for f in (flip, exchange, keep, put_back, garbage, scale, elsewhere, longer, caches, arm, disarm)
}

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
