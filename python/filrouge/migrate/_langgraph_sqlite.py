"""The file of LangGraph's `SqliteSaver`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from filrouge.migrate._langgraph import Checkpoints


class SqliteCheckpoints(Checkpoints):
    """The file of `SqliteSaver`."""

    def __init__(self, path: str, table: str | None) -> None:
        self._file = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        super().__init__(SqliteSaver(self._file))
        self.stack.callback(self._file.close)

    def conversations(self) -> list[str]:
        """The ids of all threads, the oldest first."""
        query = "SELECT thread_id FROM checkpoints GROUP BY thread_id ORDER BY MIN(checkpoint_id)"
        with closing(self._file.execute(query)) as found:
            return [str(row[0]) for row in found]
