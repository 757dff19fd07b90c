"""The wire stage of NeMo-RL: what it packs for engines on the same GPUs (over ZMQ) and for the broadcast."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.audit import wanted
from bridge_plugins.patching import Patch


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    if not wanted():
        return []
    from bridge_plugins.audit import transports

    ipc = "nemo_rl.models.policy.utils:stream_weights_via_ipc_zmq_impl"
    broadcast = "nemo_rl.utils.packed_tensor:packed_broadcast_producer"
    return [
        transports.stream("audit_nemo_rl_ipc", ipc, "params_generator"),
        transports.stream("audit_nemo_rl_broadcast", broadcast, "iterator", maker="post_iter_func"),
    ]
