"""Stand-in for NVIDIA's model optimizer, of which megatron-bridge 0.4 and 0.5 import one function without
asking.
"""
