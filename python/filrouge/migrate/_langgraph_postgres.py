"""The database of LangGraph's `PostgresSaver`."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver

from filrouge.migrate._langgraph import Checkpoints


class PostgresCheckpoints(Checkpoints):
    """The database of `PostgresSaver`."""

    def __init__(self, url: str, table: str | None) -> None:
        stack = ExitStack()
        super().__init__(stack.enter_context(PostgresSaver.from_conn_string(url)), stack)
        self._connection = stack.enter_context(psycopg.connect(url))

    def conversations(self) -> list[str]:
        """The ids of all threads, the oldest first."""
        query = "SELECT thread_id FROM checkpoints GROUP BY thread_id ORDER BY MIN(checkpoint_id)"
        return [str(row[0]) for row in self._connection.execute(query)]
