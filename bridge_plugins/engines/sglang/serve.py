"""Starts the real SGLang server: ``python -m bridge_plugins.engines.sglang.serve --model-path DIR --port N …``.

Takes SGLang's own arguments. Beyond ``python -m sglang.launch_server`` it does two things where there is no GPU: it
offers a stand-in for the package ``sgl_kernel``, and sets what SGLang needs to run on a CPU.
"""

from __future__ import annotations

import os
import sys

from bridge_plugins.patches.cpu import standins, wanted

# At module level on purpose: SGLang starts its workers by "spawn", and a spawned Python imports the main module
# again (as `__mp_main__`) before anything of SGLang. So the stand-in is offered in every one of its processes.
if wanted():
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    # torch's CUDA build brings NCCL along: SGLang would find it and want a GPU for it.
    os.environ.setdefault("SGLANG_NCCL_SO_PATH", "no NCCL on a CPU")
    standins.StandInFinder("sgl_kernel").__enter__()

CPU_ARGUMENTS = (
    "--device", "cpu", "--attention-backend", "torch_native", "--disable-cuda-graph", "--disable-overlap-schedule",
    "--mem-fraction-static", "0.3", "--sleep-on-idle",  # an idle scheduler would keep a whole core busy
)  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run the server until it is told to stop."""
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    try:
        run_server(prepare_server_args([*(CPU_ARGUMENTS if wanted() else ()), *arguments]))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main(sys.argv[1:])
