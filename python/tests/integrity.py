"""Adapters with which the suite `agent-memory-integrity` attacks a ledger, on SQLite and on PostgreSQL.

As the suite demands, sessions are written and read through the public interface alone, and `verify` reports what a
read says. The attacks write rows of the table of records, as a program with all rights to the database does; the keys
and the anchor are elsewhere, as in every installation.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record
from postgres import Postgres

import filrouge
from filrouge import _native
from filrouge.openai_agents import FilrougeSession

SESSION, OTHER = "agmi-user-A", "agmi-user-B"
Row = dict[str, Any]
ZSTANDARD = bytes.fromhex("28b52ffd")


class LedgerAdapter(MemoryAdapter):  # type: ignore[misc]  # the suite has no types
    """What does not depend on the database: a record is a row with its place, its head and its body."""

    supports_replay = supports_metadata = supports_snapshot = True

    def __init__(self) -> None:
        self._ledger: filrouge.Ledger | None = None
        self._seeded = 0

    # The tool's own interface

    def setup(self) -> None:
        """A new, empty store."""
        self._home = Path(tempfile.mkdtemp(prefix="filrouge-agmi-"))
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
            os.environ[name] = str(self._home / name)
        self._seeded = 0

    def teardown(self) -> None:
        """Removes the store."""
        self._close()
        shutil.rmtree(self._home, ignore_errors=True)

    def seed(self, n: int) -> None:
        """Writes entries."""
        self._add(SESSION, "agmi-seed", range(n))
        self._seeded = n

    def seed_other(self, n: int) -> None:
        """Writes entries of another session."""
        self._add(OTHER, "agmi-other", range(n))

    def append_genuine(self) -> None:
        """Writes one more entry."""
        self._add(SESSION, "agmi-late", [0])

    def reload(self) -> None:
        """Ends the tool; its next use starts it again."""
        self._close()

    def verify(self) -> bool:
        """Whether the session can be read."""
        self.verify_detail = None
        try:
            items = self._run(lambda session: session.get_items(), SESSION)
        except filrouge.Error as error:
            self.verify_detail = str(error)
            return False
        if len(items) < self._seeded:
            self.verify_detail = f"{len(items)} of {self._seeded} entries were served, and nothing was reported"
        return True

    def _add(self, name: str, token: str, numbers: Any) -> None:
        for number in numbers:
            item: Any = {"role": "user", "content": f"{token}-{number}"}
            self._run(lambda session, item=item: session.add_items([item]), name)

    def _run(self, call: Any, name: str) -> Any:
        if self._ledger is None:
            self._ledger = filrouge.open(self._store())
        return asyncio.run(call(FilrougeSession(name, self._ledger)))

    def _close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _store(self) -> str:
        raise NotImplementedError

    # The attacker's access

    def _rows(self, session: str) -> list[Row]:
        raise NotImplementedError

    def _write(self, place: Row, head: str, body: str) -> None:
        raise NotImplementedError

    def _insert(self, place: Row, head: str, body: str) -> None:
        raise NotImplementedError

    def _delete(self, place: Row) -> None:
        raise NotImplementedError

    def read_all_raw(self) -> list[Record]:
        """The records of the session, in order."""
        return [Record(seq=index, fields=row) for index, row in enumerate(self._rows(SESSION))]

    def read_other_raw(self) -> list[Record]:
        """The records of the other session."""
        return [Record(seq=index, fields=row) for index, row in enumerate(self._rows(OTHER))]

    def write_raw(self, record: Record) -> None:
        """Writes the content of a record at a place; beyond the last, a new record."""
        rows = self._rows(SESSION)
        if record.seq < len(rows):
            self._write(rows[record.seq], record.fields["head"], record.fields["body"])
        else:
            self._insert(rows[-1], record.fields["head"], record.fields["body"])

    def delete_raw(self, seq: int) -> None:
        """Deletes a record."""
        self._delete(self._rows(SESSION)[seq])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Copies a genuine record over another."""
        self._write(self._rows(SESSION)[victim_seq], donor.fields["head"], donor.fields["body"])

    def mutate_payload(self, record: Record) -> Record:
        """Changes a text, and keeps its encoding: unless it is short, a body is a frame of Zstandard."""
        body = bytes.fromhex(record.fields["body"])
        compressed = body.startswith(ZSTANDARD)
        content = _native.undelta(b"", body) if compressed else body
        for token in (b"agmi-seed-", b"agmi-late-", b"agmi-other-"):
            if token in content:
                changed = content.replace(token, token.replace(b"agmi-", b"FAKE-"))
                record.fields["body"] = (_native.delta(b"", changed) if compressed else changed).hex()
                return record
        raise RuntimeError("the text of the entry is not in its record")

    def read_meta(self, seq: int) -> dict[str, Any]:
        """The head of a record: its time, turn, keys of items and links."""
        return {"head": self._rows(SESSION)[seq]["head"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Changes the head of a record by one bit, in its last byte but those of its authentication code."""
        row = self._rows(SESSION)[seq]
        changed = bytearray.fromhex(meta["head"])
        changed[len(changed) // 2] ^= 1
        self._write(row, changed.hex(), row["body"])

    def identity_of(self, record: Record) -> str:
        """The place of a record."""
        return str({name: record.fields[name] for name in ("session", "first_seq")})

    def payload_of(self, record: Record) -> str:
        """The content of a record."""
        return str(record.fields["body"])

    def owner_of(self, record: Record) -> str:
        """The session of a record."""
        return str(record.fields["session"])


class SqliteLedger(LedgerAdapter):
    """A ledger in an SQLite file."""

    name = "filrouge-sqlite"

    def _store(self) -> str:
        return str(self._file)

    @property
    def _file(self) -> Path:
        return self._home / "store" / "app.db"

    def setup(self) -> None:
        super().setup()
        self._file.parent.mkdir()

    def _sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        # Python has an SQLite of its own: two in one process do not see each other's locks.
        self._close()
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            return connection.execute(text, values).fetchall()

    def _rows(self, session: str) -> list[Row]:
        rows = self._sql(
            "SELECT session_id, first_seq, session_pk, record.id, hex(head), hex(body) FROM session"
            " JOIN record_key ON session_pk = pk JOIN record ON record.id = record_id"
            " WHERE session_id = ? ORDER BY first_seq",
            session,
        )
        names = ("session", "first_seq", "session_pk", "id", "head", "body")
        return [dict(zip(names, [*row[:4], row[4].lower(), row[5].lower()], strict=True)) for row in rows]

    def _write(self, place: Row, head: str, body: str) -> None:
        values = (bytes.fromhex(head), bytes.fromhex(body), place["id"])
        self._sql("UPDATE record SET head = ?, body = ? WHERE id = ?", *values)

    def _insert(self, place: Row, head: str, body: str) -> None:
        (newest,) = self._sql("SELECT max(id) FROM record")[0]
        (count,) = self._sql("SELECT count FROM record_key WHERE record_id = ?", place["id"])[0]
        values = (newest + 1, bytes.fromhex(head), bytes.fromhex(body))
        self._sql("INSERT INTO record (id, head, body) VALUES (?, ?, ?)", *values)
        key = (place["session_pk"], place["first_seq"] + count, count, newest + 1)
        self._sql("INSERT INTO record_key (session_pk, first_seq, count, record_id) VALUES (?, ?, ?, ?)", *key)

    def _delete(self, place: Row) -> None:
        self._sql("DELETE FROM record_key WHERE record_id = ?", place["id"])
        self._sql("DELETE FROM record WHERE id = ?", place["id"])

    def snapshot_store(self) -> str:
        """Copies the folder of the store."""
        self._close()
        return str(self._copy_store(self._file.parent))

    def restore_store(self, token: object) -> None:
        """Puts the copy back."""
        self._close()
        self._restore_store(str(token), self._file.parent)


class PostgresLedger(LedgerAdapter):
    """A ledger in PostgreSQL. The attacker is its superuser, so triggers do not stop it."""

    name = "filrouge-postgres"
    server: Postgres
    """The server; each store is a database of its own."""
    _number = 0

    def setup(self) -> None:
        super().setup()
        PostgresLedger._number += 1
        self._database = f"agmi_{PostgresLedger._number}"
        self.server.query(f"CREATE DATABASE {self._database}")

    def teardown(self) -> None:
        super().teardown()
        for name in (self._database, f"{self._database}_copy"):
            self.server.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _store(self) -> str:
        return self.server.url(self._database)

    def _rows(self, session: str) -> list[Row]:
        text = self.server.query(
            "SELECT session_id, first_seq, r.lane, session_pk, count,"
            " encode(head, 'hex'), encode(body, 'hex') FROM filrouge.session s"
            " JOIN filrouge.record r ON r.lane = s.lane AND r.session_pk = s.pk"
            f" WHERE session_id = '{session}' ORDER BY first_seq",
            self._database,
        )
        names = ("session", "first_seq", "lane", "session_pk", "count", "head", "body")
        return [dict(zip(names, line.split("|"), strict=True)) for line in text.splitlines()]

    def _change(self, sql: str) -> None:
        self.server.query(f"SET session_replication_role = replica; {sql}", self._database)

    @staticmethod
    def _at(place: Row) -> str:
        return f"lane = {place['lane']} AND session_pk = {place['session_pk']} AND first_seq = {place['first_seq']}"

    def _write(self, place: Row, head: str, body: str) -> None:
        values = f"head = decode('{head}', 'hex'), body = decode('{body}', 'hex')"
        self._change(f"UPDATE filrouge.record SET {values} WHERE {self._at(place)}")

    def _insert(self, place: Row, head: str, body: str) -> None:
        first_seq = int(place["first_seq"]) + int(place["count"])
        key = f"{place['lane']}, {place['session_pk']}, {first_seq}, {place['count']}"
        blobs = f"decode('{head}', 'hex'), decode('{body}', 'hex')"
        self._change(
            f"INSERT INTO filrouge.record (lane, session_pk, first_seq, count, head, body) VALUES ({key}, {blobs})"
        )

    def _delete(self, place: Row) -> None:
        self._change(f"DELETE FROM filrouge.record WHERE {self._at(place)}")

    def snapshot_store(self) -> str:
        """Copies the database."""
        self._close()
        copy = f"{self._database}_copy"
        self.server.query(f"DROP DATABASE IF EXISTS {copy} WITH (FORCE)")
        self.server.query(f"CREATE DATABASE {copy} TEMPLATE {self._database}")
        return copy

    def restore_store(self, token: object) -> None:
        """Puts the copy in the place of the database."""
        self._close()
        self.server.query(f"DROP DATABASE {self._database} WITH (FORCE)")
        self.server.query(f"CREATE DATABASE {self._database} TEMPLATE {token}")
