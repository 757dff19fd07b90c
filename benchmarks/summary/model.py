"""HF folders of random weights of any size, written without holding them, and summaries of a large model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Header, Summary, summarize

ROWS, COLS = 6144, 2048  #: of a projection of Qwen3-1.7B, 25 MB in bfloat16
PARTS = ("gate_proj", "up_proj", "down_proj", "other")
PER_FILE = 160  #: about 4 GB


def make_folder(folder: Path, nbytes: int) -> Path:
    """Write matrices of bfloat16, as many as make `nbytes` (one smaller one at the least), and an index."""
    size = 2 * ROWS * COLS
    count, rows = (nbytes // size, ROWS) if nbytes >= size else (1, max(nbytes // (2 * COLS), 1))
    names = [f"model.layers.{number // 4}.mlp.{PARTS[number % 4]}.weight" for number in range(count)]
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    weights = (generator.standard_normal(2 * rows * COLS, np.float32) / 50).view(np.uint32) >> 16
    bits = weights.astype(np.uint16)
    index: dict[str, str] = {}
    groups = [names[at : at + PER_FILE] for at in range(0, count, PER_FILE)]
    for number, group in enumerate(groups):
        file = f"model-{number + 1:05d}-of-{len(groups):05d}.safetensors"
        length = 2 * rows * COLS
        header = json.dumps(
            {
                name: {
                    "dtype": "BF16",
                    "shape": [rows, COLS],
                    "data_offsets": [at * length, (at + 1) * length],
                }
                for at, name in enumerate(group)
            }
        ).encode()
        with (folder / file).open("wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            for _ in group:  # no two alike
                first = int(generator.integers(rows * COLS))
                stream.write(bits[first : first + rows * COLS].tobytes())
        index |= dict.fromkeys(group, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


LAYERS, EXPERTS = 58, 258


def make_summary(exchanged: tuple[int, int] = (0, 0)) -> Summary:
    """A summary of as many experts as DeepSeek-V3 has, and a few more. Two layers carry each other's weights."""
    one, other = exchanged
    generator = np.random.default_rng(0)
    lanes = generator.integers(0, 2**64, (LAYERS, EXPERTS, 3, 2), np.uint64)
    lanes[[one, other]] = lanes[[other, one]]
    shape = (2048, 7168)
    records = (
        Record(
            f"model.layers.{layer}.mlp.experts.{expert}.{part}.weight",
            *(shape, "bfloat16", tuple(lanes[layer, expert, at].tolist()), 2 * shape[0] * shape[1]),
            *(76.7, 0.1),
        )
        for layer in range(LAYERS)
        for expert in range(EXPERTS)
        for at, part in enumerate(PARTS[:3])
    )
    return summarize(Header(model="large", topology="", version=""), records)
