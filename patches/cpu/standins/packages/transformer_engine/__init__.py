"""Stand-in for Transformer Engine: as much of its public surface as Megatron Core's own wrappers need on a CPU.

Parameter names, shapes and parallel layout are Transformer Engine's (compare
``megatron.core.extensions.transformer_engine``); the arithmetic is plain torch.
"""

__version__ = "1.12.0"  # Megatron Core asks for features by version: this one has what is stood in for here

from transformer_engine import common, pytorch

__all__ = ["common", "pytorch"]
