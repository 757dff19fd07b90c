"""Servers of a session end with the last test that asks for them: each takes 2 GB, and others are started later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge_plugins.launch.processes import Run

LAST = pytest.StashKey[dict[str, pytest.Item]]()
RUNS = pytest.StashKey[dict[str, Run]]()


def end_with_last_user(request: pytest.FixtureRequest, run: Run) -> None:
    """End the processes of the fixture that `request` is of once no later test asks for it."""
    assert request.fixturename is not None
    request.config.stash[RUNS][request.fixturename] = run


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which test is the last to ask for each fixture."""
    session.config.stash[RUNS] = {}
    session.config.stash[LAST] = {
        name: item for item in session.items for name in getattr(item, "fixturenames", ())
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """After a test's own teardown."""
    yield
    for name, run in item.config.stash[RUNS].items():
        if item.config.stash[LAST].get(name) is item:
            run.end()
