"""DotProductAttention by torch's own scaled dot product, for batched and for packed sequences."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from transformer_engine.pytorch.module import TransformerEngineBaseModule


class DotProductAttention(TransformerEngineBaseModule):
    def __init__(
        self,
        num_attention_heads: int,  # noqa: ARG002
        kv_channels: Any,  # noqa: ARG002
        qkv_format: str = "sbhd",
        attn_mask_type: str = "causal",
        softmax_scale: float | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.qkv_format, self.attn_mask_type, self.softmax_scale = qkv_format, attn_mask_type, softmax_scale

    def set_context_parallel_group(self, *_: Any) -> None:
        pass

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        qkv_format: str | None = None,
        attn_mask_type: str | None = None,
        cu_seqlens_q: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor:
        mask_type = attn_mask_type or self.attn_mask_type
        if (qkv_format or self.qkv_format) == "thd":
            assert cu_seqlens_q is not None
            bounds = cu_seqlens_q.tolist()
            outputs = []
            for start, end in itertools.pairwise(bounds):
                q, k, v = (x[start:end].transpose(0, 1)[None] for x in (query, key, value))
                outputs.append(self._attend(q, k, v, None, mask_type)[0].transpose(0, 1))
            return torch.cat(outputs).flatten(1)
        q, k, v = (x.permute(1, 2, 0, 3) for x in (query, key, value))  # s b h d → b h s d
        return self._attend(q, k, v, attention_mask, mask_type).permute(2, 0, 1, 3).flatten(2)

    def _attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, mask_type: str
    ) -> torch.Tensor:
        repeats = q.shape[1] // k.shape[1]  # grouped-query attention
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        causal = "causal" in mask_type
        keep = None if mask is None or causal else ~mask
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep, is_causal=causal, scale=self.softmax_scale
        )
