"""``device="cuda"``, ``.cuda()`` and the current device, where there is only a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bridge_plugins.patches.cpu.standing import standing
from bridge_plugins.patching import Enter, Patch, Replace


class CudaMeansCpu(TorchFunctionMode):
    """Reads ``cuda`` as ``cpu`` in every torch call: pipeline schedules and MoE dispatchers hard-code it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = torch.device("cpu")
        if func is torch.Tensor.to and len(args) > 1 and _is_cuda(args[1]):
            args = (args[0], torch.device("cpu"), *args[2:])
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, str | torch.device) and str(device).startswith("cuda")


def _same(tensor_or_module: Any, *_: Any, **__: Any) -> Any:
    return tensor_or_module


def _current_device() -> torch.device:
    return torch.device("cpu")


def _set_device(_: Any) -> None:
    pass


def _type(original: Any) -> Any:
    """Megatron's mixed-precision optimizers take a parameter only if its type is spelled ``torch.cuda.…``."""

    def type_(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        said = original(tensor, *args, **kwargs)
        # Under a TorchFunctionMode the call comes back to us once more: say it once.
        if not isinstance(said, str) or said.startswith("torch.cuda."):
            return said
        return said.replace("torch.", "torch.cuda.", 1)

    return type_


PATCHES: list[Patch] = [
    Enter("cpu.device_mode", "torch", "'cuda' hard-coded as a device", CudaMeansCpu),
    Replace("cpu.Tensor.cuda", "torch:Tensor.cuda", "needs a CUDA driver", standing(_same)),
    Replace("cpu.Tensor.type", "torch:Tensor.type", "optimizers ask for CUDA tensors by name", _type),
    Replace("cpu.Module.cuda", "torch.nn:Module.cuda", "needs a CUDA driver", standing(_same)),
    Replace(
        "cpu.current_device", "torch.cuda:current_device", "needs a CUDA driver", lambda _: _current_device
    ),
    Replace("cpu.set_device", "torch.cuda:set_device", "needs a CUDA driver", standing(_set_device)),
]
