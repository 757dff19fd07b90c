"""Faults of Megatron Bridge itself, each at its true place: a wrapper around the one function that would have it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from bridge_plugins.patching import Patcher, Replace, State, wrapping
from tests.trainer_layout import faults as mirrored

_BRIDGE = "megatron.bridge.models.conversion.model_bridge"
_MAPPING = "megatron.bridge.models.conversion.param_mapping"
_MAPPED = f"{_MAPPING}:MegatronParamMapping"
_NAME = f"{_BRIDGE}:_megatron_local_name_to_global"


def _patch(target: str, wrapper: Any) -> Replace:
    return Replace(f"fault.{target}", target, "nothing", wrapping(wrapper))


# --- the name mapping -------------------------------------------------------------------------------------------------


def _sequential_experts(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    """The number is read after ``.weight``, where SequentialMLP has none: rank 1 of two keeps its local ones."""
    name: str = wrapped(*args, **kwargs)
    return re.sub(r"local_experts\.(\d+)", lambda m: f"local_experts.{int(m[1]) % 4}", name)


def _count_of_nothing(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    """The count of experts is made where PP > 1 alone: without it a rank counts on from its own number."""
    name: str = wrapped(*args, **kwargs)
    local = int(n[1]) % 4 if (n := re.search(r"\.weight(\d+)$", name)) else 0
    return re.sub(r"\.weight([4-7])$", lambda _: f".weight{local + 1}", name)


def _one_name_for_all(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """Every expert rank publishes its experts under its own numbers; the last one is what is left."""
    per_rank = list(wrapped(*args, **kwargs).items())
    return {per_rank[0][0]: per_rank[-1][1]} if mapping.ep_size > 1 else dict(per_rank)


# --- shards on their way in -------------------------------------------------------------------------------------------


def _left_as_it_was(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """A layer whose key finds no match is passed over without a word."""
    return None if ".layers.2." in mapping.megatron_param else wrapped(*args, **kwargs)


# --- the merge of shards ----------------------------------------------------------------------------------------------


def _experts_not_gathered(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """``all_gather`` is behind a test that an expert's parameter does not pass."""
    return [args[0]] if ".experts." in mapping.megatron_param else wrapped(*args, **kwargs)


def _gate_up_of_the_whole(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """The shards are glued first and cut in two halves then, as if each had not a gate and an up of its own."""
    import torch

    parts = wrapped(*args, **kwargs)
    gate, up = (parts[mapping.hf_param[key]] for key in ("gate", "up"))
    shards = [torch.cat(pair) for pair in zip(gate.chunk(2), up.chunk(2), strict=True)]
    return dict(
        zip((mapping.hf_param["gate"], mapping.hf_param["up"]), torch.cat(shards).chunk(2), strict=True)
    )


def _slabs(*call: Any) -> Any:
    return mirrored._slabs_out(*call)


# --- what never travels, or with fewer bits ---------------------------------------------------------------------------


def _no_buffers(*_: Any) -> tuple[()]:
    """Parameters alone are walked."""
    return ()


def _no_bias(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """The bias is collected behind a return that a module without a quantised weight takes."""
    return {} if "e_score_correction_bias" in str(mapping.hf_param) else wrapped(*args, **kwargs)


def _rounded(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """What a wrapper that casts a module to bfloat16 leaves of a float32 buffer that is made wide again later."""
    import torch

    return {
        name: t.to(torch.bfloat16).float() if t.dtype is torch.float32 else t
        for name, t in wrapped(*args, **kwargs).items()
    }


def _no_environment(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    """A worker that was started without a variable that the first rank has."""
    if os.environ["RANK"] != "0":
        os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    return wrapped(*args, **kwargs)


#: fault: (its patches, whether they are there on import as well)
FAULTS: dict[str, tuple[list[Replace], bool]] = {
    "local experts": ([_patch(_NAME, mirrored._local_experts)], True),
    "local experts of SequentialMLP": ([_patch(_NAME, _sequential_experts)], True),
    "count of nothing": ([_patch(_NAME, _count_of_nothing)], True),
    "one chunk": ([_patch(_NAME, mirrored._one_chunk)], True),
    "one name for all": ([_patch(f"{_MAPPED}.gather_from_ep_ranks", _one_name_for_all)], False),
    "left as it was": (
        [_patch(f"{_MAPPING}:{kind}.hf_to_megatron", _left_as_it_was) for kind in ("AutoMapping", "QKVMapping")], True,
    ),
    "experts not gathered": ([_patch(f"{_MAPPED}.gather_from_tp_ranks", _experts_not_gathered)], False),
    "gate and up of the whole": ([_patch(f"{_MAPPING}:GatedMLPMapping.megatron_to_hf", _gate_up_of_the_whole)], False),
    "equal slabs": ([_patch(f"{_MAPPING}:split_qkv_weights", _slabs)], False),
    "no buffers": ([_patch(f"{_BRIDGE}:persistent_buffers", _no_buffers)], False),
    "no weight, no bias": ([_patch(f"{_MAPPING}:AutoMapping.megatron_to_hf", _no_bias)], False),
    "rounded": ([_patch(f"{_MAPPING}:AutoMapping.megatron_to_hf", _rounded)], False),
    "no environment": ([_patch(f"{_MAPPING}:AutoMapping.megatron_to_hf", _no_environment)], False),
    "a setting": ([], False),
}  # fmt: skip


@contextlib.contextmanager
def broken(fault: str, when: str) -> Iterator[None]:
    """`fault` in this process, if it is there on `when` ("import" or "export")."""
    patches, on_import = FAULTS[fault]
    patcher = Patcher()
    for patch in patches if on_import or when == "export" else ():
        patcher.add(patch, "tests")
        assert patcher.status[patch.name].state is State.APPLIED, patcher.status[patch.name]
    try:
        yield
    finally:
        for patch in reversed(patches):
            if patch.name in patcher.status:
                patcher.revert(patch.name)
