"""Loads tiny models into SGLang's own model classes on a CPU, finds out their layouts, and reads them back.

``python scripts/engine_layouts.py`` writes docs/engines_table.md. With ``--json`` it takes cases from its input, as JSON,
and prints a result a line (see tests/engine/probe_case.py). Each rank is a process of its own, forked from one that
holds SGLang.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from tests.engine.probe_case import Result

OUT = ROOT / "docs" / "engines_table.md"
#: TP, EP and PP.
SIZES = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 1, 2))

HEAD = """# What a readback covers, by architecture

Written by `python scripts/engine_layouts.py`; do not edit. For each architecture a tiny random checkpoint in bfloat16 goes
into the model class of SGLang {sglang} (transformers {transformers}) on a CPU, through its own loader; the layout is found
out, and what the ranks then hold is compared with the checkpoint. EP is given where there are experts; PP=2 is a pipeline.

- **tensors**: HF tensors that are proved equal on every rank and in every copy, of all in the checkpoint.
- **memory**: bytes of the engine's weights (all ranks) that lie in some HF tensor, of all. The rest is padding, unless the
  last column says otherwise.
- **asked**: `layers` if digests alone proved it; `records` if tensors had to be told one by one.

| architecture | engine | tensors | memory | asked | not compared |
|---|---|---|---|---|---|
"""


def main() -> None:
    _set_up()
    import msgspec

    from tests.engine.architectures import ARCHITECTURES
    from tests.engine.model_rank import Sizes
    from tests.engine.probe_case import Case, run

    if "--json" in sys.argv:
        for case in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case]):
            print(msgspec.json.encode(run(case)).decode(), flush=True)
        return
    results = []
    for name, (_, _, experts) in ARCHITECTURES.items():
        for sizes in (Sizes(*each) for each in SIZES):
            if sizes.ep == 1 or experts:
                results.append(run(Case(name, sizes)))
                print(_row(results[-1]).strip(), flush=True)
    text = HEAD.format(sglang=version("sglang"), transformers=version("transformers"))
    OUT.write_text(text + "".join(map(_row, results)) + _sum(results))


def _set_up() -> None:
    """Before SGLang is imported, and then import it: every case is forked from here."""
    os.environ.update(
        OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", BRIDGE_PLUGINS_CPU="1", BRIDGE_READBACK="1",
        HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false",
    )  # fmt: skip
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import bridge_plugins.engines.sglang.serve  # noqa: F401 (the stand-ins go first)

    logging.disable(logging.NOTSET)
    import sglang.srt.managers.scheduler  # noqa: F401
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def _row(result: Result) -> str:
    if result.failure:
        return f"| {result.architecture} | {result.sizes} | | | | can't be built: {result.failure} |\n"
    share = 100 * result.compared / max(result.served, 1)
    tensors = f"{result.equal} of {result.tensors}"
    mismatched = f"MISMATCHED: {', '.join(result.mismatched)}; " if result.mismatched else ""
    return (
        f"| {result.architecture} | {result.sizes} | {tensors} | {share:.1f} % | {result.asked[-1]} "
        f"| {mismatched}{_reasons(result)} |\n"
    )


def _reasons(result: Result) -> str:
    """Reasons with how many tensors they are of, and one of those."""
    counted = Counter(re.sub(r"\d+ of \d+ elements", "elements", why) for why in result.not_compared.values())
    one = {re.sub(r"\d+ of \d+ elements", "elements", why): name for name, why in result.not_compared.items()}
    return "; ".join(f"{count} tensors, `{one[why]}` say: {why}" for why, count in counted.items())


def _sum(results: list[Result]) -> str:
    whole = sum(not (result.failure or result.not_compared or result.mismatched) for result in results)
    failed = sum(bool(result.failure) for result in results)
    return f"\n{whole} of {len(results)} are compared whole; {failed} could not be built.\n"


if __name__ == "__main__":
    main()
