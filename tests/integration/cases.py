"""What the forked ranks run: functions of text and numbers, named by the tests."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from bridge_plugins.topology import Topology


def make_checkpoint(kind: str, folder: str) -> None:
    from examples.bridge_mode.checkpoint import make_checkpoint

    make_checkpoint(kind, Path(folder))


def bridge_run(
    checkpoint: str, url: str, folder: str, topology: dict[str, Any], fault: str = "", steps: int = 1
) -> dict[str, Any]:
    """The demo's trainer on this rank: its outcome and what it printed."""
    from examples.bridge_mode.messages import Settings
    from examples.bridge_mode.trainer import run

    sizes = dataclasses.asdict(Topology(**topology))
    settings = Settings(
        checkpoint=checkpoint, url=url, folder=folder, topology=sizes, steps=steps,
        learning_rate=1e-3, bucket_bytes=300_000, fault=fault,
    )  # fmt: skip
    said = io.StringIO()
    outcome = run(settings, Console(file=said, width=100))
    return {
        "verdict": outcome.verdict,
        "exit_status": outcome.exit_status,
        "findings": outcome.findings,
        "said": said.getvalue(),
    }


def push_to_nobody(broken: bool = False) -> str:
    """Rank 0 has an engine that isn't there; what each rank is told."""
    import torch
    import torch.distributed as dist

    from bridge_plugins.engines.sglang.client import Engine
    from bridge_plugins.engines.sglang.push import push
    from bridge_plugins.errors import PushError

    class Broken(Engine):
        ranks = stages = 1

        def begin_weight_update(self) -> bool:
            raise ValueError("no such thing")

    engines = [(Broken if broken else Engine)("http://127.0.0.1:9")] if dist.get_rank() == 0 else []
    drained = 0

    def stream() -> Any:
        nonlocal drained
        for number in range(3):
            # Every rank must come here, or this collective hangs.
            dist.all_reduce(torch.ones(1))
            drained += 1
            yield f"t{number}", torch.ones(2)

    try:
        push(stream(), engines)
    except PushError as error:
        assert drained == 3
        return str(error)
    raise AssertionError("the push did not fail")


def bucket_read_by_sglang() -> None:
    """A bucket of ours, read by SGLang's own reader, tensor by tensor."""
    import torch

    from bridge_plugins.engines.sglang import wire
    from bridge_plugins.patches.cpu.standins import StandInFinder

    StandInFinder("sgl_kernel").__enter__()
    from sglang.srt.utils import MultiprocessingSerializer
    from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket, FlattenedTensorMetadata

    before = torch.multiprocessing.get_sharing_strategy()
    tensors = {
        "a": torch.randn(3, 5).to(torch.bfloat16),
        "b": torch.randn(7),
        "c": torch.arange(3, dtype=torch.uint8),
        "d": torch.randn(2, 3, 4, dtype=torch.float64).transpose(0, 2),
        "e": torch.zeros(0, 4),
    }
    read = MultiprocessingSerializer.deserialize(wire.Bucket(list(tensors.items())).payload())
    assert all(isinstance(meta, FlattenedTensorMetadata) for meta in read["metadata"])
    bucket = FlattenedTensorBucket(flattened_tensor=read["flattened_tensor"], metadata=read["metadata"])
    came = dict(bucket.reconstruct_tensors())
    assert came.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert came[name].dtype is tensor.dtype
        assert torch.equal(came[name], tensor), name
    assert torch.multiprocessing.get_sharing_strategy() == before
    ours, theirs = (
        set(c.__dataclass_fields__) for c in (wire.FlattenedTensorMetadata, FlattenedTensorMetadata)
    )
    assert ours == theirs


def megatron_coordinates(sizes: dict[str, Any]) -> tuple[int, ...]:
    """This rank's coordinates as Megatron's parallel state has them."""
    from megatron.core import parallel_state as ps

    topology = Topology(**sizes)
    ps.initialize_model_parallel(
        tensor_model_parallel_size=topology.tp,
        pipeline_model_parallel_size=topology.pp,
        context_parallel_size=topology.cp,
        expert_model_parallel_size=topology.ep,
        expert_tensor_parallel_size=topology.etp,
    )
    return (
        ps.get_tensor_model_parallel_rank(),
        ps.get_context_parallel_rank(),
        ps.get_data_parallel_rank(),
        ps.get_pipeline_model_parallel_rank(),
        ps.get_expert_tensor_parallel_rank(),
        ps.get_expert_model_parallel_rank(),
        ps.get_expert_data_parallel_rank(),
    )
