"""SGLang as the engine: pushing weights to it, and reading back what it serves.

`client`, `wire`, `push` and `readback` run beside the trainer and import nothing of SGLang. `plugin` and `inside` run
inside SGLang's processes and import nothing of Megatron: the two may live in two environments.
"""
