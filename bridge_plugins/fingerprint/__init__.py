"""The additive fingerprint (version 1): equal for any sharding of a tensor, exact down to one bit.

Start in `reference.py`: it is the definition. `docs/fingerprint.md` says why it looks like this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge_plugins import lazy

if TYPE_CHECKING:
    from bridge_plugins.fingerprint.box import Box
    from bridge_plugins.fingerprint.compute import fingerprint, fingerprint_many
    from bridge_plugins.fingerprint.coverage import Coverage, CoverageReport
    from bridge_plugins.fingerprint.keys import VERSION
    from bridge_plugins.fingerprint.part import Part
    from bridge_plugins.fingerprint.rollup import Digest, layer_term, tensor_term
    from bridge_plugins.fingerprint.stream import FingerprintStream
    from bridge_plugins.fingerprint.table import FingerprintTable
    from bridge_plugins.fingerprint.value import Fingerprint, Statistics

__all__ = [
    "VERSION",
    "Box",
    "Coverage",
    "CoverageReport",
    "Digest",
    "Fingerprint",
    "FingerprintStream",
    "FingerprintTable",
    "Part",
    "Statistics",
    "fingerprint",
    "fingerprint_many",
    "layer_term",
    "tensor_term",
]

# Digests and keys need no torch; what fingerprints tensors does.
__getattr__ = lazy.names(
    __name__,
    {
        "Box": "box",
        "fingerprint": "compute",
        "fingerprint_many": "compute",
        "Coverage": "coverage",
        "CoverageReport": "coverage",
        "VERSION": "keys",
        "Part": "part",
        "Digest": "rollup",
        "layer_term": "rollup",
        "tensor_term": "rollup",
        "FingerprintStream": "stream",
        "FingerprintTable": "table",
        "Fingerprint": "value",
        "Statistics": "value",
    },
)
