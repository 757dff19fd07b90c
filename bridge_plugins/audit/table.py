"""A summary as a table that fits a terminal: one row per layer."""

from __future__ import annotations

from collections.abc import Collection

from rich import box
from rich.table import Table

from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.summary import Summary


def layer_table(summary: Summary, marked: Collection[str] = ()) -> Table:
    """One row per layer: tensors, elements, bytes, norm, absmax, digest. Layers with a name in `marked` are marked."""
    header = summary.header
    title = f"weights, version {header.version} (stage {header.stage})"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("layer", "tensors", "elements", "MB", "norm", "absmax", "digest", ""):
        table.add_column(
            column, justify="left" if column in ("layer", "digest", "") else "right", no_wrap=True
        )
    layers_marked = {place_of(name).layer for name in marked}
    for layer in summary.layers:
        table.add_row(
            layer.name,
            f"{layer.tensors}",
            f"{layer.elements:,}",
            f"{layer.nbytes / 1e6:.2f}",
            f"{layer.norm:.4g}",
            f"{layer.absmax:.4g}",
            layer.digest[:16],
            "✗" if layer.name in layers_marked else "",
        )
    return table
