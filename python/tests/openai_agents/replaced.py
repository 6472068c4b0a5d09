"""A plugin of pytest: runs tests of the OpenAI Agents SDK with `FilrougeSession` in place of its `SQLiteSession`."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory
import pytest

import filrouge
from filrouge._async.history import AsyncHistory
from filrouge.errors import SeqConflict
from filrouge.openai_agents import KIND, FilrougeSession, _settled

LEDGERS: dict[str, filrouge.Ledger] = {}
NUMBERS = itertools.count()
"""Those of files: filrouge refuses a new file in the place of one that was removed."""
FOLDER = Path(tempfile.mkdtemp(prefix="filrouge-agents-"))


class Acknowledgement:
    """Takes the place of a connection of SQLite: the tests put one there that delays or loses acknowledgements."""

    def commit(self) -> None:
        """A write was committed, and is acknowledged."""


class AcknowledgedHistory(AsyncHistory):
    """A history whose writes are acknowledged where those of `SQLiteSession` are: when `commit` returns."""

    def __init__(self, session: filrouge.AsyncSession, acknowledge: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(session, KIND)
        self._acknowledge = acknowledge

    async def add(self, *arguments: Any, **options: Any) -> int:
        """Adds messages."""
        seq = await super().add(*arguments, **options)
        await self._acknowledge()
        return seq

    async def pop(self, validate: Callable[[Any], None] | None = None) -> tuple[bool, Any]:
        """Hides the newest message if a function takes it, as the SDK's sessions do inside of a transaction."""
        while newest := (await self.newest(1)):
            if not newest.found:
                return False, None
            if validate is not None:
                await asyncio.to_thread(validate, newest.found[0].original)
            try:
                await self._mark(newest.found[0], [newest.found[0].seq], newest.last_seq)
            except SeqConflict:
                continue
            await self._acknowledge()
            return True, newest.found[0].original
        raise AssertionError

    async def clear(self) -> None:
        """Hides all messages."""
        await super().clear()
        await self._acknowledge()


class ReplacedSession(FilrougeSession):
    """A session with the arguments of `SQLiteSession`: a file, or a store in memory for each object."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", **options: Any) -> None:
        path = os.fspath(db_path)
        name = f"memory {len(LEDGERS)}" if path == ":memory:" else path
        if name not in LEDGERS:
            LEDGERS[name] = filrouge.open("memory:" if path == ":memory:" else FOLDER / f"{next(NUMBERS)}.db")
        super().__init__(session_id, LEDGERS[name], **options)
        self._history = AcknowledgedHistory(self._history.session, self._acknowledge)
        self._connections_lock, self._connections = threading.RLock(), set[Any]()
        self._closed = False

    def _get_connection(self) -> Acknowledgement:
        return Acknowledgement()

    async def _acknowledge(self) -> None:
        await asyncio.to_thread(self._get_connection().commit)

    async def add_items(self, items: list[Any]) -> None:
        """Adds items."""
        if self._closed:
            raise RuntimeError("SQLiteSession is closed")
        await super().add_items(items)

    async def _pop_item_with_validation(self, validate: Callable[[Any], None] | None = None) -> Any:
        assert isinstance(self._history, AcknowledgedHistory)
        return (await _settled(self._history.pop(validate)))[1]

    def close(self) -> None:
        """Ends the use of the object; the ledger is closed at the end of the test."""
        self._closed = True


ORIGINAL = agents.SQLiteSession
for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "agents"]:
    if vars(module).get("SQLiteSession") is ORIGINAL:
        module.SQLiteSession = ReplacedSession  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Closes the ledgers of a test."""
    while LEDGERS:
        _, ledger = LEDGERS.popitem()
        ledger.close()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
