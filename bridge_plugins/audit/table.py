"""A summary as a table that fits a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table

from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rows import Row, place_name, rows
from bridge_plugins.audit.summary import Summary

_DIGITS = 8  #: of a digest's 32


def layer_table(summary: Summary, marked: Collection[str] = ()) -> Table:
    """One row per layer. Layers with a name in `marked` are marked."""
    layers = {place_name(place_of(name).layer) for name in marked}
    return row_table(rows(summary), title=title(summary), marked=layers)


def row_table(shown: Sequence[Row], *, title: str = "", marked: Collection[str] = ()) -> Table:
    """Rows with parameters, bytes, norm, absmax, digest and marks; for single tensors with dtype and shape."""
    single = all(row.dtype for row in shown)
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column("tensor" if single else "layer", overflow="fold")
    if single:
        table.add_column("shape", no_wrap=True)
        table.add_column("dtype", no_wrap=True)
    else:
        table.add_column("tensors", justify="right", no_wrap=True)
        table.add_column("params", justify="right", no_wrap=True)
    for column in ("bytes", "norm", "absmax"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("digest", no_wrap=True)
    table.add_column("")
    for row in shown:
        marks = " ".join(mark for mark in ("✗" if row.name in marked else "", row.marks) if mark)
        table.add_row(
            row.name,
            *(
                ("x".join(map(str, row.shape)), row.dtype)
                if single
                else (str(row.tensors), short(row.elements))
            ),
            f"{short(row.nbytes)}B",
            number(row.norm),
            number(row.absmax),
            row.digest[:_DIGITS],
            f"[red]{marks}[/red]" if marks else "",
        )
    return table


def title(summary: Summary) -> str:
    """What a summary is of, in one line."""
    header = summary.header
    elements = sum(layer.elements for layer in summary.layers)
    nbytes = sum(layer.nbytes for layer in summary.layers)
    tensors = sum(layer.tensors for layer in summary.layers)
    of = [header.model or "weights"]
    of += [f"version {header.version}"] if header.version else []
    of += [f"stage {header.stage}", header.topology] if header.topology else [f"stage {header.stage}"]
    return f"{', '.join(of)}: {tensors:,} tensors, {short(elements)} params, {short(nbytes)}B"


def short(count: int) -> str:
    """``1.31 M``: three digits and a decimal unit."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} "


def number(value: float) -> str:
    """Four digits; without an exponent where that isn't needed."""
    if value and not 1e-3 <= value < 99999.5:
        return f"{value:.2e}"
    return f"{value:.4g}" if value < 9999.5 else f"{value:.0f}"
