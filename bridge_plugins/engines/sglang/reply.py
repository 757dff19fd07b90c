"""One HTTP call with an end: however slowly a server answers, and however much."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import httpx

from bridge_plugins.errors import EngineError

LARGEST = 1 << 30  #: bytes of a reply; a readback of 100,000 tensors takes some tens of millions


@dataclass(frozen=True)
class HttpReply:
    """A status and a body."""

    status: int
    content: bytes

    @property
    def good(self) -> bool:
        """Whether the call did what it should."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The beginning of the body, for a person."""
        return self.content[:300].decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError for what is none, or is nested too deeply."""
        try:
            return json.loads(self.content)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def call(http: httpx.Client, method: str, path: str, body: dict[str, Any] | None) -> HttpReply:
    """Ask, and wait no longer than the client's timeout for the whole of the reply.

    Raises `EngineError` without a reply in time, or with one larger than `LARGEST`.
    """
    where, seconds = f"{str(http.base_url).rstrip('/')}{path}", http.timeout.read or 0.0
    until = time.monotonic() + seconds
    content = bytearray()
    try:
        with http.stream(method, path, json=body) as answer:
            for piece in answer.iter_bytes():
                content += piece
                if time.monotonic() > until:
                    raise EngineError(f"{where}: no whole answer in {seconds:.0f} s")
                if len(content) > LARGEST:
                    raise EngineError(f"{where}: the answer is larger than {LARGEST:,} bytes")
            return HttpReply(answer.status_code, bytes(content))
    except httpx.TimeoutException as error:
        raise EngineError(f"{where}: no answer in {seconds:.0f} s") from error
    except httpx.HTTPError as error:
        raise EngineError(f"{where}: the server is gone ({type(error).__name__})") from error
