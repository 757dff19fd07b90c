"""The same tokens through trainer and engine: how far apart their log probabilities are, and of which versions."""

from bridge_plugins.parity.engine import Sample, sample
from bridge_plugins.parity.metrics import Parity, compare

__all__ = ["Parity", "Sample", "compare", "sample"]
