"""What SGLang loads through its entry-point group ``sglang.srt.plugins`` in each of its processes.

Costs nothing unless ``BRIDGE_READBACK=1``, or there is no GPU: then it mends what SGLang can't do on a CPU alone.
"""

from __future__ import annotations

import os


def register() -> None:
    """Called once by each SGLang process, before the model is built."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from bridge_plugins.patches.cpu import wanted

    if wanted():
        from bridge_plugins.engines.sglang.moe_on_cpu import forward_of_local_experts

        HookRegistry.register(
            "sglang.srt.layers.moe.fused_moe_native.moe_forward_native",
            forward_of_local_experts,
            HookType.AROUND,
        )
        # Its draft models and its checksum wait for a GPU without asking whether there is one.
        HookRegistry.register("torch.cuda.synchronize", lambda *_: None, HookType.REPLACE)
    if os.environ.get("BRIDGE_READBACK", "0") not in ("", "0"):
        from bridge_plugins.engines.sglang import inside

        HookRegistry.register(
            "sglang.srt.model_executor.model_runner.ModelRunner.load_model",
            inside.probe_after_load,
            HookType.AFTER,
        )
        HookRegistry.register(
            "sglang.srt.utils.weight_checker.WeightChecker.handle", inside.answer, HookType.AROUND
        )
