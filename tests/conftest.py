from tests.engine.servers import servers
from tests.faults.named import named
from tests.stacks.models import checkpoint
from tests.stacks.ranks import ranks

__all__ = ["checkpoint", "named", "ranks", "servers"]
