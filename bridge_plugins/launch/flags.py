"""Flags and environment that follow from a topology, a model and a contract."""

from __future__ import annotations

from dataclasses import dataclass

from bridge_plugins.errors import UsageError
from bridge_plugins.launch.contracts import read_contract
from bridge_plugins.launch.profiles import Profile
from bridge_plugins.topology import Topology, broken_rules
from bridge_plugins.topology.options import megatron, sglang

#: How far tokens' logprobs of trainer and engine may be apart in the mean, in nats, in bfloat16 without a contract.
MAX_LOGPROB_DIFF = 0.03


@dataclass(frozen=True)
class Settings:
    """What a run is to be started with.

    Attributes:
        trainer: Megatron's flags.
        engine: SGLang's flags, of each engine.
        environment: variables of both.
        max_logprob_diff: what a parity probe may find in the mean, in nats.
    """

    trainer: tuple[str, ...]
    engine: tuple[str, ...]
    environment: dict[str, str]
    max_logprob_diff: float


def settings(topology: Topology, profile: Profile, contract: str = "") -> Settings:
    """Check the sizes, and derive what follows from them.

    Args:
        contract: the name of a contract, or the path of one; empty for none.

    Raises:
        UsageError: with every violation, if the topology breaks a rule.
    """
    terms = read_contract(contract) if contract else None
    rules = terms.rules(contract) if terms else None
    if violations := broken_rules(topology, profile.sizes, rules, profile.family):
        listed = "\n".join(f"  {violation}" for violation in violations)
        raise UsageError(f"{profile.model} can't be run with {topology}:\n{listed}")
    trainer, engine = tuple(follows(topology)), tuple(sglang.to_options(topology))
    environment = environment_of(topology)
    if terms is None:
        return Settings(trainer, engine, environment, MAX_LOGPROB_DIFF)
    return Settings(
        (*trainer, *terms.trainer.flags),
        (*engine, *terms.engine.flags),
        {**environment, **terms.environment},
        terms.max_logprob_diff,
    )


def follows(topology: Topology) -> list[str]:
    """Megatron's flags: the sizes, and what they bring with them."""
    flags = megatron.to_options(topology)
    if topology.tp > 1 and topology.ep > 1:
        # The vocabulary is padded to a multiple of TP and no further: the engine has no padding to match more.
        flags += ["--make-vocab-size-divisible-by", "1"]
        if topology.sp:
            flags.append("--no-gradient-accumulation-fusion")
    return flags


def environment_of(topology: Topology) -> dict[str, str]:
    """What Megatron asks of the environment: one queue of kernels, so that TP's and CP's communication keeps its order."""
    return {"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if topology.tp > 1 or topology.cp > 1 else {}
