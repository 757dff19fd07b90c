"""Linear and LayerNormLinear, column- or row-parallel, with or without sequence parallelism."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from transformer_engine.pytorch.module import Init, ParallelWeights
from transformer_engine.pytorch.norm import normalize


class Linear(ParallelWeights):
    bias: torch.Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        init_method: Init | None = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: torch.dtype | None = None,
        parallel_mode: str | None = None,
        device: Any = "cpu",
        **_: Any,
    ) -> None:
        tp_size = tp_size if tp_group is None else tp_group.size()
        super().__init__(in_features, out_features, parallel_mode, tp_size, params_dtype, init_method, device)
        self.tp_group, self.sequence_parallel = tp_group, sequence_parallel and self.tp_size > 1
        self.use_bias, self.return_bias, self.apply_bias = bias, return_bias, bias and not return_bias
        self.make_weight("weight")
        if bias:
            self.make_bias("bias", sequence_parallel)
        else:
            self.bias = None

    def before(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def forward(self, x: torch.Tensor, is_first_microbatch: Any = None, **_: Any) -> Any:  # noqa: ARG002
        y = self._reduce(F.linear(self._gather(self.before(x)), self.weight))
        if self.apply_bias and self.bias is not None:
            y = y + self.bias
        return (y, self.bias) if self.return_bias else y

    def _gather(self, x: torch.Tensor) -> torch.Tensor:
        if self.parallel_mode != "column" or self.tp_size == 1:
            return x
        from megatron.core.tensor_parallel import mappings

        if self.sequence_parallel:
            return mappings.gather_from_sequence_parallel_region(x, group=self.tp_group)
        return mappings.copy_to_tensor_model_parallel_region(x, group=self.tp_group)

    def _reduce(self, y: torch.Tensor) -> torch.Tensor:
        if self.parallel_mode != "row" or self.tp_size == 1:
            return y
        from megatron.core.tensor_parallel import mappings

        if self.sequence_parallel:
            return mappings.reduce_scatter_to_sequence_parallel_region(y, group=self.tp_group)
        return mappings.reduce_from_tensor_model_parallel_region(y, group=self.tp_group)


class LayerNormLinear(Linear):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        eps: float = 1e-5,
        normalization: str = "LayerNorm",
        zero_centered_gamma: bool = False,
        sequence_parallel: bool = False,
        return_layernorm_output: bool = False,  # noqa: ARG002
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features, sequence_parallel=sequence_parallel, **options)
        init = torch.zeros if zero_centered_gamma else torch.ones
        made: Any = {"dtype": self.dtype, "device": self.device}
        self.layer_norm_weight = torch.nn.Parameter(init(in_features, **made))
        self.layer_norm_bias = (
            None if normalization == "RMSNorm" else torch.nn.Parameter(torch.zeros(in_features, **made))
        )
        for parameter in (self.layer_norm_weight, self.layer_norm_bias):
            if parameter is not None:
                parameter.sequence_parallel = sequence_parallel  # type: ignore[attr-defined]
        self.eps, self.normalization, self.zero_centered_gamma = eps, normalization, zero_centered_gamma

    def before(self, x: torch.Tensor) -> torch.Tensor:
        return normalize(
            x,
            self.layer_norm_weight,
            self.layer_norm_bias,
            self.eps,
            self.normalization,
            self.zero_centered_gamma,
        )
