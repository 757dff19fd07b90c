"""The stage ``megatron_local``: what each rank's own parameters hold, in HF terms, without gathering a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge_plugins import lazy

if TYPE_CHECKING:
    from bridge_plugins.audit.megatron_local.names import NameAudit
    from bridge_plugins.audit.megatron_local.weights import LocalAudit

__all__ = ["LocalAudit", "NameAudit"]

# What ranks tell and how it is put together need no torch.
__getattr__ = lazy.names(__name__, {"LocalAudit": "weights", "NameAudit": "names"})
