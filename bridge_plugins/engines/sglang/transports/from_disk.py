"""From disk: buckets become safetensors files in a folder that the engines can read, and are loaded in one go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from bridge_plugins.audit.handover import handed_over
from bridge_plugins.engines.sglang.buckets import NamedTensors
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.layout.sources import read_weights


class FromDisk:
    """``/update_weights_from_disk``.

    Args:
        folder: on a file system that trainer and engines share, under the same path. Each push gets a folder of its own
            in it, which stays until the next push, for that is where the engine says its model lies.
        written: `folder` holds the version already, as ``bridge.save_hf_pretrained`` writes it: what is pushed is
            ``stored(folder)``, and nothing is written.
    """

    def __init__(self, folder: Path, *, written: bool = False) -> None:
        self._root, self._written = folder, written
        self._version, self._files = 0, 0
        self._began = False

    def begin(self, engine: Engine) -> None:
        _ = engine.ranks  # is it there, and an SGLang server?

    def pack(self, bucket: NamedTensors) -> None:
        if self._written:
            handed_over(lambda: bucket, one_call=False)
            return
        if not self._began:
            self._began, self._files = True, 0
            self._version += 1
            shutil.rmtree(self._folder, ignore_errors=True)  # of a run before this one
            self._folder.mkdir(parents=True)
        from safetensors.torch import save_file

        self._files += 1
        # Copies: two tensors of a bucket may be views of one, which safetensors refuses.
        own = {
            name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in bucket
        }
        save_file(own, self._folder / f"model-{self._files:05d}.safetensors", metadata={"format": "pt"})
        handed_over(own.items, one_call=False)

    def load(self, engine: Engine, packed: None) -> None:
        """Nothing yet: the files are loaded together, at the end."""

    def end(self, engine: Engine) -> None:
        self._began = False
        engine.update_weights_from_disk(str((self._root if self._written else self._folder).absolute()))
        shutil.rmtree(self._root / f"push-{self._version - 1}", ignore_errors=True)

    def abandon(self, engine: Engine) -> None:  # noqa: ARG002
        self._began = False

    def close(self) -> None:
        """What was written last stays: the engines name it as their model."""

    @property
    def _folder(self) -> Path:
        return self._root / f"push-{self._version}"


def stored(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an HF folder by name, one after another, as a stream: those that an engine loads from it, so that
    files beside those that its index names are left out.

    Raises `UsageError` if it holds none, or if a file that its index names is not there.
    """
    return read_weights(folder)
