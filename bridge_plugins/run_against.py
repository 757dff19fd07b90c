"""The versions of Megatron Bridge that the patches were run against. With any other the probes alone decide."""

from __future__ import annotations

RUN_AGAINST = ("0.3.1", "0.4.2", "0.5.1", "0.6.2")


def unknown(bridge: str) -> str:
    """What to say of this version of Megatron Bridge; empty if it is a known one."""
    if bridge in RUN_AGAINST:
        return ""
    return (
        f"megatron-bridge {bridge} was never run with these patches ({', '.join(RUN_AGAINST)} were), so that the probes "
        "alone decide"
    )
