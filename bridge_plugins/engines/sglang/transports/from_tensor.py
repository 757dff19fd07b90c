"""From tensor: flattened buckets in shared memory or by CUDA IPC. For an engine on the trainer's own machine."""

from __future__ import annotations

from bridge_plugins.engines.sglang.buckets import NamedTensors
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.transports import WeightUpdate
from bridge_plugins.engines.sglang.wire import LOAD_FORMAT, Bucket


class FromTensor(WeightUpdate):
    """``/update_weights_from_tensor``."""

    def pack(self, bucket: NamedTensors) -> Bucket:
        return Bucket(bucket)

    def load(self, engine: Engine, packed: Bucket) -> None:
        engine.update_weights_from_tensor([packed.payload() for _ in range(engine.ranks)], LOAD_FORMAT)

    def close(self) -> None:
        """Nothing is kept from push to push."""
