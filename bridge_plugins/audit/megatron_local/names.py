"""The stage megatron_local without a layout: which rank claims which name of the whole model, with which bits.

Tells two ranks that call different weights by one name (every stage of a pipeline has a layer 0, every expert-parallel rank
an expert 0) from ranks that hold copies. Says nothing of where in an HF tensor a shard belongs: that takes a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridge_plugins.audit.exchange import merge_ranks
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.megatron_local.claims import Claim, Claims, ClaimsMerge
from bridge_plugins.audit.megatron_local.file import local_header, path_of
from bridge_plugins.fingerprint import FingerprintTable, Part
from bridge_plugins.names import wrappers
from bridge_plugins.names.groups import place
from bridge_plugins.names.param_name import ParamName
from bridge_plugins.whole_file import write_json

STAGE = "megatron_local_names"


class NameAudit:
    """Fingerprints a rank's parameters under their global names. Needs no layout and no checkpoint.

    Args:
        chunks: this rank's model, one chunk per virtual stage.
        model, topology: for the header.
    """

    def __init__(self, chunks: Sequence[Any], *, model: str = "", topology: str = "") -> None:
        self._chunks = list(chunks)
        self._model, self._topology = model, topology
        self._table: FingerprintTable | None = None

    def take(self, version: str) -> Claims:
        """What this rank claims now. No collective; one wait for the device."""
        held = [
            (chunk, name, tensor)
            for chunk, model in enumerate(self._chunks)
            for name, tensor in model.named_parameters()
        ]
        tensors = [tensor for _, _, tensor in held]
        if self._table is None:
            self._table = FingerprintTable([Part(tensor) for tensor in tensors], statistics=False)
        lanes = self._table.run(tensors).measured().lanes.tolist()
        claims = tuple(
            self._claim(chunk, name, (low, high))
            for (chunk, name, _), (low, high) in zip(held, lanes, strict=True)
        )
        layers = self._chunks[0].config.num_layers
        header = local_header(STAGE, version, model=self._model, topology=self._topology)
        return Claims(header, claims, layers)

    def write(self, folder: Path, version: str) -> Path:
        """Leave what this rank claims in a file of `folder`, for `merge_claims`. No collective."""
        claims = self.take(version)
        path = path_of(folder, claims.header)
        write_json(claims, path)
        return path

    def finish(self, version: str, group: Any = None) -> list[Finding]:
        """What the ranks' claims contradict. Every rank of `group` (a CPU group) must call it; each gets all findings.

        Raises `LayoutError` on every rank if one of them fails.
        """
        merge = ClaimsMerge()
        return merge_ranks(lambda: self.take(version), merge.add, merge.findings, lambda found: found, group)

    def _claim(self, chunk: int, local: str, lanes: tuple[int, int]) -> Claim:
        from megatron.bridge.models.conversion import model_bridge

        local = ".".join(ParamName.parse(local).parts)
        config = self._chunks[0].config
        # Looked up at each call, as the bridge does: whatever stands there now is what the export goes by.
        name = model_bridge._megatron_local_name_to_global(self._chunks, config, local, chunk)
        parsed = ParamName.parse(name)
        if "experts" not in parsed.parts:
            return Claim(name, self._place("tp", "get_tensor_model_parallel_group"), 0, chunk, local, lanes)
        ep = self._place("ep", "get_expert_model_parallel_group") if parsed.expert is None else 0
        return Claim(
            name, self._place("expt_tp", "get_expert_tensor_parallel_group"), ep, chunk, local, lanes
        )

    def _place(self, field: str, getter: str) -> int:
        from megatron.core import parallel_state

        group = getattr(wrappers.attribute(self._chunks[0], "pg_collection"), field, None)
        if group is None and parallel_state.model_parallel_is_initialized():
            group = getattr(parallel_state, getter)(check_initialized=False)
        return place(group).rank
