"""Which tensors a rank's parameters hold, by one plane of coded weights through the bridge's own import."""

from __future__ import annotations

from typing import Any


def import_coded(trainer: Any, checkpoint: str) -> list[str]:
    """Import weights whose every tensor spells its own number; the names, by their numbers."""
    import torch

    from bridge_plugins.layout.codes import BASE
    from bridge_plugins.layout.planes import TENSOR, Coded, Plane
    from bridge_plugins.layout.sources import read_sources
    from bridge_plugins.layout.trainer_source import load_coded

    sources = read_sources(checkpoint)
    assert len(sources) <= BASE  # one digit will do
    load_coded(trainer.bridge, trainer.model, sources, Coded(sources, Plane(TENSOR, 0), torch.device("cpu")))
    return [source.name for source in sources]


def sources_of(parameter: Any, names: list[str]) -> set[str]:
    """The HF tensors of which `parameter` holds a part; ``?`` for what no tensor was written to (padding is 0)."""
    from bridge_plugins.layout.codes import decode

    return {
        names[number] if 0 <= number < len(names) else "?"
        for number in decode(parameter.detach()).unique().tolist()
    }
