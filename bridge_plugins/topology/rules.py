"""Every rule at once: Megatron's of a trainer, SGLang's of an engine, and those of a contract between them."""

from __future__ import annotations

from bridge_plugins.topology.contract import Contract
from bridge_plugins.topology.engine_rules import engine_violations
from bridge_plugins.topology.model_sizes import ModelSizes
from bridge_plugins.topology.sizes import Topology
from bridge_plugins.topology.trainer_rules import trainer_violations
from bridge_plugins.topology.violation import Violation


def broken_rules(
    topology: Topology, model: ModelSizes, contract: Contract | None = None, family: str = ""
) -> list[Violation]:
    """Every rule that `topology` breaks for `model`, all at once; empty if it can work.

    Of `contract` too, if one is given, for a model of `family`.
    """
    found = [*trainer_violations(topology, model), *engine_violations(topology, model)]
    return [*found, *contract.violations(topology, family)] if contract else found
