"""A provider on this machine, which sends what a test tells it, byte for byte."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STREAMS = Path(__file__).parents[3] / "crates/filrouge-transcode/tests/transcode/fixtures/streams"
PATIENCE_S = 60.0


def stream(format: str, name: str) -> bytes:
    """A recorded response of a provider: `NAME.sse`, or `NAME.json` if it is complete."""
    return (STREAMS / format / name).read_bytes()


@dataclass
class Reply:
    """One response."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hold_at: int | None = None
    """Where the provider waits, in bytes, until `go_on` is set."""
    go_on: threading.Event = field(default_factory=threading.Event)
    cut_at: int | None = None
    """Where the connection breaks, in bytes."""
    piece: int = 97
    """The size of the pieces, which is no multiple of anything."""

    @property
    def kind(self) -> str:
        """The content type."""
        return "text/event-stream" if self.body.startswith((b"data", b"event", b":", b"id")) else "application/json"


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may disconnect."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An application closed a connection."""


class Provider:
    """An HTTP server with replies to give, in order."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.requests: list[tuple[str, bytes]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                provider.requests.append((self.path, body))
                reply = provider.replies.pop(0)
                try:
                    send(self, reply)
                except OSError:
                    self.close_connection = True  # the application reads no more

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Provider:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    """Sends a reply in chunks."""
    if reply.hold_at == 0:
        reply.go_on.wait(PATIENCE_S)
    handler.send_response(reply.status)
    for name, value in {"content-type": reply.kind, **reply.headers}.items():
        handler.send_header(name, value)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for start, end in spans(reply):
        if start and start == reply.hold_at:
            reply.go_on.wait(PATIENCE_S)
        handler.wfile.write(b"%x\r\n%s\r\n" % (end - start, reply.body[start:end]))
    if reply.cut_at is None:
        handler.wfile.write(b"0\r\n\r\n")
    else:
        handler.close_connection = True


def spans(reply: Reply) -> Sequence[tuple[int, int]]:
    """Where the pieces begin and end."""
    size = len(reply.body) if reply.cut_at is None else reply.cut_at
    ends = sorted({*range(reply.piece, size, reply.piece), *([reply.hold_at] if reply.hold_at else []), size} - {0})
    return list(zip([0, *ends], ends, strict=False))
