"""One rank of SGLang's engine without its server: the real ModelRunner, with the plugin that SGLang itself loads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """How an engine is cut."""

    tp: int = 1
    ep: int = 1
    pp: int = 1

    @property
    def world(self) -> int:
        return self.tp * self.pp

    def __str__(self) -> str:
        return f"TP{self.tp} EP{self.ep}" + (f" PP{self.pp}" if self.pp > 1 else "")


def model_runner(folder: Path, sizes: Sizes, rank: int, port: int, more: Sequence[str] = ()) -> Any:
    """A ``ModelRunner`` as a scheduler of a CPU server makes it: weights loaded, layout found out, nothing served.

    `more` are further arguments of the server.
    """
    # SGLang wants to know which cores each of its ranks may use.
    cores = [str(other % (os.cpu_count() or 1)) for other in range(sizes.world)]
    os.environ["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(cores)
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.distributed import bootstrap
    from sglang.srt.managers.scheduler import SpawnRanks, spawn_world_rank
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.plugins import load_plugins
    from sglang.srt.runtime_context import publish
    from sglang.srt.server_args import prepare_server_args

    from bridge_plugins.engines.sglang.serve import CPU_ARGUMENTS

    load_plugins()
    arguments = prepare_server_args(
        [
            *CPU_ARGUMENTS, "--model-path", str(folder), "--skip-tokenizer-init", "--max-total-tokens", "4096",
            "--tp-size", str(sizes.tp), "--ep-size", str(sizes.ep), "--pp-size", str(sizes.pp), *more,
        ]
    )  # fmt: skip
    place = spawn_world_rank(arguments, tp_rank=rank % sizes.tp, pp_rank=rank // sizes.tp)
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=place, dp_rank=None, gpu_id=rank))
    config = ModelConfig.from_server_args(arguments)
    bootstrap.init_parallel_runtime(server_args=arguments, device="cpu", dist_port=port)
    bootstrap.init_layer_runtime(model_config=config)
    return ModelRunner(
        model_config=config, mem_fraction_static=0.3, gpu_id=rank, nccl_port=port, server_args=arguments
    )
