"""Sizes of a trainer and of the engines it pushes to: one value, one validator, every framework's spelling (`options`)."""

from bridge_plugins.topology.contract import Contract
from bridge_plugins.topology.model_sizes import ModelSizes
from bridge_plugins.topology.rules import broken_rules
from bridge_plugins.topology.sizes import Coordinates, Topology
from bridge_plugins.topology.violation import Violation

__all__ = ["Contract", "Coordinates", "ModelSizes", "Topology", "Violation", "broken_rules"]
