"""A whole cluster's names, checked on one CPU: no GPU, no network, no weights, no collective.

`check` is the way in. Each pipeline stage is built once on the meta device, as the rank that holds it
would build it, under a simulated process group; its names are then asked for at every expert-parallel
rank.
"""

from bridge_plugins.names.preflight.check import check
from bridge_plugins.names.preflight.report import Finding, Report

__all__ = ["Finding", "Report", "check"]
