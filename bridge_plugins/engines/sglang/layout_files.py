"""Layouts kept on disk, in the folder that BRIDGE_LAYOUT_DIR names: a server that starts again needs no probe.

A file belongs to one rank of one way to start a server: its name is a digest of the checkpoint's tensors, of the packages'
versions, of what decides how SGLang lays weights out, and of the shapes, strides and dtypes of the rank's own tensors.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bridge_plugins.engines.sglang import world
from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.layout.offsets import Offset
from bridge_plugins.layout.probe import Block, Layout
from bridge_plugins.layout.reachable import reachable
from bridge_plugins.layout.sources import Source
from bridge_plugins.whole_file import write_bytes

logger = logging.getLogger(__name__)

FOLDER_VARIABLE = "BRIDGE_LAYOUT_DIR"
PACKAGES = ("megatron-bridge-plugins", "sglang", "torch", "transformers")

#: SGLang's arguments that may change where a loader puts what, or what it makes of it.
ARGUMENTS = (
    "tp_size", "pp_size", "ep_size", "dp_size", "enable_dp_attention", "enable_dp_lm_head", "moe_dense_tp_size",
    "dtype", "quantization", "load_format", "device", "attention_backend", "moe_runner_backend", "moe_a2a_backend",
    "ep_num_redundant_experts", "init_expert_location", "json_model_override_args", "torchao_config",
    "disable_shared_experts_fusion", "speculative_algorithm",
)  # fmt: skip

NUMBERS = 13  #: of a block: path, source, the box's ten, whether it is transposed


class _Content(msgspec.Struct):
    paths: list[str]
    sources: list[str]
    blocks: bytes
    untold: dict[str, str]
    derived: dict[str, str]
    offsets: dict[str, Offset]


class _Stored(msgspec.Struct):
    digest: bytes
    content: bytes


@dataclass(frozen=True)
class LayoutFile:
    """Where this rank's layout is kept, and what its blocks may be of."""

    path: Path
    sources: Sequence[Source]

    @staticmethod
    def of(runner: Any, sources: Sequence[Source]) -> LayoutFile | None:
        """The file for a ``ModelRunner``'s model; None if no folder is named."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            return None
        rank, size = world.rank_and_size()
        arguments = getattr(runner, "server_args", None)
        belongs_to = (
            [(source.name, source.shape, source.dtype) for source in sources],
            [(package, _version(package)) for package in PACKAGES],
            [(name, str(getattr(arguments, name, None))) for name in ARGUMENTS],
            [
                (one.path, tuple(one.tensor.shape), one.tensor.stride(), str(one.tensor.dtype))
                for one in reachable(runner.model)
            ],
            (rank, size, type(runner.model).__name__),
        )
        name = hashlib.blake2b(msgspec.json.encode(belongs_to), digest_size=16).hexdigest()
        return LayoutFile(Path(folder) / f"{name}-rank{rank}.layout", sources)

    def read(self) -> Layout | None:
        """The layout, or None if there is none; a damaged file is ignored, with a word in the log."""
        try:
            stored = msgspec.msgpack.decode(self.path.read_bytes(), type=_Stored)
            if _digest(stored.content) != stored.digest:
                raise ValueError("its content is not what was written")
            return self._layout(msgspec.msgpack.decode(stored.content, type=_Content))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, msgspec.DecodeError) as error:
            logger.warning("bridge readback: %s is ignored: %s", self.path, error)
            return None

    def write(self, layout: Layout) -> None:
        """Write atomically. A folder that can't be written to costs the next start a probe, nothing more."""
        try:
            content = msgspec.msgpack.encode(_content(layout))
            write_bytes(msgspec.msgpack.encode(_Stored(_digest(content), content)), self.path)
        except OSError as error:
            logger.warning("bridge readback: the layout is not kept: %s", error)

    def _layout(self, content: _Content) -> Layout:
        known = {source.name: source for source in self.sources}
        blocks = []
        for path, source, *box, transposed in (
            np.frombuffer(content.blocks, "<i8").reshape(-1, NUMBERS).tolist()
        ):
            size, offset, stride, local_offset, local_stride = (
                Pair(*box[at : at + 2]) for at in range(0, 10, 2)
            )
            place = Box(size, offset, stride, local_offset, local_stride, bool(transposed))
            blocks.append(Block(content.paths[path], known[content.sources[source]], place))
        return Layout(tuple(blocks), content.untold, content.derived, content.offsets)


def _content(layout: Layout) -> _Content:
    paths = list(dict.fromkeys(block.path for block in layout.blocks))
    sources = list(dict.fromkeys(block.source.name for block in layout.blocks))
    path_number = {path: number for number, path in enumerate(paths)}
    source_number = {name: number for number, name in enumerate(sources)}
    rows = [
        (
            path_number[block.path], source_number[block.source.name],
            *block.box.size, *block.box.offset, *block.box.stride,
            *block.box.local_offset, *block.box.local_stride, block.box.transposed,
        )
        for block in layout.blocks
    ]  # fmt: skip
    return _Content(
        paths, sources, np.array(rows, "<i8").tobytes(), layout.untold, layout.derived, layout.offsets
    )


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
