"""The preflight on families that need more than others: kernels that no laptop has, configs that models write into."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

from tests.names.test_preflight import run
from tests.stacks.ranks import Ranks


def hybrid(folder: str) -> None:
    """Write a hybrid's config and index: Mamba, mixture, attention and MLP, as released checkpoints call them."""
    import transformers

    from bridge_plugins.names.preflight.source import from_config

    config = transformers.NemotronHConfig(
        architectures=["NemotronHForCausalLM"],
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
    )
    config.save_pretrained(folder)
    names = (name.replace(".embedding.", ".embeddings.") for name in from_config(config, "hybrid").tensors)
    index = {"weight_map": dict.fromkeys(names, "model.safetensors")}
    (Path(folder) / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.ci
@pytest.mark.skipif(
    Version(version("megatron-bridge")) < Version("0.6"), reason="older Megatron has no such hybrids"
)
def test_a_hybrid_needs_no_kernels(ranks: Ranks, tmp_path: Path) -> None:
    ranks("tests.names.test_preflight_families:hybrid", backend=None, folder=str(tmp_path))
    report = run(ranks, tmp_path, {"tp": 2, "pp": 2, "ep": 2})
    assert report["findings"] == []
    assert report["expected_from"] == "the checkpoint's own files"


def glm_vision(folder: str) -> None:
    import transformers

    text = {
        "num_hidden_layers": 4,
        "n_routed_experts": 8,
        "head_dim": 128,
        "num_experts_per_tok": 2,
        "use_qk_norm": False,
    }
    name = "Glm4vMoeForConditionalGeneration"
    transformers.Glm4vMoeConfig(architectures=[name], text_config=text).save_pretrained(folder)


@pytest.mark.ci
@pytest.mark.skipif(
    Version(version("transformers")) < Version("5.4"), reason="older ones write nothing into a config"
)
def test_what_transformers_writes_into_a_config_is_not_what_megatron_gets(
    ranks: Ranks, tmp_path: Path
) -> None:
    ranks("tests.names.test_preflight_families:glm_vision", backend=None, folder=str(tmp_path))
    report = run(ranks, tmp_path, {"tp": 2, "pp": 2, "ep": 2})
    assert report["findings"] == []
