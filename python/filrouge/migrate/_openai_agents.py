"""Stores of `SQLiteSession` of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from filrouge.migrate._messages import MessageSource
from filrouge.migrate._source import Copied
from filrouge.openai_agents import FilrougeSession

if TYPE_CHECKING:
    from filrouge import Ledger


class SqliteSessions(MessageSource):
    """The file of `SQLiteSession`, and the names of its tables."""

    def __init__(self, path: str, table: str | None) -> None:
        self._file = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
        self._table = '"' + (table or "agent_messages").replace('"', '""') + '"'

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def conversations(self) -> list[str]:
        """The ids of all sessions with messages, the oldest first."""
        query = f"SELECT session_id FROM {self._table} GROUP BY session_id ORDER BY MIN(id)"
        with closing(self._file.execute(query)) as found:
            return [str(row[0]) for row in found]

    def read(self, conversation: str, copied: Copied) -> list[Any]:
        """The items of a session. As in the SDK, those that are not JSON are left out."""
        query = f"SELECT id, message_data FROM {self._table} WHERE session_id = ? ORDER BY id"
        items: list[Any] = []
        with closing(self._file.execute(query, (conversation,))) as found:
            for number, data in found:
                try:
                    items.append(json.loads(data))
                except ValueError as error:
                    copied.skip(f"row {number} is not JSON: {error}")
        return items

    def known(self, target: str, ledger: Ledger) -> list[Any]:
        """The items that the session has."""
        return list(asyncio.run(FilrougeSession(target, ledger).get_items()))

    def add(self, target: str, ledger: Ledger, messages: Sequence[Any]) -> None:
        """Adds items to the session."""
        asyncio.run(FilrougeSession(target, ledger).add_items(list(messages)))

    def is_user(self, message: Any) -> bool:
        """Whether the item is the user's."""
        return isinstance(message, dict) and cast("dict[str, Any]", message).get("role") == "user"
