"""What NCCL can and gloo can't: lists of unequal tensors, chunks that aren't contiguous, split sizes on a device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from bridge_plugins.patching import Patch, Replace


def _all_gather(original: Callable[..., Any]) -> Callable[..., Any]:
    """Gloo refuses outputs of unequal shape (MoE with expert tensor parallelism gathers such): broadcast each."""

    @functools.wraps(original)
    def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        if async_op or not _unequal(tensor_list):
            return original(tensor_list, tensor, group=group, async_op=async_op)
        me = dist.get_rank(group)
        for rank, output in enumerate(tensor_list):
            if rank == me:
                output.copy_(tensor)
            dist.broadcast(output, src=_global_rank(group, rank), group=group)
        return None

    return all_gather


def _reduce_scatter(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same refusal for inputs: reduce each on all ranks and keep one's own."""

    @functools.wraps(original)
    def reduce_scatter(
        output: Any, input_list: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        if async_op or not _unequal(input_list):
            return original(output, input_list, op=op, group=group, async_op=async_op)
        me = dist.get_rank(group)
        for rank, part in enumerate(input_list):
            whole = part.contiguous().clone()
            dist.all_reduce(whole, op=op, group=group)
            if rank == me:
                output.copy_(whole)
        return None

    return reduce_scatter


def _scatter(original: Callable[..., Any]) -> Callable[..., Any]:
    """megatron-bridge 0.3 scatters views: on gloo a chunk that isn't contiguous arrives as garbage, silently."""

    @functools.wraps(original)
    def scatter(tensor: Any, scatter_list: Any = None, *args: Any, **kwargs: Any) -> Any:
        chunks = [chunk.contiguous() for chunk in scatter_list] if scatter_list else scatter_list
        return original(tensor, chunks, *args, **kwargs)

    return scatter


def _stay_on_cpu(_: Any) -> Callable[..., Any]:
    """Split sizes become numpy only ``if tensor.is_cuda`` upstream; gloo needs them as Python numbers."""

    def maybe_move_tensor_to_cpu(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:  # noqa: ARG001
        return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor

    return maybe_move_tensor_to_cpu


def _unequal(tensors: list[torch.Tensor]) -> bool:
    return len({tensor.shape for tensor in tensors}) > 1


def _global_rank(group: Any, rank: int) -> int:
    return rank if group is None else dist.get_global_rank(group, rank)


PATCHES: list[Patch] = [
    Replace("cpu.all_gather", "torch.distributed:all_gather", "gloo refuses unequal outputs", _all_gather),
    Replace(
        "cpu.reduce_scatter",
        "torch.distributed:reduce_scatter",
        "gloo refuses unequal inputs",
        _reduce_scatter,
    ),
    Replace("cpu.scatter", "torch.distributed:scatter", "gloo reads views as if contiguous", _scatter),
    Replace(
        "cpu.split_sizes",
        "megatron.core.transformer.moe.token_dispatcher:maybe_move_tensor_to_cpu",
        "split sizes stay tensors on a CPU",
        _stay_on_cpu,
        signature=("tensor",),
    ),
]
