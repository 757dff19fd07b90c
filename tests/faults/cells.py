"""Which faults run in which model and topology. What shares a cell shares one start of its ranks."""

from __future__ import annotations

from typing import Any

Cell = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], tuple[str, ...]]

#: cell: (family, sizes of its checkpoint, topology, the provider's fields, faults)
CELLS: dict[str, Cell] = {
    "EP2": ("qwen3_moe", {}, {"ep": 2}, {}, ("local experts", "count of nothing", "one name for all", "a setting")),
    "EP2 SequentialMLP": (
        "qwen3_moe", {}, {"ep": 2}, {"moe_grouped_gemm": False}, ("local experts of SequentialMLP", "a setting"),
    ),
    "PP2 EP2": ("qwen3_moe", {}, {"pp": 2, "ep": 2}, {}, ("local experts", "one name for all", "a setting")),
    "PP2 VPP2": ("qwen3", {}, {"pp": 2, "vpp": 2}, {}, ("one chunk", "left as it was")),
    "PP2 of 5 layers": ("qwen3", {"num_hidden_layers": 5}, {"pp": 2}, {"num_layers": 4}, ("a setting",)),
    "TP2": ("qwen3", {}, {"tp": 2}, {}, ("equal slabs", "gate and up of the whole", "no environment")),
    "TP2 padded": (
        "qwen3", {}, {"tp": 2}, {"should_pad_vocab": True, "make_vocab_size_divisible_by": 512}, ("a setting",),
    ),
    "TP2 ETP2": ("qwen3_moe", {}, {"tp": 2, "etp": 2}, {}, ("experts not gathered",)),
    "TP1 ETP2": ("qwen3_moe", {}, {"etp": 2, "world": 2}, {}, ("experts not gathered",)),
    "VL TP2 ETP2": ("qwen3_vl_moe", {}, {"tp": 2, "etp": 2}, {}, ("experts not gathered",)),
    "DeepSeek EP2": ("deepseek_v3", {}, {"ep": 2}, {}, ("no buffers", "no weight, no bias")),
    "wide EP2": ("deepseek_v3", {}, {"ep": 2}, {}, ("a setting", "rounded")),
}  # fmt: skip
