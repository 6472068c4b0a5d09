"""The checkpointers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from filrouge.langgraph._listing import Lists
from filrouge.langgraph._reading import Reading
from filrouge.langgraph._removal import Removal
from filrouge.langgraph._sessions import Sessions
from filrouge.langgraph._values import Cache
from filrouge.langgraph._work import T, Work, run, run_async
from filrouge.langgraph._writing import Writing

if TYPE_CHECKING:
    from filrouge import AsyncLedger, Ledger

PREFIX = "langgraph:"
CACHE_BYTES = 64 << 20


class _Saver(BaseCheckpointSaver[str]):
    """What both checkpointers share."""

    def __init__(self, *, prefix: str, serde: SerializerProtocol | None, cache_bytes: int) -> None:
        super().__init__(serde=serde)
        self._reading = Reading(Sessions(prefix), Cache(cache_bytes))
        self._lists, self._writing, self._removal = (
            Lists(self._reading),
            Writing(self._reading),
            Removal(self._reading),
        )

    def _wait(self, work: Work[T]) -> T:
        raise NotImplementedError

    async def _await(self, work: Work[T]) -> T:
        raise NotImplementedError

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint of a config, with its pending writes; without a `checkpoint_id`, the newest."""
        return self._wait(self._reading.get(self.serde, config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a namespace, of a thread, or (without a config) of all threads, the newest first.

        A namespace is in the order of its commits, whatever the clocks of its writers."""
        listing = self._wait(self._lists.listing(config, filter, before))
        while limit is None or limit > 0:
            found = self._wait(self._lists.next(self.serde, listing))
            if found is None:
                return
            yield found
            limit = None if limit is None else limit - 1

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Records a checkpoint: one request, and one flush of the disk."""
        return self._wait(self._writing.put(self.serde, config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Records the writes of a task: one request, and one flush of the disk."""
        self._wait(self._writing.put_writes(self.serde, config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Erases all checkpoints and writes of a thread. It may begin again."""
        self._wait(self._removal.delete_thread(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erases the checkpoints and writes of runs. This reads all threads."""
        self._wait(self._removal.delete_for_runs(self.serde, set(run_ids)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints and writes of a thread into a new one. To resume an interrupted copy, repeat it."""
        self._wait(self._removal.copy_thread(str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erases the checkpoints of threads, except (with `keep_latest`) the newest of each namespace."""
        self._wait(self._removal.prune(self.serde, thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels since their newest stored values."""
        return self._wait(self._lists.history(self.serde, config, channels))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await self._await(self._reading.get(self.serde, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        listing = await self._await(self._lists.listing(config, filter, before))
        while limit is None or limit > 0:
            found = await self._await(self._lists.next(self.serde, listing))
            if found is None:
                return
            yield found
            limit = None if limit is None else limit - 1

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As `put`."""
        return await self._await(self._writing.put(self.serde, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As `put_writes`."""
        await self._await(self._writing.put_writes(self.serde, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await self._await(self._removal.delete_thread(str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As `delete_for_runs`."""
        await self._await(self._removal.delete_for_runs(self.serde, set(run_ids)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As `copy_thread`."""
        await self._await(self._removal.copy_thread(str(source_thread_id), str(target_thread_id)))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As `prune`."""
        await self._await(self._removal.prune(self.serde, thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As `get_delta_channel_history`."""
        return await self._await(self._lists.history(self.serde, config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that no concurrent writer chooses as well."""
        number = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{number + 1:032}.{random.getrandbits(32):08x}"


class FilrougeSaver(_Saver):
    """A LangGraph checkpointer over a `Ledger`.

    Its methods for asyncio run in a thread; `AsyncFilrougeSaver` needs none.

    `prefix` begins the ids of its sessions. `cache_bytes` limits the memory for values of channels, from which the
    next values are stored as differences.

    >>> with filrouge.open("app.db") as ledger:
    ...     graph = builder.compile(checkpointer=FilrougeSaver(ledger))
    ...     graph.invoke({"messages": ["Which way?"]}, {"configurable": {"thread_id": "1"}})["messages"]
    ['Which way?', 'To the left.']
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        prefix: str = PREFIX,
        serde: SerializerProtocol | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__(prefix=prefix, serde=serde, cache_bytes=cache_bytes)
        self._ledger = ledger

    def _wait(self, work: Work[T]) -> T:
        return run(self._ledger, work)

    async def _await(self, work: Work[T]) -> T:
        return await asyncio.to_thread(run, self._ledger, work)


class AsyncFilrougeSaver(_Saver):
    """A LangGraph checkpointer over an `AsyncLedger`.

    Other threads than that of its event loop may call its methods for threads.

    >>> async with filrouge.open_async("app.db") as ledger:
    ...     graph = builder.compile(checkpointer=AsyncFilrougeSaver(ledger))
    ...     config = {"configurable": {"thread_id": "2"}}
    ...     (await graph.ainvoke({"messages": ["Which way?"]}, config))["messages"]
    ['Which way?', 'To the left.']
    """

    def __init__(
        self,
        ledger: AsyncLedger,
        *,
        prefix: str = PREFIX,
        serde: SerializerProtocol | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__(prefix=prefix, serde=serde, cache_bytes=cache_bytes)
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()

    def _wait(self, work: Work[T]) -> T:
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            raise RuntimeError("this would block the event loop: use aget_tuple, aput, … or ainvoke, astream, …")
        return asyncio.run_coroutine_threadsafe(self._await(work), self._loop).result()

    async def _await(self, work: Work[T]) -> T:
        return await run_async(self._ledger, work)
