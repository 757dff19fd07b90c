"""Run every command of `PAGES`, and put its real output there: python scripts/command_line.py"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (DOCS / "command_line.md", DOCS / "troubleshooting.md")
_BLOCK = re.compile(r"```text\n((?:\$ .*\n)(?:.*\n)*?)```")


def weights() -> dict[str, Tensor]:
    """A small model with experts, the same on every machine."""
    shapes = {"model.embed_tokens.weight": (512, 64), "model.norm.weight": (64,), "lm_head.weight": (512, 64)}
    for layer in range(4):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}self_attn.q_proj.weight": (128, 64), f"{at}self_attn.k_proj.weight": (64, 64)}
        shapes |= {f"{at}self_attn.v_proj.weight": (64, 64), f"{at}self_attn.o_proj.weight": (64, 128)}
        shapes |= {f"{at}input_layernorm.weight": (64,), f"{at}mlp.gate.weight": (8, 64)}
        for expert in range(8):
            shapes |= {f"{at}mlp.experts.{expert}.{p}_proj.weight": (32, 64) for p in ("gate", "up")}
            shapes |= {f"{at}mlp.experts.{expert}.down_proj.weight": (64, 32)}
    made, first = {}, 1
    for name, shape in shapes.items():
        count = torch.Size(shape).numel()
        numbers = torch.arange(first, first + count, dtype=torch.int64) * 2654435761 % 65521
        made[name] = ((numbers.double() / 65521 - 0.5) / 8).reshape(shape).bfloat16()
        first += count
    return made


def lay_out(folder: Path) -> None:
    """What the pages' commands speak of."""
    right = weights()
    wrong = dict(right)
    for layer in range(4):
        for one, other in ((0, 4), (1, 5), (2, 6), (3, 7)):
            for p in ("gate", "up", "down"):
                names = [
                    f"model.layers.{layer}.mlp.experts.{expert}.{p}_proj.weight" for expert in (one, other)
                ]
                wrong[names[0]], wrong[names[1]] = right[names[1]], right[names[0]]
    glued = dict(right)
    for name, tensor in right.items():
        if "o_proj" in name:
            glued[name] = torch.cat(list(reversed(tensor.chunk(2, 1))), 1)
        if "layers.2.mlp.experts" in name and "gate_proj" in name:
            glued[name] = right[name.replace("gate_proj", "up_proj")]
            glued[name.replace("gate_proj", "up_proj")] = right[name]
    glued["lm_head.weight"] = torch.cat([right["lm_head.weight"], torch.zeros(32, 64).bfloat16()])
    hit = "model.layers.2.mlp.experts.5.up_proj.weight"
    sick = {**right, hit: right[hit].clone()}
    sick[hit][3, 7] = torch.nan
    short = {name: tensor for name, tensor in right.items() if ".layers.3." not in name}
    folders = {"model": right, "exported": wrong, "glued": glued, "sick": sick, "short": short}
    for name, tensors in folders.items():
        (folder / name).mkdir()
        save_file(
            {key: tensor.contiguous() for key, tensor in tensors.items()}, folder / name / "model.safetensors"
        )
    (folder / "cut").mkdir()
    (folder / "cut" / "model.safetensors").write_bytes(
        (folder / "model" / "model.safetensors").read_bytes()[:100_000]
    )
    run("bridge-audit summary model -o version3.json")
    summary = msgspec.json.decode(Path("version3.json").read_bytes())
    for version in ("3", "4"):
        summary["header"]["version"] = version
        Path(f"version{version}.json").write_bytes(msgspec.json.encode(summary))


def run(command: str) -> tuple[str, int]:
    """A command's output, stderr included, and its exit status."""
    from bridge_plugins.cli.audit import main

    out, code = io.StringIO(), 0
    with (
        patch.object(sys, "argv", shlex.split(command)),
        patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines).strip("\n"), code


@contextlib.contextmanager
def example() -> Iterator[None]:
    """In a folder with what the pages' commands speak of."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            lay_out(Path())
            yield
        finally:
            os.chdir(before)


def rendered(page: str) -> str:
    """The page with each command's output as it is now."""

    def block(match: re.Match[str]) -> str:
        shown = []
        for command in re.findall(r"^\$ (bridge-audit .*)$", match[1], re.MULTILINE):
            output, code = run(command)
            shown += [f"$ {command}", output, f"(exit {code})"]
        return "```text\n" + "\n".join(shown) + "\n```"

    with example():
        return _BLOCK.sub(block, page)


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(rendered(each.read_text()))
