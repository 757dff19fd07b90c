"""What one rank holds, in HF terms: the values that ranks write, send and merge."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from bridge_plugins.audit.decoding import decode
from bridge_plugins.audit.megatron_local.build import Built
from bridge_plugins.audit.summary import SCHEMA, Header

#: (rows, columns, row offset, column offset, row stride, column stride) in the HF tensor seen as rows × last dimension.
Place = tuple[int, int, int, int, int, int]


class LocalPart(msgspec.Struct, frozen=True, array_like=True):
    """What one local tensor holds of one HF tensor, of shape `shape`: a fingerprint, taken as `dtype`, at its place.

    `path` is the local tensor's (see `layout.probe.Block`); `nbytes` counts as `dtype`; `lossy` counts elements that it
    can't hold exactly.
    The rest are statistics of the part's finite elements, and counts of zeros and of non-finite ones.
    """

    name: str
    shape: tuple[int, ...]
    path: str
    boxes: tuple[Place, ...]
    dtype: str
    lanes: tuple[int, int]
    nbytes: int
    lossy: int = 0
    absmax: float = 0.0
    squares: float = 0.0
    zeros: int = 0
    nonfinite: int = 0


class LocalParts(msgspec.Struct, frozen=True):
    """All that one rank holds.

    Attributes:
        header: of the summary that the parts of all ranks become; with this rank, and the number of all.
        parts: in the order of their names.
        not_compared: HF name or local path → why nothing is known of it.
        build: what `build` says of the modules that hold the parts.
    """

    header: Header
    parts: tuple[LocalPart, ...]
    not_compared: dict[str, str] = {}
    build: tuple[Built, ...] = ()

    @property
    def digest(self) -> bytes:
        """16 bytes that ranks with the same bits at the same places share. No statistics: they may differ in rounding."""
        bits = [(p.name, p.path, p.boxes, p.dtype, p.lanes, p.lossy) for p in self.parts]
        content = msgspec.msgpack.encode((bits, self.not_compared, self.build))
        return hashlib.blake2b(content, digest_size=16).digest()


def read_parts(path: Path) -> LocalParts:
    """Read what `LocalAudit.write` wrote. Raises `UsageError` naming the file if it is damaged or of a newer schema."""
    return decode(path, LocalParts, SCHEMA, "file of a rank's parts")
