"""GroupedLinear: the experts of one rank, ``weight0`` … ``weightN``, each for its own run of tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from transformer_engine.pytorch.module import Init, ParallelWeights


class GroupedLinear(ParallelWeights):
    def __init__(
        self,
        num_gemms: int,
        in_features: int,
        out_features: int,
        tp_size: int = 1,
        init_method: Init | None = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        device: Any = "cpu",
        **_: Any,
    ) -> None:
        super().__init__(in_features, out_features, parallel_mode, tp_size, params_dtype, init_method, device)
        self.num_gemms, self.use_bias, self.return_bias = num_gemms, bias, return_bias
        self.apply_bias = bias and not return_bias
        for number in range(num_gemms):
            self.make_weight(f"weight{number}")
            if bias:
                self.make_bias(f"bias{number}")

    def forward(self, x: torch.Tensor, m_splits: Any, is_first_microbatch: Any = None, **_: Any) -> Any:  # noqa: ARG002
        splits = m_splits.tolist() if torch.is_tensor(m_splits) else list(m_splits)
        biases = [getattr(self, f"bias{number}") for number in range(self.num_gemms)] if self.use_bias else []
        parts = []
        for number, tokens in enumerate(torch.split(x, splits)):
            y = F.linear(tokens, getattr(self, f"weight{number}"))
            parts.append(y + biases[number] if self.apply_bias else y)
        out = torch.cat(parts)
        return (out, biases) if self.return_bias else out
