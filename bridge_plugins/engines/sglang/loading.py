"""The engine's own ways to load weights, as a probe needs them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bridge_plugins.layout.sources import read_weights

Weights = Iterable[tuple[str, Tensor]]

_BEGIN = (
    "restore_weights_before_loading"  # of SGLang's loader, which undoes what was done after the last load
)


def checkpoint_folder(model: str) -> str:
    """The checkpoint's folder: `model` itself, or what the Hugging Face cache holds under that name."""
    if Path(model).is_dir():
        return model
    from huggingface_hub import snapshot_download

    return str(snapshot_download(model, local_files_only=True))


def why_not_again(runner: Any) -> str:
    """Why weights can't be loaded again into `runner`'s model as it serves; empty if they can."""
    quantised = runner.model_config.quantization
    if not quantised:
        return ""
    from sglang.srt.model_loader.loader import DefaultModelLoader

    if hasattr(DefaultModelLoader, _BEGIN):
        return ""
    return (
        f"{quantised} weights are packed anew once they are loaded, which this SGLang can't undo; 0.5.21 can"
    )


def loader_of(runner: Any) -> Callable[[Weights], None]:
    """The engine's path for an update of `runner`'s model: begin (undo packing) → load → end (process again).

    Servers older than 0.5.21 have no begin and no end: there it is the load alone.
    """

    def load(weights: Weights) -> None:
        with _update(runner):
            runner.model.load_weights(iter(weights))

    return load


def reloader_of(runner: Any, folder: str) -> Callable[[], None] | None:
    """Gives the model again what it was started with; None if that can't be had again (a loader of the user's own)."""
    kind = type(runner.loader).__name__
    if kind == "DefaultModelLoader":
        load = loader_of(runner)
        return lambda: load(read_weights(folder))
    if kind == "DummyModelLoader":
        return lambda: _make_dummies(runner)
    return None


def _make_dummies(runner: Any) -> None:
    """SGLang's dummy weights are the same every time: their seeds are."""
    from sglang.srt.model_loader.weight_utils import initialize_dummy_weights

    with _update(runner):
        initialize_dummy_weights(runner.model)
        if hasattr(runner.model, "post_load_weights"):
            runner.model.post_load_weights()


@contextlib.contextmanager
def _update(runner: Any) -> Iterator[None]:
    """Between the server's begin and end of an update, where it has them."""
    from sglang.srt.model_loader.loader import DefaultModelLoader

    begin = getattr(DefaultModelLoader, _BEGIN, None)
    end = getattr(DefaultModelLoader, "postprocess_weights", None)
    device = torch.device(runner.device)
    with _default_dtype(runner.model_config.dtype):
        if begin and end:
            begin(runner.model, device)
        yield
        if begin and end:
            end(runner.model, device)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """As SGLang sets it while it loads: some loaders make tensors in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
