"""The keys of LangGraph's `RedisSaver`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import redis
from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.redis.util import from_storage_safe_str

from filrouge.migrate._langgraph import CheckpointKey, Checkpoints

PATHS = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")


class RedisCheckpoints(Checkpoints):
    """The keys of `RedisSaver`."""

    def __init__(self, url: str, table: str | None) -> None:
        client: Any = redis.Redis.from_url(url)  # pyright: ignore[reportUnknownMemberType]
        saver = RedisSaver(redis_client=client)
        super().__init__(saver)
        saver.setup()
        self.stack.callback(client.close)
        self._redis = client
        self._threads: dict[str, list[CheckpointKey]] | None = None

    def conversations(self) -> list[str]:
        """The ids of all threads, the oldest first."""
        threads = self._scanned()
        return sorted(threads, key=lambda thread: min(identifier for _, identifier in threads[thread]))

    def keys(self, thread: str) -> Iterable[CheckpointKey]:
        """The checkpoints of a thread; the saver lists at most 10,000."""
        return self._scanned()[thread]

    def _scanned(self) -> dict[str, list[CheckpointKey]]:
        if self._threads is None:
            self._threads = {}
            for key in self._redis.scan_iter(match="checkpoint:*", count=1000):
                row = self._redis.json().get(key, *PATHS)
                thread, namespace, identifier = (row[path][0] for path in PATHS)
                self._threads.setdefault(thread, []).append((from_storage_safe_str(namespace), identifier))
        return self._threads
