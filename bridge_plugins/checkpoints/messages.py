"""What the launcher of a conversion and its ranks tell each other, in files."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge_plugins.audit.finding import Finding


class Job(msgspec.Struct):
    """What the ranks are told.

    Attributes:
        source: an HF folder, or with `to_hf` the folder of a checkpoint.
        part: the folder to write to, which is there.
        hf: the folder with the model's config.
        topology: fields of a `Topology`.
        to_hf: the direction.
    """

    source: str
    part: str
    hf: str
    topology: dict[str, Any]
    to_hf: bool = False


class Converted(msgspec.Struct):
    """What rank 0 says at the end.

    Attributes:
        digest: of the model, see `fingerprint.rollup`.
        compared_with: what it was held against; empty for nothing.
        wider: tensors that Megatron holds in a wider dtype than the source, with the same values.
    """

    tensors: int
    nbytes: int
    digest: str
    compared_with: str
    findings: list[Finding] = []
    wider: int = 0
