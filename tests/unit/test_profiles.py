"""Profiles and contracts as they are shipped, and what follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_plugins.errors import UsageError
from bridge_plugins.launch.contracts import contract_names, read_contract
from bridge_plugins.launch.flags import settings
from bridge_plugins.launch.profiles import profile_names, read_profile
from bridge_plugins.topology import Topology

A3B = Topology(tp=2, pp=2, ep=2, etp=1, world=8, engine_tp=2, engine_ep=2, engines=4)
CONTRACT = "qwen3_moe_true_on_policy_v1"


def test_what_is_shipped_can_be_read_and_fits_together() -> None:
    assert {"qwen3-30b-a3b", "qwen1.5-moe-a2.7b", "deepseek-v3", "qwen3-4b"} <= set(profile_names())
    assert CONTRACT in contract_names()
    for name in profile_names():
        profile = read_profile(name)
        assert profile.model.rpartition("/")[2].lower() == name
        if profile.contract:
            assert read_contract(profile.contract).family == profile.family
    for name in contract_names():
        read_contract(name)


def test_a_run_under_the_contract() -> None:
    profile = read_profile("Qwen/Qwen3-30B-A3B")
    run = settings(A3B, profile, profile.contract)
    trainer = " ".join(run.trainer)
    assert "--sequence-parallel --make-vocab-size-divisible-by 1 --no-gradient-accumulation-fusion" in trainer
    assert "--batch-invariant-mode" in trainer
    assert " ".join(run.engine).startswith("--tp-size 2 --ep-size 2 --enable-deterministic-inference")
    assert run.environment == {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "NCCL_ALGO": "Ring",
        "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    assert run.max_logprob_diff == 0.0


def test_a_run_without_one() -> None:
    dense = settings(Topology(tp=2, pp=2), read_profile("qwen3-4b"))
    assert dense.max_logprob_diff == 0.03
    assert "--make-vocab-size-divisible-by" not in dense.trainer
    assert dense.environment == {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    assert settings(Topology(pp=2), read_profile("qwen3-4b")).environment == {}
    verl_run = Topology(tp=4, pp=2, ep=4, etp=1, world=8, engine_tp=4, engines=2)
    moe = settings(verl_run, read_profile("qwen1.5-moe-a2.7b"))
    assert moe.trainer[-3:] == ("--make-vocab-size-divisible-by", "1", "--no-gradient-accumulation-fusion")


def test_every_violation_is_said_at_once() -> None:
    with pytest.raises(UsageError) as error:
        settings(Topology(tp=3, pp=5, ep=7), read_profile("deepseek-v3"), CONTRACT)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("deepseek-ai/DeepSeek-V3 can't be run with TP=3 PP=5 EP=7")
    said = "\n".join(lines[1:])
    for rule in ("TP=2 or TP=4", "PP=1 or PP=61", "EP=4 or EP=8", "one family of models", "WORLD=840"):
        assert rule in said


def test_a_users_own_files(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'model = "me/mine"\nfamily = "qwen3"\nvocabulary = 512\n'
        "[sizes]\nlayers = 4\nheads = 8\nkv_heads = 4\nhidden = 64\nffn = 96\n"
    )
    assert read_profile(str(mine)).sizes.layers == 4
    mine.write_text(mine.read_text().replace("kv_heads = 4", "kv_heads = 'four'"))
    with pytest.raises(UsageError, match=r"mine\.toml: Expected `int`, got `str` - at `\$.sizes.kv_heads`"):
        read_profile(str(mine))
    mine.write_text("model = ")
    with pytest.raises(UsageError, match=r"mine\.toml: "):
        read_profile(str(mine))
    with pytest.raises(UsageError, match=r"there is no 'no-such'.*qwen3-4b"):
        read_profile("no-such")
    with pytest.raises(UsageError, match="No such file"):
        read_contract(str(tmp_path / "no.toml"))
