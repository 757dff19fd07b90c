"""What the examples of the frameworks would run: the command line, the variables, and how the plugins get in."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge_plugins.launch.frameworks import EXTERNAL_LIB, MEGATRON_INIT
from bridge_plugins.topology import Topology
from bridge_plugins.topology.options import miles, nemo_rl, verl
from tests.examples.dry_run import DryRun, dry_run
from tests.stacks.ranks import Ranks

OPTIONS = msgspec.toml.decode(Path(__file__).with_name("options.toml").read_bytes())
AUDIT = {"BRIDGE_AUDIT": "1", "BRIDGE_AUDIT_DIR": "/runs/7/audit", "BRIDGE_READBACK": "1"}
ONE_QUEUE = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
DETERMINISTIC = {
    "NCCL_ALGO": "Ring",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
#: The run on Qwen3-30B-A3B: 8 GPUs, 4 engines of 2.
A3B = Topology(tp=2, pp=2, ep=2, etp=1, world=8, engine_tp=2, engine_ep=2, engines=4)
#: The run on Qwen1.5-MoE-A2.7B: 8 GPUs, rollout TP 4.
MOE_A27B = Topology(tp=4, pp=2, ep=4, etp=1, world=8, engine_tp=4, engines=2)


def printed(example: str, *more: object) -> DryRun:
    arguments = ["/models/M", "--audit", "/runs/7/audit"]
    arguments += [] if example == "nemo_rl" else ["--data", "/data/prompts"]
    done = dry_run(example, *arguments, "--home", "/opt/framework", *more)
    assert (done.status, done.error) == (0, "")
    return done


def test_miles_runs_the_source_run_under_its_contract() -> None:
    done = printed("miles", "--checkpoint", "/ckpt/M_tp2_pp2_ep2_etp1")
    assert done.command[:3] == ["ray", "job", "submit"]
    assert miles.from_options(done.options) == A3B
    expected = {
        "--hf-checkpoint": "/models/M",
        "--ref-load": "/ckpt/M_tp2_pp2_ep2_etp1",
        "--prompt-data": "/data/prompts",
        "--megatron-to-hf-mode": "bridge",
        "--custom-megatron-init-path": MEGATRON_INIT,
        "--make-vocab-size-divisible-by": "1",
        "--true-on-policy-contract": "qwen3_moe_true_on_policy_v1",
        "--sglang-true-on-policy-contract": "qwen3_moe_true_on_policy_v1",
        "--sglang-attention-backend": "fa3",
    }
    assert {option: done.value(option) for option in expected} == expected
    switches = {
        "--colocate", "--sequence-parallel", "--no-gradient-accumulation-fusion", "--true-on-policy-mode",
        "--deterministic-mode", "--batch-invariant-mode", "--sglang-enable-deterministic-inference",
    }  # fmt: skip
    assert switches <= done.flags
    every = {**ONE_QUEUE, **DETERMINISTIC, **AUDIT}
    assert done.runtime_environment == {"env_vars": every}
    assert done.environment == {"trainer": every, "engine": every}


def test_slime_is_the_same_without_a_contract() -> None:
    done = printed("slime")
    assert miles.from_options(done.options) == A3B
    assert done.value("--ref-load") == "/models/M"
    assert (done.value("--megatron-to-hf-mode"), done.value("--custom-megatron-init-path")) == (
        "bridge", MEGATRON_INIT)  # fmt: skip
    assert done.runtime_environment == {"env_vars": {**ONE_QUEUE, **AUDIT}}
    assert not {flag for flag in done.flags if "policy" in flag or "deterministic" in flag}


@pytest.mark.parametrize("example", ["miles", "slime"])
def test_the_models_own_flags_come_out_of_the_frameworks_file(example: str, tmp_path: Path) -> None:
    """The shell line is run as it is, with a train.py that says what it was given."""
    import subprocess

    arguments = tmp_path / "a checkout" / "scripts" / "models" / "qwen3-30B-A3B.sh"
    arguments.parent.mkdir(parents=True)
    arguments.write_text('MODEL_ARGS=(--num-layers 48 --rotary-base "1000 000")\n')
    (tmp_path / "a checkout" / "train.py").write_text("import sys; print(sys.argv[1:])\n")
    done = dry_run(example, "/models/M", "--home", tmp_path / "a checkout", "--save", "/runs/a b")
    shell = done.command[done.command.index("--") + 1 :]
    said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    given = msgspec.json.decode(said.replace("'", '"'), type=list[str])
    assert given[:4] == ["--num-layers", "48", "--rotary-base", "1000 000"]
    assert given[4:] == done.options
    assert given[-2:] == ["--save", "/runs/a b"]


def test_verl_runs_the_source_run_for_actor_reference_and_critic() -> None:
    done = printed("verl", "--checkpoint", "/ckpt/M_tp4_pp2_ep4_etp1")
    assert done.command[:3] == ["python3", "-m", "verl.trainer.main_ppo"]
    overrides = done.overrides
    for role in (verl.ACTOR, verl.REFERENCE, verl.CRITIC):
        assert verl.from_options(done.command, role=role) == MOE_A27B
        expected = {
            "use_dist_checkpointing": "True",
            "dist_checkpointing_path": "/ckpt/M_tp4_pp2_ep4_etp1/release",
            "param_offload": "True",
            "use_mbridge": "True",
            "vanilla_mbridge": "False",
        }
        assert {key: overrides[f"{role}.megatron.{key}"] for key in expected} == expected
    assert overrides["actor_rollout_ref.model.external_lib"] == EXTERNAL_LIB
    assert overrides["actor_rollout_ref.rollout.name"] == "sglang"
    assert overrides["actor_rollout_ref.model.path"] == overrides["critic.model.path"] == "/models/M"
    prefix = "+ray_kwargs.ray_init.runtime_env.env_vars."
    handed_on = {
        key.removeprefix(prefix): value for key, value in overrides.items() if key.startswith(prefix)
    }
    # Quoted: Hydra would read a number, and Ray takes strings alone.
    assert handed_on == {name: f"'{value}'" for name, value in {**ONE_QUEUE, **AUDIT}.items()}
    assert "use_dist_checkpointing" not in " ".join(printed("verl").command)


def test_nemo_rl_switches_to_megatron_and_hands_the_environment_on() -> None:
    done = printed("nemo_rl")
    assert done.command[:5] == ["bridge-plugins", "run", "--", "uv", "run"]
    assert done.command[done.command.index("--directory") + 1] == "/opt/framework"
    assert nemo_rl.from_options(done.command) == A3B
    expected = {
        "policy.megatron_cfg.enabled": "true",
        "policy.dtensor_cfg.enabled": "false",
        "policy.generation.backend": "sglang",
        "policy.model_name": "/models/M",
    }
    assert {key: done.overrides[key] for key in expected} == expected
    assert done.environment == {
        process: {**ONE_QUEUE, **AUDIT} for process in ("launcher", "trainer", "engine")
    }


@pytest.mark.parametrize("example", ["miles", "slime", "verl", "nemo_rl"])
def test_every_violation_is_said_at_once(example: str) -> None:
    sizes = [word for size in ("tp=3", "ep=7", "engine_ep=3", "engines=9") for word in ("--size", size)]
    done = dry_run(example, "/models/M", *sizes)
    assert (done.status, done.command) == (2, [])
    said = (
        "attention heads by TP: TP=3",
        "EP=7",
        "engine's EP divides its TP",
        "share out all of them: ENGINES=9",
    )
    assert [what for what in said if what not in done.error] == []
    if example == "miles":
        assert done.error.count("qwen3_moe_true_on_policy_v1: ") >= 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "world=many"], "--size world=many: expected one of"),
        (["--size", "sp=1"], "--size sp=1: expected one of"),
        (["--profile", "no-such-model"], "there is no 'no-such-model': one of deepseek-v3"),
        (["--contract", "no-such-contract"], "there is no 'no-such-contract'"),
        (["--contract", "qwen3_moe_true_on_policy_v1"], "is for one family of models"),
    ],
)
def test_what_is_asked_wrong_is_one_clear_line(arguments: list[str], said: str) -> None:
    done = dry_run("verl", "/models/M", *arguments)
    assert (done.status, done.command) == (2, [])
    assert done.error.startswith("error: ")
    assert said in done.error


def test_a_framework_without_words_for_a_contract_says_so() -> None:
    done = dry_run("nemo_rl", "/models/M", "--contract", "qwen3_moe_true_on_policy_v1")
    assert done.status == 2
    assert "NeMo-RL has no options for what qwen3_moe_true_on_policy_v1 asks" in done.error


def test_what_is_not_there_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "examples.slime", str(tmp_path)]

    def refused(*more: str) -> str:
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "has no config.json" in refused()
    (tmp_path / "config.json").touch()
    assert "name a torch_dist checkpoint" in refused("--checkpoint", str(tmp_path))


def of_the_stacks() -> list[str]:
    """Every flag of Megatron's parser, and of SGLang's with miles' and slime's prefix."""
    import argparse

    from megatron.training.arguments import add_megatron_arguments
    from sglang.srt.server_args import ServerArgs

    trainer = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
    engine = argparse.ArgumentParser()
    ServerArgs.add_cli_args(engine)
    theirs = [flag.replace("--", "--sglang-", 1) for flag in engine._option_string_actions]
    return [*trainer._option_string_actions, *theirs]


def test_every_flag_of_miles_and_slime_is_one_of_theirs_or_of_the_stacks(ranks: Ranks) -> None:
    [known] = ranks("tests.examples.test_frameworks:of_the_stacks", backend=None)
    for example in ("miles", "slime"):
        flags = printed(example).flags
        theirs = set(OPTIONS[example]["flags"])
        assert flags - theirs - set(known) == set()
        assert theirs - flags - {"--prompt-data"} == set(), "listed, and not used any more"


@pytest.mark.parametrize("example", ["verl", "nemo_rl"])
def test_every_override_is_a_key_of_the_frameworks_config(example: str) -> None:
    known: dict[str, Any] = OPTIONS[example]
    keys = set(known["keys"])
    for role in (verl.ACTOR, verl.REFERENCE, verl.CRITIC) if example == "verl" else ():
        keys |= {f"{role}.megatron.{key}" for key in known["megatron"]}
    more = ("--checkpoint", "/ckpt/M") if example == "verl" else ()
    used = printed(example, *more).overrides.keys()
    added = {key for key in used if key.startswith("+")}
    assert used - added == keys
    assert [key for key in added if not any(section in key for section in known.get("open", []))] == []


@pytest.mark.parametrize("entry", [MEGATRON_INIT, EXTERNAL_LIB])
def test_what_a_framework_is_told_to_call_loads_the_plugins(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("bridge_plugins.load", lambda: loaded.append(entry))
    if entry == EXTERNAL_LIB:
        monkeypatch.delitem(sys.modules, entry, raising=False)
        importlib.import_module(entry)
    else:
        module, _, name = entry.rpartition(".")
        getattr(importlib.import_module(module), name)(object())
    assert loaded == [entry]
