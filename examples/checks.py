"""What an example checks before it plans anything: sizes, model, contract; everything that is wrong is said at once."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.launch.flags import Settings, settings
from bridge_plugins.launch.profiles import Profile
from bridge_plugins.topology import ModelSizes, Topology


def checked(topology: Topology, profile: Profile, contract: str, colocated: bool) -> Settings:
    """What follows from the sizes. Raises `UsageError` with everything that they break."""
    broken = []
    try:
        follows = settings(topology, profile, contract)
    except UsageError as error:
        broken.append(str(error))
    engines = topology.engines * topology.engine_gpus
    if colocated and engines != topology.world:
        numbers = f"ENGINES={topology.engines} of {topology.engine_gpus} GPUs, WORLD={topology.world}"
        broken.append(f"  engines on the trainer's GPUs share out all of them: {numbers}")
    if broken:
        raise UsageError("\n".join(broken))
    return follows


def profile_of(model: Path) -> Profile:
    """What the config of an HF folder says. Raises `UsageError` if it can't be read."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise UsageError(f"{model} has no config that can be read: {str(error).splitlines()[0]}") from error
    return Profile(str(model), config.model_type, config.vocab_size, ModelSizes.from_hf_config(config))


def usable(model: Path, dry_run: bool) -> Path:
    """The folder's absolute path. Raises `UsageError` if nothing could be run with it."""
    if not dry_run and not (model / "config.json").is_file():
        raise UsageError(f"{model} has no config.json: name a Hugging Face folder, or give --dry-run")
    return model.absolute()


def resized(topology: Topology, sizes: list[str]) -> Topology:
    """`topology` with other sizes. Raises `UsageError` for what is no size, or no number."""
    known = {field.name for field in fields(topology)} - {"sp", "stages"}
    changed: dict[str, Any] = {}
    for text in sizes:
        name, _, number = text.partition("=")
        if name not in known or not number.isdecimal():
            raise UsageError(f"--size {text}: expected one of {', '.join(sorted(known))}, = and a number")
        changed[name] = int(number)
    return replace(topology, **changed)
