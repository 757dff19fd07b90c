"""The real Megatron stack under test: ranks over gloo, tiny checkpoints, models built through the bridge."""
