"""What a contract between trainer and engine asks of a topology beyond what runs at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bridge_plugins.topology.sizes import Topology
from bridge_plugins.topology.violation import Violation, nearest


@dataclass(frozen=True)
class Contract:
    """The rules of a contract; see `launch.contracts` for the contracts there are.

    Attributes:
        family: the models that it is for.
        ep_fits_in_dp: whether the experts' ranks must lie inside a data-parallel group (EP divides DP).
        same_expert_tp: whether an engine must cut its experts as the trainer does: its GPUs over EP · MoE-DP equal ETP.
    """

    name: str
    family: str
    ep_fits_in_dp: bool = False
    same_expert_tp: bool = False

    def violations(self, topology: Topology, family: str) -> Iterator[Violation]:
        """What `topology`, for a model of `family`, breaks of this contract alone."""
        if family != self.family:
            numbers = f"the model's family={family or 'unknown'}, the contract's={self.family}"
            yield Violation(
                f"{self.name} is for one family of models", numbers, "a contract for this family, or none"
            )
        if self.ep_fits_in_dp and topology.dp % topology.ep:
            dp = topology.dp
            stage = topology.tp * topology.cp * topology.pp
            works = nearest("EP", topology.ep, lambda n: dp % n == 0, most=dp)
            yield Violation(
                f"{self.name}: EP fits in DP (EP divides DP)",
                f"EP={topology.ep}, DP={dp} (WORLD={topology.world} over TP·CP·PP={stage})",
                f"{works} or WORLD={stage * topology.ep}",
            )
        if self.same_expert_tp and topology.engine_expert_tp != topology.etp:
            wanted = topology.engine_ep * topology.engine_moe_dp * topology.etp
            yield Violation(
                f"{self.name}: an engine cuts its experts as the trainer does (ENGINE_TP over ENGINE_EP·MoE-DP equals ETP)",
                f"ENGINE_TP={topology.engine_tp}, ENGINE_EP={topology.engine_ep}, MoE-DP={topology.engine_moe_dp}, "
                f"ETP={topology.etp}",
                f"ENGINE_TP={wanted}",
            )
