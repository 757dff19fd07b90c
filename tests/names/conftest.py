from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

Coded = Callable[..., Path]


@pytest.fixture(scope="session")
def coded_checkpoint(ranks: Ranks, checkpoint: Checkpoint) -> Coded:
    """Like `checkpoint`, with a coded twin beside it in ``<folder>-coded``."""

    def get(family: str, **sizes: Any) -> Path:
        folder = checkpoint(family, **sizes)
        twin = Path(f"{folder}-coded")
        if not twin.exists():
            ranks("tests.names.coded:make", backend=None, checkpoint=str(folder), folder=str(twin))
        return folder

    return get
