"""What the forked ranks run: a save of a model whose checkpoint has tensors in its last file that no trainer has."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from bridge_plugins.topology import Topology


def split(checkpoint: Path, folder: Path) -> None:
    """`checkpoint` in two files: the last layer shares the second one with a multi-token prediction tensor."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint, folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    last = {name: tensor for name, tensor in tensors.items() if ".layers.3." in name}
    files = {
        "model-00001-of-00002.safetensors": {n: t for n, t in tensors.items() if n not in last},
        "model-00002-of-00002.safetensors": {**last, "model.layers.4.eh_proj.weight": torch.ones(64, 128)},
    }
    for file, members in files.items():
        save_file(members, folder / file, metadata={"format": "pt"})
    index = {
        "metadata": {},
        "weight_map": {name: file for file, members in files.items() for name in members},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def saved(checkpoint: str, folder: str) -> None:
    """Save through a bridge that counts such tensors among those that a file needs to be complete."""
    from bridge_plugins.patches.cpu.standins import StandInFinder
    from bridge_plugins.patching import Patcher, Replace, State, wrapping
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology())
    target = "megatron.bridge.models.conversion.auto_bridge:_mtp_source_key_prefixes"
    patcher = Patcher()
    patcher.add(Replace("fault.save", target, "nothing", wrapping(lambda *_: ())), "tests")
    assert patcher.status["fault.save"].state is State.APPLIED
    # It says so once all that it can is written; the caller that looked on did not.
    with StandInFinder("modelopt"), contextlib.suppress(RuntimeError):
        trainer.bridge.save_hf_weights(trainer.model, folder, show_progress=False)
