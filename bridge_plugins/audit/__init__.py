"""The audit: record → rules → summary → compare → diagnose. Start with `WeightAudit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge_plugins import lazy

if TYPE_CHECKING:
    from bridge_plugins.audit.expected import Expected
    from bridge_plugins.audit.finding import Finding
    from bridge_plugins.audit.place import Place, place_of
    from bridge_plugins.audit.reading import read_summary
    from bridge_plugins.audit.record import Record
    from bridge_plugins.audit.summary import Header, Summary, summarize
    from bridge_plugins.audit.weight_audit import WeightAudit

__all__ = [
    "Expected", "Finding", "Header", "Place", "Record", "Summary", "WeightAudit", "place_of", "read_summary", "summarize",
]  # fmt: skip

# A summary is read and compared without torch: the command lines start at once.
__getattr__ = lazy.names(
    __name__,
    {
        "Expected": "expected",
        "Finding": "finding",
        "Header": "summary",
        "Place": "place",
        "Record": "record",
        "Summary": "summary",
        "WeightAudit": "weight_audit",
        "place_of": "place",
        "read_summary": "reading",
        "summarize": "summary",
    },
)
