"""A summary as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rows import Row, place_name, rows
from bridge_plugins.audit.summary import Summary
from bridge_plugins.run_against import unknown

_DIGITS = 8  #: of a digest's 32
_NUMBERS = ("tensors", "params", "bytes", "norm", "absmax")
_GIVEN_UP = (
    "absmax",
    "norm",
    "params",
    "dtype",
    "shape",
    "tensors",
    "bytes",
)  #: on a narrow terminal, in this order


def layer_table(summary: Summary, marked: Collection[str] = ()) -> Table:
    """One row per layer. Layers with a name in `marked` are marked."""
    layers = {place_name(place_of(name).layer) for name in marked}
    return row_table(rows(summary), title=title(summary), marked=layers)


def row_table(
    shown: Sequence[Row], *, title: str = "", marked: Collection[str] = (), width: int | None = None
) -> Table:
    """Rows with parameters, bytes, norm, absmax, digest and marks; for single tensors with dtype and shape.

    What doesn't fit into `width` characters is left out, number by number; names and digests stay.
    """
    single = all(row.dtype for row in shown)
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    table.add_column("tensor" if single else "layer", overflow="fold")
    columns = {
        "shape": ["x".join(map(str, row.shape)) for row in shown],
        "dtype": [row.dtype for row in shown],
        "tensors": [str(row.tensors) for row in shown],
        "params": [short(row.elements) for row in shown],
        "bytes": [f"{short(row.nbytes)}B" for row in shown],
        "norm": [number(row.norm) for row in shown],
        "absmax": [number(row.absmax) for row in shown],
        "digest": [row.digest[:_DIGITS] for row in shown],
        "": [
            " ".join(mark for mark in ("✗" if row.name in marked else "", row.marks) if mark) for row in shown
        ],
    }
    for other in ("tensors", "params") if single else ("shape", "dtype"):
        del columns[other]
    for given_up in _GIVEN_UP:
        if width is not None and _width(columns) > width:
            columns.pop(given_up, None)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in _NUMBERS else "left",
            no_wrap=column != "",
            style="" if column else "red",
        )
    for row, *cells in zip(shown, *columns.values(), strict=True):
        table.add_row(Text(row.name), *cells)  # a name in [brackets] is no markup
    return table


def _width(columns: dict[str, list[str]]) -> int:
    """Of all columns, with a name of 14 letters (``outside layers``); longer ones are folded."""
    return 16 + sum(2 + max(map(len, (header, *cells))) for header, cells in columns.items())


def title(summary: Summary) -> str:
    """What a summary is of, in one line; in a second one, that its version of Megatron Bridge is unknown here."""
    header = summary.header
    elements = sum(layer.elements for layer in summary.layers)
    nbytes = sum(layer.nbytes for layer in summary.layers)
    tensors = sum(layer.tensors for layer in summary.layers)
    of = [header.model or "weights"]
    of += [f"version {header.version}"] if header.version else []
    of += [f"stage {header.stage}", header.topology] if header.topology else [f"stage {header.stage}"]
    what = f"{', '.join(of)}: {tensors:,} tensors, {short(elements)} params, {short(nbytes)}B"
    bridge = header.packages.get("megatron-bridge", "")
    # A folder that was read has no patches: it was exported by nobody here.
    note = unknown(bridge) if header.patches and bridge else ""
    return f"{what}\n{note}" if note else what


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
