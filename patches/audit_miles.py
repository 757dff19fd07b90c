"""The wire stage of miles: updates to engines on the same GPUs (flattened buckets, see `audit_sglang`) and by broadcast."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.audit import wanted
from bridge_plugins.patching import Patch

UPDATE = "miles.backends.megatron_utils.update_weight"
DISTRIBUTED = f"{UPDATE}.update_weight_from_distributed"


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    if not wanted():
        return []
    from bridge_plugins.audit import transports

    tensor = f"{UPDATE}.update_weight_from_tensor:UpdateWeightFromTensor.update_weights"
    mixin = f"{DISTRIBUTED}.mixin:DistBucketedWeightUpdateMixin.update_weights"
    broadcast = f"{DISTRIBUTED}.broadcast:update_weights_from_distributed"
    return [
        transports.update("audit_miles_tensor", tensor, label="weight_version"),
        transports.update("audit_miles_distributed", mixin, label="weight_version"),
        transports.call("audit_miles_broadcast", broadcast, "converted_named_tensors"),
    ]
