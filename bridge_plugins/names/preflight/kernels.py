"""Packages of GPU kernels that a laptop lacks: a simulated rank computes nothing, so its modules may count on them.

Megatron asks flags whether packages are there. What parameters these bring is told here, and only where they lack.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

#: Megatron's own flags: flash-linear-attention, and mamba-ssm.
FLAGS = (
    ("megatron.core.ssm.gated_delta_net.common", "HAVE_FLA"),
    ("megatron.core.ssm.gated_delta_net", "HAVE_FLA"),
    ("megatron.core.ssm.mamba_mixer", "HAVE_MAMBA_SSM"),
)
#: What modules keep for their forward pass, and refuse to be built without.
FUNCTIONS = (("megatron.core.ssm.gated_delta_net.gdn", "chunk_gated_delta_rule"),)


@contextlib.contextmanager
def assumed() -> Iterator[None]:
    """Let modules be built as if the kernels were installed. What is installed stays as it is."""
    with contextlib.ExitStack() as replaced:
        for module_name, flag in FLAGS:
            module = _module(module_name)
            if module is None or getattr(module, flag, True):
                continue
            replaced.enter_context(mock.patch.object(module, flag, True))
            if hasattr(module, "ExtendedRMSNorm"):
                replaced.enter_context(mock.patch.object(module, "ExtendedRMSNorm", _gated_norm()))
        for module_name, function in FUNCTIONS:
            module = _module(module_name)
            if module is not None and getattr(module, function, _never_called) is None:
                replaced.enter_context(mock.patch.object(module, function, _never_called))
        _learnable_softmax(replaced)
        yield


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:  # this version keeps it elsewhere, and says itself what it lacks when it builds
        return None


def _never_called(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a simulated rank computes nothing")


def _gated_norm() -> Any:
    """mamba-ssm's gated norm, as far as it is built: one weight."""
    import torch

    class GatedNorm(torch.nn.Module):
        def __init__(self, hidden_size: int, *, device: Any = None, dtype: Any = None, **_: Any) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))

    return GatedNorm


def _learnable_softmax(replaced: contextlib.ExitStack) -> None:
    """The one parameter of an attention core, which Transformer Engine has since 2.8: the softmax offset."""
    from megatron.core.utils import is_te_min_version

    if is_te_min_version("2.8.0"):
        return
    import torch
    from megatron.core.extensions.transformer_engine import TEDotProductAttention

    original = TEDotProductAttention.__init__

    def init(self: Any, config: Any, *args: Any, **options: Any) -> None:
        kind = getattr(config, "softmax_type", "vanilla")
        if kind == "vanilla":
            original(self, config, *args, **options)
            return
        plain = copy.copy(config)
        plain.softmax_type = "vanilla"
        original(self, plain, *args, **options)
        if kind == "learnable":
            heads = config.num_attention_heads // config.tensor_model_parallel_size
            self.softmax_offset = torch.nn.Parameter(torch.empty(heads, dtype=config.params_dtype))

    replaced.enter_context(mock.patch.object(TEDotProductAttention, "__init__", init))
