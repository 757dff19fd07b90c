"""What the examples of the frameworks share: sizes are read and checked, what will be run is printed, then it is run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.checkpoints.paths import iteration
from bridge_plugins.cli import exits
from bridge_plugins.errors import UsageError
from bridge_plugins.launch.flags import Settings
from bridge_plugins.launch.profiles import read_profile
from bridge_plugins.topology import Topology
from bridge_plugins.topology.options import megatron, sglang
from examples.checks import checked, profile_of, resized, usable


@dataclass(frozen=True)
class Asked:
    """What the user asked for, checked.

    Attributes:
        model: an HF folder.
        checkpoint: a torch_dist checkpoint of it; None to load `model` through the bridge.
        data: a file of prompts; None for what the framework takes without one.
        home: the framework's checkout.
        follows: what follows from topology, profile and contract.
        environment: variables for every process of the run.
        more: options of the framework's own, handed on.
    """

    model: Path
    checkpoint: Path | None
    data: Path | None
    home: Path
    topology: Topology
    contract: str
    follows: Settings
    environment: Mapping[str, str]
    more: tuple[str, ...]

    @property
    def trainer_flags(self) -> tuple[str, ...]:
        """Megatron's flags beyond the sizes."""
        return self.follows.trainer[len(megatron.to_options(self.topology)) :]

    def without_contract(self, framework: str) -> None:
        """Raises `UsageError` if there is a contract: `framework` has no options for what it asks of both sides."""
        if self.contract:
            raise UsageError(f"{framework} has no options for what {self.contract} asks; try --contract ''")

    @property
    def engine_flags(self) -> tuple[str, ...]:
        """SGLang's flags beyond the sizes."""
        return self.follows.engine[len(sglang.to_options(self.topology)) :]


@dataclass(frozen=True)
class Plan:
    """What will be run.

    Attributes:
        command: the command line, as it is.
        plugins: how the plugins get into the trainer's processes, for a person.
        environment: variables of each kind of process, by its name. Those of "launcher" are set for `command` itself, which
            hands the others on.
    """

    command: tuple[str, ...]
    plugins: str
    environment: Mapping[str, Mapping[str, str]]


def run(
    plan: Callable[[Asked], Plan],
    topology: Topology,
    profile: str = "",
    contract: str = "",
    *,
    colocated: bool = True,
) -> None:
    """The command line of an example, with its sizes as defaults. Exit 2 if they break a rule, with all that they break.

    Args:
        profile: what the model is; empty to read its config.
        colocated: whether the engines have the trainer's GPUs, all of them.
    """
    sizes, profile_, contract_ = topology, profile, contract
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def example(
        context: typer.Context,
        model: Annotated[Path, typer.Argument(help="The model's Hugging Face folder.")],
        data: Annotated[Path | None, typer.Option(help="The prompts to train on.")] = None,
        checkpoint: Annotated[
            Path | None, typer.Option(help="A torch_dist checkpoint of MODEL (bridge-plugins convert).")
        ] = None,
        size: Annotated[
            list[str] | None, typer.Option(help="Another size than the example's, as in tp=4. Repeat it.")
        ] = None,
        profile: Annotated[
            str, typer.Option(help="What MODEL is: a profile's name or file; empty: as its config says.")
        ] = profile_,
        contract: Annotated[str, typer.Option(help="A contract's name or file; empty: none.")] = contract_,
        home: Annotated[Path, typer.Option(help="The framework's checkout.")] = Path(),
        audit: Annotated[Path, typer.Option(help="Where the audit writes.")] = Path("bridge-audit"),
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be run.")] = False,
    ) -> None:
        """Check the sizes, print what will be run, and run it. Further options are handed on to the framework."""
        asked_sizes = resized(sizes, size or [])
        known = read_profile(profile) if profile else profile_of(model)
        follows = checked(asked_sizes, known, contract, colocated)
        asked = Asked(
            model=usable(model, dry_run),
            checkpoint=checkpoint.absolute() if checkpoint else None,
            data=data.absolute() if data else None,
            home=home.absolute(),
            topology=asked_sizes,
            contract=contract,
            follows=follows,
            environment={
                **follows.environment,
                "BRIDGE_AUDIT": "1",
                "BRIDGE_AUDIT_DIR": str(audit.absolute()),
                "BRIDGE_READBACK": "1",
            },
            more=tuple(context.args),
        )
        if checkpoint and not dry_run:
            iteration(checkpoint)  # an unfinished one is refused here, and not by each rank
        planned = plan(asked)
        _show(asked, planned)
        if not dry_run:
            _become(planned)

    exits.run(app)


def _show(asked: Asked, plan: Plan) -> None:
    engines = f"{asked.topology.engines} of {' '.join(sglang.to_options(asked.topology))}"
    limit = f"mean |Δlogprob| up to {asked.follows.max_logprob_diff} under {asked.contract or 'no contract'}"
    print(f"topology   {asked.topology}")
    print(f"engines    {engines}; {limit}")
    print(f"plugins    {plan.plugins}")
    for process, variables in plan.environment.items():
        for name, value in variables.items():
            print(f"{process:<10} {name}={value}")
    print(f"$ {shlex.join(plan.command)}", flush=True)


def _become(plan: Plan) -> None:
    environment = {**os.environ, **plan.environment.get("launcher", {})}
    try:
        os.execvpe(plan.command[0], list(plan.command), environment)  # noqa: S606
    except OSError as error:
        raise UsageError(f"{plan.command[0]} can't be run: {error.strerror}; is it on PATH?") from error
