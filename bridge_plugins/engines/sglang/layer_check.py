"""Which layers of an engine differ from the trainer's: sums over all ranks, 25 bytes a layer and rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.answer import Layers, unpack


@dataclass(frozen=True)
class Checked:
    """The layers of one model in an engine. Of one that is in neither set, it holds nothing.

    One that is `proved` is right on every rank and in every copy: the primary holders' parts add up to the trainer's
    digest, the replicas cancel, nothing was left out, and the names, dtypes and shapes are the trainer's. One that
    differs must be looked at tensor by tensor.
    """

    proved: frozenset[str]
    differing: frozenset[str]


def check_layers(answers: Sequence[Layers], summary: Summary) -> Checked | None:
    """Hold the digests of one model, of all its ranks, against the trainer's `summary`; None if they say nothing."""
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
    wanted = summary.columns.schema.layer_keys
    expected = {layer.name: layer.digest for layer in summary.layers}
    proved, differing = set[str](), set[str]()
    for name, key, (one, other), replica, left in zip(
        first.names, first.keys, lanes.tolist(), replicas.tolist(), left_out.tolist(), strict=True
    ):
        if not (one or other or replica or left or key):
            continue
        same = f"{one:016x}{other:016x}" == expected.get(name, "0" * 32)
        right = same and not replica and not left and key == wanted.get(name, 0)
        (proved if right else differing).add(name)
    return Checked(frozenset(proved), frozenset(differing))
