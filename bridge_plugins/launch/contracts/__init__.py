"""Contracts between trainer and engine: the rules, the flags and the environment under which both compute the same.

One TOML file each, in this folder.
"""

from __future__ import annotations

import msgspec

from bridge_plugins.launch import data
from bridge_plugins.topology import Contract


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The flags of one side: Megatron's or SGLang's own."""

    flags: tuple[str, ...] = ()


class ContractFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A contract as its file has it; see `topology.Contract` for the rules.

    `max_logprob_diff` is how far tokens' logprobs of the two sides may be apart in the mean, in nats: 0.0 allows no token
    any difference.
    """

    family: str
    ep_fits_in_dp: bool
    same_expert_tp: bool
    max_logprob_diff: float
    trainer: Side = Side()
    engine: Side = Side()
    environment: dict[str, str] = {}

    def rules(self, name: str) -> Contract:
        """What a topology must keep."""
        return Contract(name, self.family, self.ep_fits_in_dp, self.same_expert_tp)


def contract_names() -> list[str]:
    """The contracts that come with this package."""
    return data.names(__name__)


def read_contract(name: str) -> ContractFile:
    """A contract by its name, or of a user's own ``.toml`` file. Raises `UsageError` for one that can't be read."""
    return data.read(__name__, name, ContractFile)
