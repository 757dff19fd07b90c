"""What the forked ranks run for the wire stage: frameworks' updates, on one rank, from real exports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bridge_plugins.topology import Topology
from tests.audit.cases import switch_on

CHUNK = 20  # tensors in one bucket

Chunks = Callable[[], Iterator[list[tuple[str, Any]]]]


def sent_by(framework: str, checkpoint: str, folder: str, fault: str = "") -> dict[str, str]:
    """Two updates through a framework's own names, and the states of its patches."""
    from bridge_plugins.patches import audit_miles, audit_nemo_rl, audit_slime
    from bridge_plugins.patches.cpu.standins import StandInFinder
    from bridge_plugins.plugins import load, manager
    from tests.stacks.trainer import build

    StandInFinder("sgl_kernel").__enter__()
    sys.path.insert(0, str(Path(__file__).with_name("recordings")))
    switch_on(folder)
    for name, module in (("miles", audit_miles), ("slime", audit_slime), ("nemo_rl", audit_nemo_rl)):
        if not manager().is_registered(module):
            manager().register(module, f"audit_{name}")
    patcher = load()
    trainer = build(checkpoint, Topology())

    def chunks() -> Iterator[list[tuple[str, Any]]]:
        chunk: list[tuple[str, Any]] = []
        for name, tensor in trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False):
            chunk.extend(changed(fault, name, tensor))
            if len(chunk) >= CHUNK:
                yield chunk
                chunk = []
        yield chunk

    {"slime": slime, "slime_broadcast": slime_broadcast, "miles": miles, "miles_broadcast": miles_broadcast,
     "nemo_rl": nemo_rl, "nemo_rl_broadcast": nemo_rl_broadcast}[framework](chunks)  # fmt: skip
    return {name: s.state.value for name, s in patcher.status.items() if name.startswith("audit_")}


def changed(fault: str, name: str, tensor: Any) -> Iterator[tuple[str, Any]]:
    """What a framework hands on of an item of the bridge."""
    hit = "layers.1.mlp.down_proj" in name
    if fault == "overwritten" and hit:
        tensor = tensor.flip(0)  # somebody else's memory by now
    if fault == "strided" and hit:
        tensor = tensor.t().contiguous().t()
    if not (fault == "dropped" and hit):
        yield name, tensor


def slime(chunks: Chunks) -> None:
    from slime.backends.megatron_utils.update_weight.update_weight_from_tensor import (  # type: ignore[import-not-found]
        UpdateWeightFromTensor,
    )

    updater = UpdateWeightFromTensor(chunks)
    updater.update_weights()
    updater.update_weights()


def slime_broadcast(chunks: Chunks) -> None:
    from slime.backends.megatron_utils.update_weight.update_weight_from_distributed import (  # type: ignore[import-not-found]
        UpdateWeightFromDistributed,
    )

    updater = UpdateWeightFromDistributed(chunks)
    updater.update_weights()
    updater.update_weights()


def miles(chunks: Chunks) -> None:
    from miles.backends.megatron_utils.update_weight.update_weight_from_tensor import (  # type: ignore[import-not-found]
        UpdateWeightFromTensor,
    )

    updater = UpdateWeightFromTensor(chunks)
    updater.update_weights()
    updater.update_weights()


def miles_broadcast(chunks: Chunks) -> None:
    from miles.backends.megatron_utils.update_weight.update_weight_from_distributed import (  # type: ignore[import-not-found]
        broadcast,
        mixin,
    )

    class UpdateWeightFromDistributed(mixin.DistBucketedWeightUpdateMixin):  # type: ignore[misc]
        weight_version = 0

        def _update_weight_implementation(self, converted_named_tensors: Any) -> None:
            broadcast.update_weights_from_distributed("miles", None, 1, [], converted_named_tensors)

    updater = UpdateWeightFromDistributed()
    updater.chunks = chunks
    updater.update_weights()
    updater.update_weights()


def nemo_rl(chunks: Chunks) -> None:
    from nemo_rl.models.policy.utils import (  # type: ignore[import-not-found]
        stream_weights_via_ipc_zmq_impl,
    )

    for _ in range(2):
        stream_weights_via_ipc_zmq_impl(
            params_generator=(item for chunk in chunks() for item in chunk),
            buffer_size_bytes=1 << 20, zmq_socket=None, rank=0, worker_name="worker",
        )  # fmt: skip


def nemo_rl_broadcast(chunks: Chunks) -> None:
    from nemo_rl.utils.packed_tensor import packed_broadcast_producer  # type: ignore[import-not-found]

    for _ in range(2):
        items = (item for chunk in chunks() for item in chunk)
        packed_broadcast_producer(iterator=items, group=None, src=0, post_iter_func=lambda item: item[1])
