"""Checkpointers of LangGraph: each checkpoint is copied with its writes, through the savers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from filrouge.langgraph import FilrougeSaver
from filrouge.langgraph._reading import names_of
from filrouge.migrate._source import Copied, Source, Target

CheckpointKey = tuple[str, str]
"""A namespace and the id of a checkpoint in it."""


class Checkpoints(Source):
    """A saver that exists."""

    entries = "checkpoints"

    def __init__(self, saver: BaseCheckpointSaver[Any], stack: ExitStack | None = None) -> None:
        self.saver = saver
        self.stack = stack or ExitStack()

    def close(self) -> None:
        """Closes the store."""
        self.stack.close()

    @abstractmethod
    def conversations(self) -> list[str]:
        """The ids of all threads."""

    def keys(self, thread: str) -> Iterable[CheckpointKey]:
        """The checkpoints of a thread."""
        return [key_of(found) for found in self.saver.list({"configurable": {"thread_id": thread}})]

    def copy(self, conversation: str, target: Target, step: Callable[[], None]) -> Copied:
        """Copies the checkpoints that the ledger does not have, parents first: their ids are ordered by time."""
        keys = sorted(self.keys(conversation), key=lambda key: key[1])
        copied = Copied(total=len(keys))
        if target.ledger is None:
            copied.added = copied.total
            return copied
        saver = FilrougeSaver(target.ledger)
        there = {key_of(found) for found in saver.list({"configurable": {"thread_id": target.session_id}})}
        if target.dry_run:
            copied.added = len(set(keys) - there)
            return copied
        versions: dict[CheckpointKey, dict[str, Any]] = {}
        for key in keys:
            found = self.saver.get_tuple(config_of(conversation, key))
            if found is None:
                copied.skip(f"the checkpoint {key[1]} was removed meanwhile")
                continue
            versions[key] = dict(found.checkpoint["channel_versions"])
            if key not in there:
                copy_checkpoint(found, target.session_id, saver, versions)
                copied.added += 1
            copy_writes(found, config_of(target.session_id, key), saver)
            step()
        return copied


def config_of(thread: str, key: CheckpointKey | None, namespace: str = "") -> Any:
    """How LangGraph names a checkpoint; without a key, none in a namespace."""
    if key is None:
        return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": key[0], "checkpoint_id": key[1]}}


def key_of(found: CheckpointTuple) -> CheckpointKey:
    """What names a checkpoint in its thread."""
    _, namespace, identifier = names_of(found.config)
    return namespace, identifier or ""


def copy_checkpoint(
    found: CheckpointTuple, target: str, saver: FilrougeSaver, versions: dict[CheckpointKey, dict[str, Any]]
) -> None:
    """Copies one checkpoint under its parent, with the channels that are new in it."""
    namespace = key_of(found)[0]
    parent: CheckpointKey | None = None
    if found.parent_config is not None:
        parent = (namespace, names_of(found.parent_config)[2] or "")
    before = versions.get(parent, {}) if parent else {}
    now: dict[str, Any] = dict(found.checkpoint["channel_versions"])
    new = {channel: version for channel, version in now.items() if before.get(channel) != version}
    saver.put(config_of(target, parent, namespace), found.checkpoint, found.metadata, new)


def copy_writes(found: CheckpointTuple, config: Any, saver: FilrougeSaver) -> None:
    """Copies the pending writes of a checkpoint that the ledger does not have, task by task."""
    if not found.pending_writes:
        return
    there = saver.get_tuple(config)
    known = {(task, channel) for task, channel, _ in (there.pending_writes if there else None) or ()}
    tasks: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in found.pending_writes:
        tasks.setdefault(task, []).append((channel, value))
    for number, (task, writes) in enumerate(tasks.items()):
        if any((task, channel) not in known for channel, _ in writes):
            # LangGraph does not tell a task's path; this one keeps the order of the tasks.
            saver.put_writes(config, writes, task, f"{number:010}")
