"""Faults that nobody has reported yet: a real export, recorded once, is mutated wherever it can go wrong.

Every mutation is caught under the right names and explained by what was done; one that changes nothing is passed.
``make fuzz`` tries more of them, on more topologies.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from bridge_plugins.topology import Topology
from tests.faults import mutations_local, mutations_recording
from tests.faults.mutations import Operator
from tests.faults.mutations_inside import INSIDE
from tests.faults.mutations_local import LOCAL
from tests.faults.mutations_moves import WHOLE
from tests.faults.mutations_places import PLACES, at_rest, complaints
from tests.faults.mutations_recording import Recorded
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 0)
LONG = EXAMPLES > 0
DTYPES = (torch.bfloat16, torch.float32, torch.float16)
SOURCES: list[tuple[str, dict[str, Any]]] = [("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2})]
if LONG:
    SOURCES += [
        ("qwen3_moe", {"pp": 2, "vpp": 2, "ep": 2}),
        ("qwen3_moe", {"tp": 2, "etp": 2}),
        ("deepseek_v3", {"ep": 2}),
    ]
    SOURCES += [("qwen3", {"tp": 2, "pp": 2})]

budget = settings(
    max_examples=EXAMPLES or 8,
    derandomize=not LONG,
    database=None,
    deadline=None,
    print_blob=LONG,
    report_multiple_bugs=LONG,
    phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)
tried: Counter[str] = Counter()


@pytest.fixture(scope="module", params=SOURCES, ids=str)
def recorded(
    request: pytest.FixtureRequest,
    ranks: Ranks,
    checkpoint: Checkpoint,
    tmp_path_factory: pytest.TempPathFactory,
) -> Recorded:
    family, topology = request.param
    folder = tmp_path_factory.mktemp("recorded")
    ranks(
        "tests.faults.mutations_recording:record", world=Topology(**topology).world,
        checkpoint=str(checkpoint(family)), topology=topology, folder=str(folder),
    )  # fmt: skip
    return mutations_recording.read(folder, str(Topology(**topology)))


@pytest.fixture(scope="module", autouse=True)
def totals(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    said = ", ".join(f"{count} {what}" for what, count in tried.items())
    capture: Any = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\nmutations: {said}")


def attempt(every: Callable[[], None]) -> None:
    """Run a property; in the long mode there are families that an operator has no place in."""
    try:
        every()
    except Unsatisfiable:
        if not LONG:
            raise
        tried["operators that a family has no place for"] += 1


@pytest.mark.ci
@pytest.mark.parametrize("operator", [*INSIDE, *WHOLE], ids=str)
def test_a_mutation_is_caught_and_named(recorded: Recorded, operator: Operator) -> None:
    @budget
    @given(st.data())
    def every(draw: st.DataObject) -> None:
        model = recorded.cast(draw.draw(st.sampled_from(DTYPES), label="dtype"))
        mutation = operator.make(draw, model)
        note(f"{mutation} ({recorded.topology})")
        wrong = []
        for place in (at_rest, draw.draw(st.sampled_from(PLACES), label="place")):
            judged = place(model, mutation)
            wrong += [f"{place.__name__}: {one}" for one in complaints(judged, mutation.said)]
            tried["judged"] += 1
            tried["changed something"] += bool(judged.truth)
        tried.update(one.split(": ")[1] for one in wrong)
        assert not wrong, "\n".join([str(mutation), *wrong])

    attempt(every)


@pytest.mark.ci
@pytest.mark.parametrize("name", LOCAL)
def test_what_a_rank_holds_wrongly_is_named(recorded: Recorded, name: str) -> None:
    @budget
    @given(st.data())
    def every(draw: st.DataObject) -> None:
        mutation = LOCAL[name](draw, recorded)
        note(f"{mutation} ({recorded.topology})")
        wrong = mutations_local.complaints(recorded, mutation)
        tried["judged"] += 1
        tried["changed something"] += bool(mutation.wrong)
        tried.update(one.partition(":")[0] for one in wrong)
        assert not wrong, "\n".join([str(mutation), *wrong])

    attempt(every)
