"""``bridge-audit preflight``: every rank's names, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.cli import exits


def preflight(
    model: Annotated[Path, typer.Argument(help="A Hugging Face model's folder; a config.json is enough.")],
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline parallel size.")] = 1,
    vpp: Annotated[int, typer.Option(help="Virtual stages of each pipeline stage.")] = 1,
    cp: Annotated[int, typer.Option(help="Context parallel size.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert parallel size.")] = 1,
    etp: Annotated[int, typer.Option(help="Tensor parallel size of the experts.")] = 1,
    world: Annotated[int, typer.Option(help="Ranks; 0: as few as the sizes need.")] = 0,
    stages: Annotated[str, typer.Option(help="Decoder layers of each chunk in model order: 3,4,4,3.")] = "",
    layout: Annotated[str, typer.Option(help="Megatron's pipeline layout: Et*3|t*4|t*4|t*3L.")] = "",
    patched: Annotated[
        bool, typer.Option("--patched/--stock", help="With the name patch, or without.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every rank's names without a GPU: a bijection onto the checkpoint, or what breaks it and
    where.
    """
    import gc
    import os

    from bridge_plugins.cli import preflight_map, show
    from bridge_plugins.errors import UsageError
    from bridge_plugins.topology import Topology

    if stages and layout:
        raise UsageError("--stages and --layout both say which layers a chunk has; give one of them")
    os.environ.setdefault("BRIDGE_PLUGINS_CPU", "1")  # nothing is computed, whatever the machine has
    topology = Topology(
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=ep,
        etp=etp,
        world=world,
        stages=preflight_map.numbers(stages, "--stages"),
    )
    with show.working("preflight") as progress, show.quiet():
        from bridge_plugins import plugins
        from bridge_plugins.names.preflight import check
        from bridge_plugins.names.preflight.source import read

        gc.disable()  # a second less: what is imported stays to the end
        plugins.load()
        progress("reading the model")
        source = read(model)
        progress("importing Megatron Bridge")
        import megatron.bridge  # noqa: F401

        gc.freeze()
        gc.enable()
        report = check(source, topology, patched=patched, layout=layout, progress=progress)
    show.as_json(report) if json else preflight_map.show(report)
    raise typer.Exit(exits.CONSISTENT if report.consistent else exits.FINDINGS)
