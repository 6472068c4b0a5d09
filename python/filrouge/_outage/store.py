"""The file of the outage buffer: an SQLite database that several processes may use."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filrouge._shared.buffered import now
from filrouge._shared.wire import Header, Request
from filrouge.errors import ClosedError, Error, ForkError, Unavailable

BUSY_S = 30.0
SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS writes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    session_id TEXT NOT NULL,
    method TEXT NOT NULL,
    target TEXT NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL,
    request_id TEXT,            -- of the turn that it starts or writes to
    grows_in TEXT,              -- of a stream: the process in which it still arrives
    cut INTEGER NOT NULL DEFAULT 0, -- whether a stream was broken off
    waiting_since TEXT NOT NULL,
    code TEXT,                  -- why the server refused it: then it is a dead letter
    detail TEXT
);
CREATE INDEX IF NOT EXISTS waiting ON writes (server, session_id) WHERE code IS NULL;
CREATE TABLE IF NOT EXISTS pieces (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    of_write INTEGER NOT NULL REFERENCES writes ON DELETE CASCADE,
    bytes BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS writes_of_turn ON writes (server, session_id, request_id);
CREATE INDEX IF NOT EXISTS pieces_of_write ON pieces (of_write);
CREATE TABLE IF NOT EXISTS turns (
    server TEXT NOT NULL,
    session_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    start BLOB NOT NULL,        -- the body that starts the turn
    turn_id TEXT,               -- once the server has started it
    PRIMARY KEY (server, session_id, request_id)
);
"""

FORGET_TURNS = """
DELETE FROM turns WHERE NOT EXISTS (SELECT 1 FROM writes WHERE writes.server = turns.server
    AND writes.session_id = turns.session_id AND writes.request_id = turns.request_id)
"""


class BufferedWrite(NamedTuple):
    """A write that waits on this machine for the server."""

    number: int
    session_id: str
    method: str
    target: str
    body: bytes
    waiting_since: str


class DeadLetter(NamedTuple):
    """A write that the server refused when it was sent again: its `code` and `detail` say why."""

    number: int
    session_id: str
    method: str
    target: str
    body: bytes
    code: str
    detail: str


class Waiting(NamedTuple):
    """A write with everything that is needed to send it."""

    number: int
    session_id: str
    method: str
    target: str
    headers: list[Header]
    body: bytes
    request_id: str | None
    grows_in: str | None
    cut: bool
    """Whether it is a stream that was broken off, or whose process has died."""


class Store:
    """The writes that wait for one server."""

    def __init__(self, file: str | os.PathLike[str], server: str) -> None:
        self._file, self._server = Path(file), server
        self._process = f"{os.getpid()}:{uuid.uuid4()}"
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))  # it holds conversations
        self._open: sqlite3.Connection | None = sqlite3.connect(
            self._file, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._open.executescript(SCHEMA)

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection, None, None]:
        if self._pid != os.getpid():
            raise ForkError
        with self._lock:
            if self._open is None:
                raise ClosedError
            try:
                self._open.execute("BEGIN IMMEDIATE")
                with self._open:
                    yield self._open
            except sqlite3.Error as error:
                raise Unavailable(
                    f"the buffer {self._file} cannot be written: {error}", code="buffer_failed"
                ) from error

    def put(self, request: Request, headers: Sequence[Header], growing: bool = False) -> int:
        """Adds a write. It is on disk when this returns."""
        kept = [header for header in (*headers, *request.headers) if header[0] != "authorization"]
        turn = request.turn
        with self._transaction() as database:
            if turn is not None:
                row = (self._server, turn.session_id, turn.request_id, turn.start)
                database.execute("INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, NULL)", row)
            added = database.execute(
                "INSERT INTO writes (server, session_id, method, target, headers, body, request_id, grows_in,"
                " waiting_since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self._server,
                    request.session_id,
                    request.method,
                    request.target,
                    json.dumps(kept),
                    request.body,
                    turn.request_id if turn else None,
                    self._process if growing else None,
                    now(),
                ),
            )
            return added.lastrowid or 0

    def add_piece(self, number: int, piece: bytes) -> None:
        """Adds a piece to a stream."""
        with self._transaction() as database:
            database.execute("INSERT INTO pieces (of_write, bytes) VALUES (?, ?)", (number, piece))

    def end_stream(self, number: int, cut: bool) -> None:
        """Marks a stream as complete, or broken off."""
        with self._transaction() as database:
            database.execute("UPDATE writes SET grows_in = NULL, cut = ? WHERE number = ?", (cut, number))

    def pieces(self, number: int) -> list[bytes]:
        """The pieces of a stream."""
        return [row[0] for row in self._rows("SELECT bytes FROM pieces WHERE of_write = ? ORDER BY number", number)]

    def next_after(self, number: int) -> Waiting | None:
        """The oldest waiting write after a number."""
        rows = self._rows(
            "SELECT number, session_id, method, target, headers, body, request_id, grows_in, cut FROM writes"
            " WHERE server = ? AND code IS NULL AND number > ? ORDER BY number LIMIT 1",
            self._server,
            number,
        )
        for row in rows:
            headers = [(name, value) for name, value in json.loads(row[4])]
            return Waiting(row[0], row[1], row[2], row[3], headers, row[5], row[6], row[7], bool(row[7] or row[8]))
        return None

    def still_grows(self, write: Waiting) -> bool:
        """Whether the process to which a stream arrives is alive."""
        if write.grows_in is None:
            return False
        pid = int(write.grows_in.partition(":")[0])
        return write.grows_in == self._process if pid == self._pid else _alive(pid)

    def turn(self, session_id: str, request_id: str) -> tuple[str | None, bytes]:
        """A turn's id, and the body that starts it."""
        where = (self._server, session_id, request_id)
        query = "SELECT turn_id, start FROM turns WHERE server = ? AND session_id = ? AND request_id = ?"
        return next((row[0], row[1]) for row in self._rows(query, *where))

    def started(self, write: Waiting, turn_id: str) -> None:
        """Keeps the id that the server gave a turn."""
        with self._transaction() as database:
            given = (turn_id, self._server, write.session_id, write.request_id)
            database.execute(
                "UPDATE turns SET turn_id = ? WHERE server = ? AND session_id = ? AND request_id = ?", given
            )

    def sent(self, write: Waiting) -> None:
        """Removes a write that the server has."""
        with self._transaction() as database:
            database.execute("DELETE FROM writes WHERE number = ?", (write.number,))
            database.execute(FORGET_TURNS)

    def refused(self, write: Waiting, error: Error) -> None:
        """Makes a write a dead letter."""
        with self._transaction() as database:
            given = (error.code, error.detail, write.number)
            database.execute("UPDATE writes SET code = ?, detail = ? WHERE number = ?", given)

    def sessions(self) -> set[str]:
        """The sessions with waiting writes."""
        query = "SELECT DISTINCT session_id FROM writes WHERE server = ? AND code IS NULL"
        return {row[0] for row in self._rows(query, self._server)}

    def has(self, session_id: str) -> bool:
        """Whether writes to a session wait."""
        query = "SELECT 1 FROM writes WHERE server = ? AND session_id = ? AND code IS NULL LIMIT 1"
        return bool(self._rows(query, self._server, session_id))

    def buffered(self) -> list[BufferedWrite]:
        """The waiting writes, in order."""
        query = (
            "SELECT number, session_id, method, target, body, waiting_since FROM writes"
            " WHERE server = ? AND code IS NULL ORDER BY number"
        )
        return [BufferedWrite(*row) for row in self._rows(query, self._server)]

    def dead_letters(self) -> list[DeadLetter]:
        """The refused writes, in order."""
        query = (
            "SELECT number, session_id, method, target, body, code, detail FROM writes"
            " WHERE server = ? AND code IS NOT NULL ORDER BY number"
        )
        return [DeadLetter(*row) for row in self._rows(query, self._server)]

    def drop(self, number: int) -> None:
        """Removes a dead letter."""
        with self._transaction() as database:
            database.execute("DELETE FROM writes WHERE number = ? AND code IS NOT NULL", (number,))
            database.execute(FORGET_TURNS)

    def _rows(self, query: str, *values: object) -> list[Any]:
        if self._pid != os.getpid():
            raise ForkError
        with self._lock:
            if self._open is None:
                raise ClosedError
            return self._open.execute(query, values).fetchall()

    @contextmanager
    def sending(self) -> Generator[bool, None, None]:
        """Whether this process is the one that sends now. The lock ends with the process that has it."""
        lock = sqlite3.connect(f"{self._file}.lock", timeout=0, isolation_level=None)
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                yield False
            else:
                yield True
        finally:
            lock.close()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._open is not None and self._pid == os.getpid():
                self._open.close()
            self._open = None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
