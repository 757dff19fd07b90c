"""A server that is no engine, or a hostile one: one clear line within the timeout, whatever it answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch

from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.verify import verify

TIMEOUT = 2.0
Answering = Callable[[Any], Engine]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """``answering(b"…")``: an engine that answers everything with that; with a function: that writes into the socket."""
    servers: list[ThreadingHTTPServer] = []

    def start(reply: Any) -> Engine:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(200)
                if callable(reply):
                    reply(self)
                else:
                    self.send_header("content-length", str(len(reply)))
                    self.end_headers()
                    self.wfile.write(reply)

            do_GET = do_POST  # noqa: N815 (the base class names it)

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        servers[-1].daemon_threads = True
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return Engine(f"http://127.0.0.1:{servers[-1].server_port}", timeout=TIMEOUT)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def summary() -> Summary:
    audit = WeightAudit("tiny")
    list(audit.watch([("model.layers.0.w", torch.ones(4, 8))]))
    return audit.finish("1")[0]


def layers(**fields: Any) -> bytes:
    """What one rank answers, with some fields otherwise."""
    right = {
        "rank": 0, "world": 1, "agreed": "x", "digests": "", "compared": 0, "served": 0, "untold": 0, "derived": 0,
        "names": [], "keys": [],
    }  # fmt: skip
    return of_rank(json.dumps({**right, **fields}))


def of_rank(text: Any) -> bytes:
    return json.dumps({"success": True, "ranks": [{"checksums": {"bridge": text}}]}).encode()


DEEP = "[" * 200_000
REPLIES: dict[str, bytes] = {
    "deep": DEEP.encode(),
    "deep inside": of_rank(DEEP),
    "ranks by name": b'{"ranks":{"a":1}}',
    "a number of ranks": b'{"ranks":7}',
    "a list": b"[1,2]",
    "null": b"null",
    "a list of checksums": b'{"ranks":[{"checksums":[1]}]}',
    "a number of checksums": of_rank(5),
    "a world without end": layers(world=10**12),
    "a world of less than none": layers(world=-1),
    "a rank of less than none": layers(rank=-1),
    "pipeline stages without end": layers(stages=10**9, world=10**9),
    "no text": b"\xff\xfe",
    "nothing": b"",
    "a refusal": b'{"success":false,"message":"no"}',
}


@pytest.mark.parametrize("kind", REPLIES)
def test_an_answer_of_any_shape_is_an_engine_that_could_not_be_asked(
    answering: Answering, summary: Summary, kind: str
) -> None:
    engine = answering(REPLIES[kind])
    done = verify(summary, [engine])
    assert done.failed[engine.url].startswith(f"{engine.url} could not be read back: {engine.url}")
    assert done.verdict(summary).word == "findings"


@pytest.mark.parametrize(
    "fields", [{"rank": 5}, {"digests": "AAAA"}, {"names": ["model.layers.0"]}, {"keys": [2**70]}], ids=str
)
def test_numbers_that_do_not_fit_each_other_prove_nothing(
    answering: Answering, summary: Summary, fields: dict[str, Any]
) -> None:
    done = verify(summary, [answering(layers(**fields))])
    assert done.verdict(summary).word in ("findings", "not compared")


def dribble(handler: BaseHTTPRequestHandler) -> None:
    handler.send_header("content-length", "1000000")
    handler.end_headers()
    pause = threading.Event()
    while not pause.wait(0.1):
        handler.wfile.write(b" ")


def pour(handler: BaseHTTPRequestHandler) -> None:
    handler.end_headers()
    while True:
        handler.wfile.write(b" " * (1 << 20))


@pytest.mark.parametrize(
    ("reply", "said"),
    [(dribble, "no whole answer in 2 s"), (pour, "the answer is larger than 8,388,608 bytes")],
)
def test_an_answer_without_end_ends(
    answering: Answering, summary: Summary, monkeypatch: pytest.MonkeyPatch, reply: Any, said: str
) -> None:
    monkeypatch.setattr("bridge_plugins.engines.sglang.reply.LARGEST", 8 << 20)
    engine = answering(reply)
    started = time.monotonic()
    done = verify(summary, [engine])
    assert said in done.failed[engine.url]
    assert time.monotonic() - started < 20 * TIMEOUT
