"""The audit: record → rules → summary → compare → diagnose. Start with `WeightAudit`."""

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.place import Place, place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Header, Summary, read_summary, summarize
from bridge_plugins.audit.weight_audit import WeightAudit

__all__ = [
    "Expected", "Finding", "Header", "Place", "Record", "Summary", "WeightAudit", "place_of", "read_summary", "summarize",
]  # fmt: skip
