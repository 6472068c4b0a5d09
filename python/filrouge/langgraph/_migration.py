"""Copies the checkpoints of another checkpointer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, PendingWrite

from filrouge.langgraph._reading import names_of


def copy_checkpoints(source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]) -> int:
    """Copies all checkpoints and pending writes, such as those of a `SqliteSaver` or a `PostgresSaver`.

    Returns how many checkpoints it copied. To resume an interrupted copy, repeat it.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> with filrouge.open("app.db") as ledger:
    ...     copy_checkpoints(InMemorySaver(), FilrougeSaver(ledger))
    0
    """
    configs = [found.config for found in source.list(None)]
    for config in reversed(configs):
        found = source.get_tuple(config)
        if found is not None:
            stored = target.put(_parent(found), found.checkpoint, found.metadata, {})
            for task_id, path, writes in _tasks(found.pending_writes or ()):
                target.put_writes(stored, writes, task_id, path)
    return len(configs)


async def acopy_checkpoints(source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any]) -> int:
    """As `copy_checkpoints`."""
    configs = [found.config async for found in source.alist(None)]
    for config in reversed(configs):
        found = await source.aget_tuple(config)
        if found is not None:
            stored = await target.aput(_parent(found), found.checkpoint, found.metadata, {})
            for task_id, path, writes in _tasks(found.pending_writes or ()):
                await target.aput_writes(stored, writes, task_id, path)
    return len(configs)


def _parent(found: CheckpointTuple) -> RunnableConfig:
    """The config under which a checkpoint is put: that of its parent."""
    thread_id, namespace, _ = names_of(found.config)
    names: dict[str, str | None] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if found.parent_config:
        names["checkpoint_id"] = names_of(found.parent_config)[2]
    return {"configurable": names}


def _tasks(writes: Iterable[PendingWrite]) -> Iterator[tuple[str, str, list[tuple[str, Any]]]]:
    """The writes of each task, with a path that keeps the order of the tasks."""
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in writes:
        tasks.setdefault(task_id, []).append((channel, value))
    for number, (task_id, written) in enumerate(tasks.items()):
        yield task_id, f"{number:010}", written
