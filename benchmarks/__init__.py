"""Measurements, each with what it is measured against in the same run."""
