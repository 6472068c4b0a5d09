"""Keeps the writes that the server cannot take on disk, and sends them again, in order, once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from filrouge import _native
from filrouge._outage.sender import Sender
from filrouge._outage.store import BufferedWrite, DeadLetter, Store
from filrouge._shared.buffered import WAITS
from filrouge._shared.wire import Answer, Header, Request

__all__ = ["BufferedWrite", "DeadLetter", "Outage"]


class Outage:
    """The buffer of one ledger, and the thread that empties it. All methods may block for a flush of the disk."""

    def __init__(
        self, connection: _native.Connection, server: str, headers: Sequence[Header], file: str | os.PathLike[str]
    ) -> None:
        self._store = Store(file, server)
        self._sender = Sender(connection, self._store, [header for header in headers if header[0] == "authorization"])
        self._lock = threading.Lock()
        self._sessions = self._store.sessions()
        if self._sessions:
            self._sender.wake()

    def holds(self, session_id: str) -> bool:
        """Whether a write to this session must wait: others wait, or the server does not answer."""
        if self._sender.down:
            return True
        with self._lock:
            if session_id in self._sessions and not self._store.has(session_id):
                self._sessions.discard(session_id)
            return session_id in self._sessions

    def put(self, request: Request, headers: Sequence[Header], why: Exception | None = None) -> Answer:
        """Keeps a write, behind those that wait."""
        with self._lock:
            self._sessions.add(request.session_id or "")
            self._store.put(request, headers)
        self._begin(why)
        return WAITS

    def put_stream(self, request: Request, headers: Sequence[Header], why: Exception | None = None) -> int:
        """Keeps a stream that is still arriving. Returns its number."""
        with self._lock:
            self._sessions.add(request.session_id or "")
            number = self._store.put(request, headers, growing=True)
        self._begin(why)
        return number

    def add_piece(self, number: int, piece: bytes) -> None:
        """Keeps the next piece of a stream."""
        self._store.add_piece(number, piece)

    def end_stream(self, number: int, cut: bool) -> None:
        """The stream has ended, or was broken off (`cut`): it can be sent."""
        self._store.end_stream(number, cut)
        self._sender.wake()

    def _begin(self, why: Exception | None) -> None:
        if why is not None:
            self._sender.down = True
        self._sender.wake()

    def buffered(self) -> list[BufferedWrite]:
        """The writes that wait."""
        return self._store.buffered()

    def dead_letters(self) -> list[DeadLetter]:
        """The writes that the server refused."""
        return self._store.dead_letters()

    def drop(self, number: int) -> None:
        """Removes a dead letter."""
        self._store.drop(number)

    def flush(self, timeout: float) -> bool:
        """Waits until no write is left. Returns whether that came true."""
        end = time.monotonic() + timeout
        self._sender.wake()
        while self._store.sessions():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        """Stops sending. What waits stays on disk."""
        self._sender.stop()
        self._store.close()
