"""Sends the buffered writes again, in the order in which they came."""

from __future__ import annotations

import enum
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence

from filrouge import _native, types
from filrouge._outage.store import Store, Waiting
from filrouge._shared.native import translated
from filrouge._shared.wire import TURN, Answer, Header, encoded, path, read
from filrouge.errors import (
    ClosedError,
    Error,
    Forbidden,
    ForkError,
    LeaseExpired,
    StreamOpen,
    TransportError,
    TurnClosed,
    Unauthorized,
)

LOG = logging.getLogger("filrouge")
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STOP_S = 5.0
CUT_S = 10.0
CUT_PAUSE_S = 0.02
FENCE = "filrouge-fence"


class Result(enum.Enum):
    """What became of a write."""

    DONE = enum.auto()
    """Sent, or a dead letter."""
    LATER = enum.auto()
    """Its session must wait."""
    DOWN = enum.auto()
    """The server takes nothing."""


class Sender:
    """A thread that runs while writes wait."""

    def __init__(self, connection: _native.Connection, store: Store, credentials: Sequence[Header]) -> None:
        self.down = False
        """Whether the server did not take the newest write."""
        self._connection, self._store, self._credentials = connection, store, credentials
        self._woken, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def wake(self) -> None:
        """Begins to send, if the thread does not yet."""
        with self._lock:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="filrouge-outage", daemon=True)
                self._thread.start()
        self._woken.set()

    def stop(self) -> None:
        """Ends the thread, after the request that runs. A server that hangs is not waited for."""
        with self._lock:
            self._stopped = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stopped:
            try:
                with self._store.sending() as mine:
                    emptied = mine and self._pass()
            except (ClosedError, ForkError):
                return
            except (sqlite3.Error, Error) as error:
                LOG.error("the buffered writes cannot be sent: %s", error)
                emptied = False
            if emptied:
                self._woken.wait()
                pause = FIRST_PAUSE_S
            else:
                self._woken.wait(pause)
                pause = min(LONGEST_PAUSE_S, pause * 2) if self.down else FIRST_PAUSE_S
            self._woken.clear()

    def _pass(self) -> bool:
        """Sends what can be sent. Returns whether nothing waits any more."""
        number, later = 0, set[str]()
        while not self._stopped and (write := self._store.next_after(number)) is not None:
            number = write.number
            result = Result.LATER if write.session_id in later else self._send(write)
            if result is Result.DOWN:
                self.down = True
                return False
            if result is Result.LATER:
                later.add(write.session_id)
            else:
                self.down = False
        return not later

    def _send(self, write: Waiting) -> Result:
        if self._store.still_grows(write):
            return Result.LATER
        try:
            self._repaired(write)
        except Error as error:
            return self._failed(write, error)
        self._store.sent(write)
        return Result.DONE

    def _failed(self, write: Waiting, error: Error) -> Result:
        if isinstance(error, TransportError) or error.status in (429, 503, 507):
            return Result.DOWN
        if isinstance(error, (Unauthorized, Forbidden)):
            LOG.error("buffered writes wait because the server refuses the credentials: %s", error)
            return Result.DOWN
        if error.retryable or isinstance(error, StreamOpen):  # of a stream that broke off without a sign of it
            return Result.LATER
        LOG.error("the server refused a buffered write to %s: %s", write.session_id, error)
        self._store.refused(write, error)
        return Result.DONE

    def _repaired(self, write: Waiting) -> Answer:
        """Sends a write; if its lease or its turn ended in the outage, without the fence or into the turn again."""
        headers = [*self._credentials, *write.headers]
        try:
            return self._once(write, headers)
        except LeaseExpired:  # no other caller took the lease since: the session needs no fence
            return self._once(write, [header for header in headers if header[0] != FENCE])
        except TurnClosed:
            if write.request_id is None or self._start(write, headers)["status"] != "open":
                raise
            return self._once(write, headers)

    def _once(self, write: Waiting, headers: list[Header]) -> Answer:
        target, pieces = write.target, [write.body, *self._store.pieces(write.number)]
        if TURN in target:
            turn_id, _ = self._store.turn(write.session_id, write.request_id or "")
            target = target.replace(TURN, encoded(turn_id or self._start(write, headers)["turn_id"]))
        if write.cut:
            return self._cut(target, headers, pieces)
        return self._request(write.method, target, headers, b"".join(pieces))

    def _cut(self, target: str, headers: list[Header], pieces: list[bytes]) -> Answer:
        """Sends a stream that was broken off, and breaks it off: the turn is interrupted, and can be continued."""
        with translated():
            upload = self._connection.upload("POST", target, headers)
            for piece in pieces:
                if piece:
                    upload.send(piece)
            upload.abort()
        turn, end = target.partition("/stream")[0], time.monotonic() + CUT_S
        while True:
            answer = self._request("GET", turn, self._plain(headers), b"")
            if answer.json()["status"] != "open" or time.monotonic() > end:
                return answer
            time.sleep(CUT_PAUSE_S)

    def _start(self, write: Waiting, headers: list[Header]) -> types.Turn:
        """Starts the turn of a write, or opens it again if it was interrupted. Returns it as it is if it has ended."""
        _, start = self._store.turn(write.session_id, write.request_id or "")
        typed = [*self._plain(headers), ("content-type", "application/json")]
        turn: types.Turn = self._request("POST", path(write.session_id, "turns"), typed, start).json()
        self._store.started(write, turn["turn_id"])
        return turn

    @staticmethod
    def _plain(headers: list[Header]) -> list[Header]:
        return [header for header in headers if header[0] != "content-type"]

    def _request(self, method: str, target: str, headers: list[Header], body: bytes) -> Answer:
        with translated():
            response = self._connection.request(method, target, headers, body)
        return read(response.status, response.headers, response.body)
