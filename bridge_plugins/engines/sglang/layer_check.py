"""Which layers of an engine differ from the trainer's: sums over all ranks, 25 bytes a layer and rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.answer import Layers, unpack
from bridge_plugins.fingerprint.keys import MASK64
from bridge_plugins.fingerprint.rollup import tensor_key


def differing_layers(answers: Sequence[Layers], summary: Summary) -> set[str] | None:
    """The layers that must be looked at tensor by tensor; None if the digests say nothing, and all must be.

    A layer that isn't among them is proved, on every rank and in every copy: the primary holders' parts add up to the
    trainer's digest, the replicas cancel, nothing was left out, and the names, dtypes and shapes are the trainer's.

    Args:
        answers: of all ranks of one engine's world.
        summary: the trainer's.
    """
    first = next((answer for answer in answers if answer.rank == 0), None)
    if first is None or not first.agreed or any(answer.agreed != first.agreed for answer in answers):
        return None
    try:
        digests = [unpack(answer.digests) for answer in answers]
    except ValueError:
        return None
    if any(len(primary) != len(first.names) for primary, _, _ in digests) or len(first.keys) != len(
        first.names
    ):
        return None
    lanes: NDArray[np.uint64] = np.sum([each for each, _, _ in digests], axis=0, dtype=np.uint64)
    replicas: NDArray[np.uint64] = np.sum([each for _, each, _ in digests], axis=0, dtype=np.uint64)
    left_out: NDArray[np.int64] = np.sum([each for _, _, each in digests], axis=0, dtype=np.int64)
    wanted = _keys(summary)
    expected = {layer.name: layer.digest for layer in summary.layers}
    differing = set(expected) - set(first.names)
    for name, key, (one, other), replica, left in zip(
        first.names, first.keys, lanes.tolist(), replicas.tolist(), left_out.tolist(), strict=True
    ):
        same = f"{one:016x}{other:016x}" == expected.get(name, "0" * 32)
        if not same or replica or left or key != wanted.get(name, 0):
            differing.add(name)
    return differing


def _keys(summary: Summary) -> dict[str, int]:
    """Layer → the sum of its tensors' keys: which names, dtypes and shapes it has, whatever their weights are."""
    sums: dict[str, int] = defaultdict(int)
    for record in summary.records.values():
        place = place_of(record.name)
        key = tensor_key(place.inside, record.dtype, record.shape)
        sums[place.layer] = (sums[place.layer] + key) & MASK64
    return sums
