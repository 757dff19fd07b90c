"""NeMo-RL to engines on the same GPUs: packed into a buffer, item by item."""
# ruff: noqa: ARG001 (the signatures are theirs)

from __future__ import annotations

from typing import Any

SENT: list[Any] = []


def stream_weights_via_ipc_zmq_impl(
    params_generator: Any, buffer_size_bytes: int, zmq_socket: Any, rank: int, worker_name: str
) -> None:
    for name, tensor in params_generator:
        SENT.append((name, tensor))
