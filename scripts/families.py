"""Runs the preflight over every family that the installed bridge supports, and writes docs/families.md.

A family's HF config is built offline, from its config class's own defaults with fewer layers and experts.
Each family runs in a process of its own, forked from one that holds the stacks.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "docs" / "families.md"
TIMEOUT = 180  #: seconds a family may take

#: Set on a default config where it has such a field. Ten layers hold one period of every hybrid pattern.
FEWER = {
    "num_hidden_layers": 8,
    "num_experts": 8,
    "n_routed_experts": 8,
    "num_local_experts": 8,
    "moe_num_experts": 8,
}
GROUPS = {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 2}

HEAD = """# Model families

Written by `python scripts/families.py`; do not edit. The preflight's answer for each family that
megatron-bridge {bridge} registers, with its HF config built offline by transformers {transformers} (the config
class's defaults, 8 layers and 8 experts where it has such fields), at TP=2 PP=2, and EP=2 where there are
experts. Consistent: every rank's names are a bijection onto the tensors of an HF checkpoint, and shapes are
equal after gathering. Default configs aren't released models: a finding here is a question to the bridge.

| family | result | Megatron names | HF tensors | why not |
|---|---|---|---|---|
"""


def main() -> None:
    os.environ["BRIDGE_PLUGINS_CPU"] = "1"
    warnings.simplefilter("ignore")
    from bridge_plugins import plugins

    plugins.load(strict=True)
    logging.disable(logging.WARNING)
    from megatron.bridge import AutoBridge
    from rich.progress import track

    families = AutoBridge.list_supported_models()
    rows = [_run(family) for family in track(families, "families")]
    text = HEAD.format(bridge=version("megatron-bridge"), transformers=version("transformers"))
    OUT.write_text(text + "".join(f"| {' | '.join(row)} |\n" for row in rows) + _sum(rows))
    print(_sum(rows))


def _sum(rows: list[tuple[str, ...]]) -> str:
    kinds = ["findings" if row[1].endswith("findings") else row[1] for row in rows]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return "\n" + ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", of {len(rows)}.\n"


def _run(family: str) -> tuple[str, ...]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(family, sender))
    process.start()
    row = receiver.recv() if receiver.poll(TIMEOUT) else ("stopped", "", "", f"no answer within {TIMEOUT} s")
    process.kill()
    process.join()
    return (family, *row)


def _check(family: str, sender: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        sender.send(_answer(family))
    except Exception as error:
        sender.send(("not possible", "", "", _cell(f"{type(error).__name__}: {error}")))


def _answer(family: str) -> tuple[str, ...]:
    from bridge_plugins.names.preflight import check
    from bridge_plugins.names.preflight.source import from_config
    from bridge_plugins.topology import Topology

    config = _config(family)
    experts = any(getattr(config.get_text_config(), name, 0) for name in FEWER if "experts" in name)
    report = check(from_config(config, family), Topology(tp=2, pp=2, ep=2 if experts else 1))
    why = "; ".join(f"{found.kind} {found.name}" for found in report.findings[:2])
    notes = "; ".join(report.notes)
    result = "consistent" if report.consistent else f"{len(report.findings)} findings"
    return result, str(report.parameters), str(report.hf_tensors), _cell(why or notes)


def _config(family: str) -> Any:
    import transformers

    model_class = getattr(transformers, family, None)
    if model_class is None:
        raise LookupError(f"transformers {transformers.__version__} has no such model (custom code)")
    made = model_class.config_class()
    fields = made.to_dict()
    smaller = _smaller(fields)
    for name, value in fields.items():
        if isinstance(value, dict) and name == "text_config":
            smaller[name] = {**value, **_smaller(value)}
            for stale in ("layer_types", "mlp_layer_types"):
                smaller[name].pop(stale, None)
    return model_class.config_class(**smaller, architectures=[family])


def _smaller(fields: dict[str, Any]) -> dict[str, Any]:
    few = {name: value for name, value in FEWER.items() if fields.get(name)}
    return {**few, **{name: value for name, value in GROUPS.items() if fields.get(name)}}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:240]


if __name__ == "__main__":
    sys.exit(main())
