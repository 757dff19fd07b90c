from tests.stacks.models import checkpoint
from tests.stacks.ranks import ranks

__all__ = ["checkpoint", "ranks"]
