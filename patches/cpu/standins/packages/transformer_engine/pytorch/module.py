"""What every module shares: the extra state in the state dict, the marks on parameters, and how one is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Init = Callable[[torch.Tensor], Any]


class TransformerEngineBaseModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Megatron asks these when it cuts the experts of a checkpoint.
        self.fp8_meta: dict[str, Any] = {"recipe": None, "fp8_checkpoint": False}
        self.fp8 = self.fp8_calibration = False

    def init_fp8_metadata(self, num_gemms: int = 1) -> None:
        pass

    def set_tensor_parallel_group(self, group: Any) -> None:
        self.tp_group = group

    # Transformer Engine keeps `_extra_state` in the state dict; Megatron's loaders expect the key.
    def get_extra_state(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        pass


class ParallelWeights(TransformerEngineBaseModule):
    """A column- or row-parallel linear of one weight or several: sizes on this rank, and parameters marked so."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        parallel_mode: str | None,
        tp_size: int,
        params_dtype: torch.dtype | None,
        init_method: Init | None,
        device: Any,
    ) -> None:
        super().__init__()
        self.parallel_mode, self.tp_size = parallel_mode, tp_size
        self.out_features = out_features // tp_size if parallel_mode == "column" else out_features
        self.in_features = in_features // tp_size if parallel_mode == "row" else in_features
        self.dtype = params_dtype or torch.get_default_dtype()
        self.device = "meta" if str(device) == "meta" else "cpu"
        self.init_method: Init = init_method or (lambda weight: torch.nn.init.normal_(weight, 0, 0.02))

    def make_weight(self, name: str) -> None:
        weight = torch.nn.Parameter(
            torch.empty(self.out_features, self.in_features, dtype=self.dtype, device=self.device)
        )
        if not weight.is_meta:
            with torch.no_grad():
                self.init_method(weight)
        mark_parallel(weight, dim=1 if self.parallel_mode == "row" else 0)
        self.register_parameter(name, weight)

    def make_bias(self, name: str, sequence_parallel: bool = False) -> None:
        bias = torch.nn.Parameter(torch.zeros(self.out_features, dtype=self.dtype, device=self.device))
        if self.parallel_mode == "column":
            mark_parallel(bias, dim=0)
        elif self.parallel_mode == "row":
            bias.sequence_parallel = sequence_parallel  # type: ignore[attr-defined]
        self.register_parameter(name, bias)


def mark_parallel(parameter: torch.nn.Parameter, dim: int) -> None:
    """The three attributes by which Megatron knows a shard; Transformer Engine sets them whatever TP is."""
    parameter.tensor_model_parallel = True  # type: ignore[attr-defined]
    parameter.partition_dim = dim  # type: ignore[attr-defined]
    parameter.partition_stride = 1  # type: ignore[attr-defined]
