"""SGLang's torch MoE on a CPU with expert parallelism: tokens whose expert lives on another rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def forward_of_local_experts(original: Any, layer: Any, x: Tensor, topk_output: Any, config: Any) -> Tensor:
    """Around ``moe_forward_native``, which reads ``topk_ids == -1`` ("not here") as an index.

    Computes this rank's share for gated SiLU experts; ranks are summed by SGLang afterwards, as on a GPU.
    """
    weights, ids, _ = topk_output
    if not bool((ids < 0).any()):
        return original(layer, x, topk_output, config)  # type: ignore[no-any-return]
    if config.activation != "silu" or config.apply_router_weight_on_input:
        raise NotImplementedError(
            f"expert parallelism on a CPU with activation {config.activation!r}: run it with EP=1"
        )
    out = torch.zeros(x.shape, dtype=weights.dtype, device=x.device)
    for expert in range(layer.w13_weight.shape[0]):
        token, slot = (ids == expert).nonzero(as_tuple=True)
        if token.numel():
            gate, up = F.linear(x[token], layer.w13_weight[expert]).chunk(2, dim=-1)
            y = F.linear(F.silu(gate) * up, layer.w2_weight[expert])
            out.index_add_(0, token, y.to(weights.dtype) * weights[token, slot].unsqueeze(-1))
    return out.to(x.dtype)
