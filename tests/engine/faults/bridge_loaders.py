"""Loaders that go wrong: each is put around a model's own ``load_weights`` (see ``arm`` in bridge_faults.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import bridge_faults
import torch
from torch import Tensor

Weights = Iterable[tuple[str, Tensor]]
Load = Callable[[Weights], Any]


def renamed(_: Any, load: Load, weights: Weights, pattern: str, by: str) -> Any:
    """Names come otherwise than the model's own loader looks for them."""
    return load([(re.sub(pattern, by, name), weight) for name, weight in weights])


def without(_: Any, load: Load, weights: Weights, pattern: str) -> Any:
    """Some are passed over."""
    return load([(name, weight) for name, weight in weights if not re.search(pattern, name)])


def local_experts(model: Any, load: Load, weights: Weights) -> Any:
    """Every rank takes the first experts for its own."""
    parallel = [m for m in model.modules() if hasattr(m, "_map_global_expert_id_to_local_expert_id")]
    for experts in parallel:
        many = experts._num_local_routed
        experts._map_global_expert_id_to_local_expert_id = lambda number, n=many: number if number < n else -1
    try:
        return load(weights)
    finally:
        for experts in parallel:
            del experts._map_global_expert_id_to_local_expert_id


def into_discarded_tensors(model: Any, load: Load, weights: Weights, path: str) -> Any:
    """The loader still knows tensors that were replaced by others after the first load."""
    parameters = [each for name, each in model.named_parameters() if path in name]
    served = [parameter.data for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data.clone()
    try:
        return load(weights)
    finally:
        for parameter, data in zip(parameters, served, strict=True):
            parameter.data = data


def finished_by_chunk(model: Any, load: Load, weights: Weights) -> Any:
    """After each chunk, every layer that isn't in it is restored from what ``keep`` has kept."""
    chunk = list(weights)
    result = load(chunk)
    loaded = {".".join(name.split(".")[:3]) + "." for name, _ in chunk}
    with torch.no_grad():
        for name, tensor in bridge_faults.tensors(model, "model.layers.").items():
            if not name.startswith(tuple(loaded)):
                tensor.copy_(bridge_faults.KEPT[name])
    return result


def by_own_names(model: Any, load: Load, weights: Weights) -> None:  # noqa: ARG001
    """Past the parameters' own loaders: what the model calls otherwise, or cuts, is left as it is."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights:
            if name in own and own[name].shape == weight.shape:
                own[name].copy_(weight)


def scaled(model: Any, load: Load, weights: Weights, path: str, by: float) -> Any:
    """What is done after a first load is done again after the next."""
    result = load(weights)
    with torch.no_grad():
        bridge_faults.scale(model, path, by)
    return result


def into_a_new_tensor(model: Any, load: Load, weights: Weights, path: str) -> Any:
    """A parameter is replaced by a new one: whoever borrowed the old one keeps it."""
    module, _, key = path.rpartition(".")
    owner = model.get_submodule(module)
    old = getattr(owner, key)
    bridge_faults.UNDO.append(lambda: setattr(owner, key, old))
    new = torch.nn.Parameter(old.data.clone(), requires_grad=False)
    vars(new).update(vars(old))
    setattr(owner, key, new)
    return load(weights)
