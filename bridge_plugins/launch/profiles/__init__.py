"""Model profiles: what a topology and the flags need to know of a model. One TOML file each, in this folder."""

from __future__ import annotations

import msgspec

from bridge_plugins.launch import data
from bridge_plugins.topology import ModelSizes


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model.

    Attributes:
        model: its name on the Hugging Face hub.
        family: as ``model_type`` in its HF config.
        vocabulary: rows of its embedding.
        contract: the contract that it can be run under, if there is one (`launch.contracts`).
    """

    model: str
    family: str
    vocabulary: int
    sizes: ModelSizes
    contract: str = ""


def profile_names() -> list[str]:
    """The profiles that come with this package."""
    return data.names(__name__)


def read_profile(name: str) -> Profile:
    """A profile by its name, in any case, with or without the hub's organisation; or of a user's own ``.toml`` file.

    Raises `UsageError` for one that isn't there or can't be read.
    """
    return data.read(__name__, name if name.endswith(".toml") else name.rpartition("/")[2].lower(), Profile)
