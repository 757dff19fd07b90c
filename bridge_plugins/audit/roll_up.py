"""Tensors to layers, layers to the model: on arrays, whose 64-bit integers add and multiply modulo 2^64."""

from __future__ import annotations

import numpy as np

from bridge_plugins.audit.columns import Columns
from bridge_plugins.audit.summary import LayerSummary
from bridge_plugins.fingerprint import Digest, layer_term


def roll_up(columns: Columns) -> tuple[list[LayerSummary], Digest]:
    """The layers in model order, and the digest of the model."""
    schema = columns.schema
    if not len(schema):
        return [], Digest()
    order, starts = schema.by_layer
    lanes = np.add.reduceat((schema.keys[:, None] * columns.lanes)[order], starts).tolist()
    norms = np.sqrt(np.add.reduceat(columns.norm[order] ** 2, starts)).tolist()
    absmax = np.maximum.reduceat(columns.absmax[order], starts).tolist()
    nonfinite = np.add.reduceat(columns.nonfinite[order], starts).tolist()
    digests = {layer: Digest((low, high)) for layer, (low, high) in zip(schema.layers, lanes, strict=True)}
    layers = [
        LayerSummary(name, len(members), *sizes, norm, largest, bad, str(digests[name]))
        for (name, members), sizes, norm, largest, bad in zip(
            schema.layers.items(), schema.layer_sizes, norms, absmax, nonfinite, strict=True
        )
    ]
    return layers, sum((layer_term(name, digest) for name, digest in digests.items()), Digest())
