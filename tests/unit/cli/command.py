"""The command line in this process, and small checkpoints on disk for it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor


class Done(NamedTuple):
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of a command that could not be done."""
        assert (self.code, self.out) == (2, ""), self
        [line] = self.err.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def audit(*arguments: object, columns: int = 200) -> Done:
    """Run ``bridge-audit`` with these arguments on a terminal of so many columns."""
    from bridge_plugins.cli.audit import main

    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["bridge-audit", *map(str, arguments)]),
        patch.dict("os.environ", {"COLUMNS": str(columns)}),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def weights(seed: int = 0, layers: int = 3, experts: int = 2) -> dict[str, Tensor]:
    """Random weights of a model with experts, in bfloat16, with a router in float32."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"model.embed_tokens.weight": (40, 16), "model.norm.weight": (16,)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        shapes |= {f"{at}self_attn.{p}_proj.weight": (16, 16) for p in "qkvo"}
        shapes |= {f"{at}mlp.gate.weight": (experts, 16)}
        for expert in range(experts):
            shapes |= {f"{at}mlp.experts.{expert}.{p}_proj.weight": (8, 16) for p in ("gate", "up")}
            shapes |= {f"{at}mlp.experts.{expert}.down_proj.weight": (16, 8)}
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: t if name.endswith("mlp.gate.weight") else t.bfloat16() for name, t in made.items()}


def save(folder: Path, tensors: Mapping[str, Tensor], files: int = 1) -> Path:
    """Write a checkpoint in `files` files, with an index if there are several."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(tensors)
    index = {}
    for number in range(files):
        file = "model.safetensors" if files == 1 else f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        mine = names[number::files]
        save_file({name: tensors[name].contiguous() for name in mine}, folder / file)
        index |= dict.fromkeys(mine, file)
    if files > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder
