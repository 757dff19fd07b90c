"""The wire stage of slime: updates to engines on the same GPUs (flattened buckets, see `audit_sglang`) and by broadcast."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.audit import wanted
from bridge_plugins.patching import Patch

UPDATE = "slime.backends.megatron_utils.update_weight"
DISTRIBUTED = f"{UPDATE}.update_weight_from_distributed"


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    if not wanted():
        return []
    from bridge_plugins.audit import transports

    tensors = "converted_named_tensors"
    tensor = f"{UPDATE}.update_weight_from_tensor:UpdateWeightFromTensor.update_weights"
    return [
        transports.update("audit_slime_tensor", tensor, label="weight_version"),
        transports.update(
            "audit_slime_distributed",
            f"{DISTRIBUTED}:UpdateWeightFromDistributed.update_weights",
            label="weight_version",
        ),
        # Newer versions launch the broadcast apart from waiting for it; the older name then only calls the newer.
        transports.call("audit_slime_broadcast", f"{DISTRIBUTED}:update_weights_from_distributed", tensors),
        transports.call("audit_slime_launch", f"{DISTRIBUTED}:launch_weights_from_distributed", tensors),
    ]
