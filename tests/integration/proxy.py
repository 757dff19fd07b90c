"""A small TCP proxy in front of a server, that cuts a reply off, keeps one back, or does something when it is asked for."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit


class Proxy:
    """Passes everything on, one request a connection, until the request of `path` comes: that one is spoilt.

    Args:
        url: of the server behind it.
        path: the request that is spoilt, as in ``/weights_checker``.
        keep: bytes of its reply that are passed on before the connection is closed; None to answer nothing at all.
        asked: called before that request is passed on.
    """

    def __init__(
        self, url: str, path: str, *, keep: int | None = None, asked: Callable[[], None] = lambda: None
    ) -> None:
        self._server = (urlsplit(url).hostname, urlsplit(url).port)
        self._path, self._keep, self._asked = path.encode(), keep, asked
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._ended = threading.Event()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            request = _message(client)
            spoilt = self._path in request.partition(b"\r\n")[0]
            if spoilt:
                self._asked()
            # One request a connection: the end of the reply is the end of the connection.
            server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            left = (self._keep or 0) if spoilt else None
            for chunk in iter(lambda: server.recv(65536), b""):
                if left is None:
                    client.sendall(chunk)
                elif self._keep is not None:
                    client.sendall(chunk[:left])
                    left -= len(chunk[:left])
                    if not left:
                        return
            if spoilt and self._keep is None:
                self._ended.wait()


def _message(sender: socket.socket) -> bytes:
    """A whole HTTP request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(sender)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    ]
    while len(body) < sum(lengths):
        more = _some(sender)
        body, data = body + more, data + more
    return data


def _some(sender: socket.socket) -> bytes:
    chunk = sender.recv(65536)
    if not chunk:
        raise ConnectionError("the client is gone")
    return chunk


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process that does not answer: stopped, not dead."""
    import os
    import signal

    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
