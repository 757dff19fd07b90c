"""LayerNorm and RMSNorm, alone and as the first half of ``LayerNormLinear``."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812


def normalize(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    eps: float,
    kind: str,
    zero_centered: bool,
) -> torch.Tensor:
    weight = weight + 1 if zero_centered else weight
    if kind == "RMSNorm":
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
        return (weight.float() * (x.float() * scale)).to(x.dtype)
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


class _Norm(torch.nn.Module):
    kind: str

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | None = None,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        params_dtype: torch.dtype | None = None,
        zero_centered_gamma: bool = False,
        device: Any = "cpu",
        hidden_size: int | None = None,
        dtype: torch.dtype | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        shape = normalized_shape if normalized_shape is not None else hidden_size
        assert shape is not None
        options: Any = {
            "dtype": params_dtype or dtype or torch.get_default_dtype(),
            "device": "meta" if str(device) == "meta" else "cpu",
        }
        init = torch.zeros if zero_centered_gamma else torch.ones
        self.weight = torch.nn.Parameter(init(shape, **options))
        self.bias = torch.nn.Parameter(torch.zeros(shape, **options)) if self.kind == "LayerNorm" else None
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                parameter.sequence_parallel = sequence_parallel  # type: ignore[attr-defined]
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normalize(x, self.weight, self.bias, self.eps, self.kind, self.zero_centered_gamma)

    def get_extra_state(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, state: Any) -> None:
        pass


class LayerNorm(_Norm):
    kind = "LayerNorm"


class RMSNorm(_Norm):
    kind = "RMSNorm"
