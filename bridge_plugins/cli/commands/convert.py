"""``bridge-plugins convert``: a Hugging Face folder to a torch_dist checkpoint, and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.cli import exits


def convert(
    source: Annotated[Path, typer.Argument(help="A Hugging Face folder, or a torch_dist checkpoint.")],
    out: Annotated[
        Path, typer.Argument(help="The folder to make; a checkpoint's name gets its topology behind it.")
    ],
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    vpp: Annotated[int, typer.Option(help="Virtual stages (chunks) per pipeline stage.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert parallel size.")] = 1,
    etp: Annotated[int, typer.Option(help="Tensor parallel size of the experts.")] = 1,
    to_hf: Annotated[
        bool | None,
        typer.Option("--to-hf/--to-megatron", help="The direction, if SOURCE shouldn't decide it."),
    ] = None,
    hf: Annotated[
        Path | None,
        typer.Option(help="To Hugging Face: a folder with the model's config, if the checkpoint has none."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert a Hugging Face folder to a torch_dist checkpoint through Megatron Bridge, or a checkpoint to a Hugging
    Face folder, on processes of its own: over gloo without GPUs, else one GPU each. What was written is read back and
    held against what was read, bit for bit, before it gets its name. Exit 1, and nothing left, if it differs.
    """
    from bridge_plugins.checkpoints import convert as conversion
    from bridge_plugins.checkpoints import paths
    from bridge_plugins.cli import show
    from bridge_plugins.errors import UsageError
    from bridge_plugins.topology import Topology

    if not source.is_dir():
        raise UsageError(f"{source} is no folder: name a Hugging Face folder, or a torch_dist checkpoint")
    topology = Topology(tp=tp, pp=pp, vpp=vpp, ep=ep, etp=etp)
    back = paths.is_checkpoint(source) if to_hf is None else to_hf
    if hf is not None and not back:
        raise UsageError("--hf is for the way to Hugging Face; SOURCE is a Hugging Face folder")
    try:
        with show.working(f"converting {source}") as progress:
            folder, converted = (
                conversion.to_hf(source, out, topology, progress, hf=hf)
                if back
                else conversion.to_megatron(source, out, topology, progress)
            )
    except conversion.ConversionError as error:
        folder, converted = None, error.converted
    if json:
        show.as_json({"folder": folder and str(folder), "topology": str(topology), "converted": converted})
    elif folder is None:
        console = show.console()
        show.findings(console, converted.findings)
        console.print(
            f"not what was read from {source}: nothing is left of it", highlight=False, soft_wrap=True
        )
    else:
        held = f"equal to {converted.compared_with}" if converted.compared_with else "held against nothing"
        held += f"; {converted.wider} in a wider dtype, with the same values" if converted.wider else ""
        typer.echo(f"wrote {folder}{os.sep}: {topology}")
        typer.echo(
            f"{converted.tensors} tensors, {converted.nbytes:,} bytes, digest {converted.digest}: {held}"
        )
    raise typer.Exit(exits.CONSISTENT if folder else exits.FINDINGS)
