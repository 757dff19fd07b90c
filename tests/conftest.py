from tests.ended_early import pytest_collection_finish, pytest_runtest_teardown
from tests.engine.servers import servers
from tests.faults.named import named
from tests.stacks.models import checkpoint
from tests.stacks.ranks import ranks

__all__ = ["checkpoint", "named", "pytest_collection_finish", "pytest_runtest_teardown", "ranks", "servers"]
