"""The modules that Megatron Core wraps: norms, linears, grouped linears, attention."""

from types import SimpleNamespace

from transformer_engine.pytorch import cpp_extensions, distributed, float8_tensor, fp8
from transformer_engine.pytorch.attention import DotProductAttention
from transformer_engine.pytorch.distributed import checkpoint
from transformer_engine.pytorch.fp8 import fp8_autocast, fp8_model_init
from transformer_engine.pytorch.grouped_linear import GroupedLinear
from transformer_engine.pytorch.linear import LayerNormLinear, Linear
from transformer_engine.pytorch.module import TransformerEngineBaseModule
from transformer_engine.pytorch.norm import LayerNorm, RMSNorm

ops = SimpleNamespace(Sequential=type("Sequential", (), {}))  # named in annotations only

__all__ = [
    "DotProductAttention",
    "GroupedLinear",
    "LayerNorm",
    "LayerNormLinear",
    "Linear",
    "RMSNorm",
    "TransformerEngineBaseModule",
    "checkpoint",
    "cpp_extensions",
    "distributed",
    "float8_tensor",
    "fp8",
    "fp8_autocast",
    "fp8_model_init",
    "ops",
]
