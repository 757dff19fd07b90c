"""Sinks on the real packages that they need."""
