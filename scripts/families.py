"""Runs the preflight over every family that the installed bridge supports, and writes docs/families.md.

    python scripts/families.py              all of them
    python scripts/families.py NAME NAME    these; the others keep their rows

A family's HF config is built offline, from its config class's own defaults with fewer layers and experts.
Each family runs in a process of its own, forked from one that holds the stacks.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "docs" / "families.md"
TIMEOUT = 180  #: seconds a family may take

#: Set on a default config where it has such a field.
FEWER = {
    "num_hidden_layers": 8,
    "num_experts": 8,
    "n_routed_experts": 8,
    "num_local_experts": 8,
    "moe_num_experts": 8,
}
GROUPS = {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 2}

#: What a family's released configs say and its config class doesn't; a dict goes into the config of that name.
RELEASED: dict[str, dict[str, Any]] = {
    "DeepseekV4ForCausalLM": {
        "rope_parameters": {
            "compress": {
                "rope_type": "yarn",
                "factor": 16.0,
                "original_max_position_embeddings": 65536,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
            }
        }
    },
    "FalconH1ForCausalLM": {"mamba_norm_before_gate": False},
    "Gemma3ForConditionalGeneration": {"vision_config": {"vision_use_head": False}},
    "Gemma4ForConditionalGeneration": {"vision_config": {"model_type": "gemma4_vision"}},
    "Glm4vMoeForConditionalGeneration": {"text_config": {"head_dim": 128, "use_qk_norm": False}},
    "GlmMoeDsaForCausalLM": {"indexer_rope_interleave": True},
    "HYV3ForCausalLM": {"first_k_dense_replace": 1},
    "Mistral3ForConditionalGeneration": {
        "tie_word_embeddings": False,
        "text_config": {
            "model_type": "ministral3",
            "tie_word_embeddings": False,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e6,
                "factor": 16.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 16384,
                "llama_4_scaling_beta": 0.1,
            },
        },
    },
    "NemotronForCausalLM": {"num_key_value_heads": 8},
    "Qwen3OmniMoeForConditionalGeneration": {
        "talker_config": {
            "spatial_merge_size": 2,
            "text_config": {"shared_expert_intermediate_size": 768},
        }
    },
}

#: Families that can't be cut like the others: by what their provider says, or for a single head or group.
CUTS: dict[str, dict[str, int]] = {
    "DeepseekV4ForCausalLM": {"tp": 1},
    "FalconH1ForCausalLM": {"tp": 1},
    "Gemma4ForCausalLM": {"pp": 1},
    "Gemma4ForConditionalGeneration": {"pp": 1},
}

#: Findings that were looked into: what is the matter.
CAUSES = {
    "Exaone4ForCausalLM": "the bridge has no mapping for an output layer that isn't tied to the embedding",
    "NemotronHForCausalLM": "transformers saves `embedding`, the bridge and released checkpoints `embeddings`",
    "Qwen2AudioForConditionalGeneration": (
        "transformers saves `language_model.model.model`, the bridge and released checkpoints one `model`"
    ),
    "Qwen2_5OmniForConditionalGeneration": "the bridge maps the thinker, not the talker and its vocoder",
    "Qwen3OmniMoeForConditionalGeneration": "the bridge maps the thinker, not the talker and its vocoder",
}

HEAD = """# Model families

Written by `python scripts/families.py`; do not edit. The preflight's answer for each family that
megatron-bridge {bridge} registers, with its HF config built offline by transformers {transformers} (the config
class's defaults, 8 layers and 8 experts where it has such fields), at TP=2 PP=2, and EP=2 where there are
experts. Consistent: every rank's names are a bijection onto the tensors of an HF checkpoint, and shapes are
equal after gathering. Findings whose cause is known end in it.

| family | cut | result | Megatron names | HF tensors | why not |
|---|---|---|---|---|---|
"""


def main() -> None:
    os.environ["BRIDGE_PLUGINS_CPU"] = "1"
    warnings.simplefilter("ignore")
    from bridge_plugins import plugins

    plugins.load(strict=True)
    logging.disable(logging.WARNING)
    from megatron.bridge import AutoBridge
    from rich.progress import track

    families = AutoBridge.list_supported_models()
    rows = _written() if sys.argv[1:] else {}
    for family in track(sys.argv[1:] or families, "families"):
        rows[family] = _run(family)
        kept = [rows[name] for name in families if name in rows]
        text = HEAD.format(bridge=version("megatron-bridge"), transformers=version("transformers"))
        OUT.write_text(text + "".join(f"| {' | '.join(row)} |\n" for row in kept) + _sum(kept))
    print(_sum(kept))


def _written() -> dict[str, tuple[str, ...]]:
    """The rows of the table as it is."""
    cells = [line.strip("|").split(" | ") for line in OUT.read_text().splitlines() if line.startswith("| ")]
    rows = [tuple(cell.strip() for cell in row) for row in cells[1:]]
    return {row[0]: row for row in rows}


def _sum(rows: list[tuple[str, ...]]) -> str:
    kinds = ["findings" if row[2].endswith("findings") else row[2] for row in rows]
    counts = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return "\n" + ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", of {len(rows)}.\n"


def _run(family: str) -> tuple[str, ...]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(family, sender))
    process.start()
    late = ("", "stopped", "", "", f"no answer within {TIMEOUT} s")
    row = receiver.recv() if receiver.poll(TIMEOUT) else late
    process.kill()
    process.join()
    return (family, *row)


def _check(family: str, sender: Any) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        sender.send(_answer(family))
    except Exception as error:
        sender.send(("", "not possible", "", "", _cell(f"{type(error).__name__}: {error}")))


def _answer(family: str) -> tuple[str, ...]:
    from bridge_plugins.names.preflight import check
    from bridge_plugins.names.preflight.source import from_config
    from bridge_plugins.topology import Topology

    config = _config(family)
    experts = any(getattr(config.get_text_config(), name, 0) for name in FEWER if "experts" in name)
    cut = {"tp": 2, "pp": 2, "ep": 2 if experts else 1, **CUTS.get(family, {})}
    report = check(from_config(config, family), Topology(**cut))
    why = "; ".join(f"{found.kind} {found.name}" for found in report.findings[:2])
    if why and family in CAUSES:
        why += f": {CAUSES[family]}"
    notes = "; ".join(report.notes)
    result = "consistent" if report.consistent else f"{len(report.findings)} findings"
    shown = " ".join(f"{name.upper()}={size}" for name, size in cut.items() if size > 1)
    return shown, result, str(report.parameters), str(report.hf_tensors), _cell(why or notes)


def _config(family: str) -> Any:
    import transformers

    model_class = getattr(transformers, family, None)
    if model_class is None:
        raise LookupError(f"transformers {transformers.__version__} has no such model (custom code)")
    made = model_class.config_class()
    released = RELEASED.get(family, {})
    fields = _merged(made.to_dict(), released)
    smaller = {**_smaller(fields), **released}
    for name, value in fields.items():
        if isinstance(value, dict) and (name == "text_config" or name in released):
            smaller[name] = {**value, **(_smaller(value) if name == "text_config" else {})}
            for stale in ("layer_types", "mlp_layer_types"):
                smaller[name].pop(stale, None)
    return model_class.config_class(**smaller, architectures=[family])


def _merged(fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(fields.get(name) or {}, value) if isinstance(value, dict) else value
        for name, value in more.items()
    }
    return {**fields, **both}


def _smaller(fields: dict[str, Any]) -> dict[str, Any]:
    few = {name: value for name, value in FEWER.items() if fields.get(name)}
    return {**few, **{name: value for name, value in GROUPS.items() if fields.get(name)}}


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:240]


if __name__ == "__main__":
    sys.exit(main())
