"""Tables of LangChain's `SQLChatMessageHistory` and `PostgresChatMessageHistory`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from langchain_core.messages import message_to_dict, messages_from_dict

from filrouge.langchain import FilrougeChatMessageHistory
from filrouge.migrate._messages import MessageSource
from filrouge.migrate._source import Copied

if TYPE_CHECKING:
    from filrouge import Ledger


class Messages(MessageSource):
    """A table with the columns `id`, `session_id` and `message`, in any database that SQLAlchemy reads."""

    def __init__(self, url: str, table: str | None) -> None:
        self._engine = sql.create_engine(with_driver(url))
        columns: list[sql.ColumnClause[Any]] = [sql.column(name) for name in ("id", "session_id", "message")]
        self._table = sql.table(table or "message_store", *columns)

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    def conversations(self) -> list[str]:
        """The ids of all conversations, the oldest first."""
        column = self._table.c.session_id
        query = sql.select(column).group_by(column).order_by(sql.func.min(self._table.c.id))
        with self._engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(query)]

    def read(self, conversation: str, copied: Copied) -> list[Any]:
        """The messages of a conversation as dictionaries."""
        is_of = sql.cast(self._table.c.session_id, sql.Text) == conversation
        query = sql.select(self._table.c.id, self._table.c.message).where(is_of).order_by(self._table.c.id)
        messages: list[Any] = []
        with self._engine.connect() as connection:
            for number, stored in connection.execute(query):
                try:
                    read = json.loads(stored) if isinstance(stored, str) else stored
                    messages.append(message_to_dict(messages_from_dict([read])[0]))
                except (ValueError, KeyError, TypeError) as error:
                    copied.skip(f"row {number} is no message: {error!r}")
        return messages

    def known(self, target: str, ledger: Ledger) -> list[Any]:
        """The messages that the session has."""
        return [message_to_dict(message) for message in FilrougeChatMessageHistory(target, ledger).messages]

    def add(self, target: str, ledger: Ledger, messages: Sequence[Any]) -> None:
        """Adds messages to the session."""
        FilrougeChatMessageHistory(target, ledger).add_messages(messages_from_dict(list(messages)))

    def is_user(self, message: Any) -> bool:
        """Whether the message is the user's."""
        return bool(message["type"] in ("human", "HumanMessageChunk"))


def with_driver(url: str) -> sql.URL:
    """The URL that SQLAlchemy reads: a path is a file of SQLite; psycopg 3 is the driver of PostgreSQL."""
    if "://" not in url:
        url = f"sqlite:///{Path(url).resolve()}"
    read = sql.make_url(url.replace("postgres://", "postgresql://", 1))
    if read.drivername == "postgresql":
        return read.set(drivername="postgresql+psycopg")
    if read.drivername.startswith("sqlite"):
        if not read.database or not Path(read.database).is_file():
            raise FileNotFoundError(f"there is no file {read.database or url}")
        return read.set(drivername="sqlite")
    return read
