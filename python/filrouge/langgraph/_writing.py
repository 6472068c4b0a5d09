"""Writes checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from filrouge.langgraph._format import (
    Write,
    checkpoint_part,
    first_seq_of,
    skeleton_bytes,
    turn_body,
    value_part,
    writes_part,
)
from filrouge.langgraph._names import Place
from filrouge.langgraph._reading import Reading, checkpoint_key, config_of, names_of, writes_key
from filrouge.langgraph._values import Packed, Record, Value, pack
from filrouge.langgraph._work import Work

SHORT = 256
"""The longest value, in bytes, that is stored in its checkpoint instead of an item of its own."""


class Writing:
    """Writes checkpoints."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._sessions, self._cache = reading, reading.sessions, reading.cache

    def put(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Work[RunnableConfig]:
        """Records a checkpoint."""
        thread_id, namespace, parent_id = names_of(config)
        values = checkpoint["channel_values"]
        rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        kind, data = serde.dumps_typed([rest, get_checkpoint_metadata(config, metadata)])
        title = f"LangGraph checkpoint, step {metadata.get('step')} ({metadata.get('source')})"
        dumped: dict[str, tuple[str, bytes]] = {}

        def write(place: Place) -> Work[RunnableConfig]:
            parent = (yield from self._record(serde, place, parent_id)) if parent_id else None
            refs: dict[str, int | tuple[str, bytes]] = {}
            own: dict[str, Packed] = {}
            for channel, value in values.items():
                kept = None if channel in new_versions else self._kept(parent, checkpoint, channel)
                if kept is not None:
                    refs[channel] = kept
                    continue
                if channel not in dumped:
                    dumped[channel] = serde.dumps_typed(value)
                stored = self._stored(place, parent, channel, dumped[channel])
                if isinstance(stored, Packed):
                    own[channel] = stored
                else:
                    refs[channel] = stored
            inline = {channel: ref for channel, ref in refs.items() if not isinstance(ref, int)}
            skeleton = pack("", skeleton_bytes(kind, data, inline), parent.skeleton if parent else None)
            seqs = {channel: ref for channel, ref in refs.items() if isinstance(ref, int)}
            part = checkpoint_part(checkpoint["id"], parent_id, seqs, list(own))
            if early := self._reading.counters.next(place, checkpoint["id"]):
                part["early"] = early
            seq = yield from self._record_turn(place, title, [part, *map(value_part, (skeleton, *own.values()))])
            if seq is not None:
                self._keep(place, checkpoint, refs, (skeleton.stored(seq + 1), own))
            return config_of(place, checkpoint["id"])

        return (yield from self._sessions.in_place(thread_id, namespace, write))

    def _record(self, serde: SerializerProtocol, place: Place, checkpoint_id: str) -> Work[Record | None]:
        """What is known of a checkpoint; if this process does not know it, it is read, with its values."""
        record = self._cache.record(place.session_id, checkpoint_id)
        if record is None:
            found = yield from self._reading.find(place, checkpoint_id)
            if found is not None:
                reads = yield from self._reading.read(serde, place, [found], {})
                yield from self._reading.tuples(serde, place, reads, {})
                record = reads[0].record
        return record

    def _kept(self, parent: Record | None, checkpoint: Checkpoint, channel: str) -> int | tuple[str, bytes] | None:
        """Where the parent has the value of a channel that has not changed."""
        if parent is None or parent.versions.get(channel) != checkpoint["channel_versions"].get(channel):
            return None
        return parent.refs.get(channel)

    def _stored(
        self, place: Place, parent: Record | None, channel: str, dumped: tuple[str, bytes]
    ) -> Packed | int | tuple[str, bytes]:
        """How a value is stored: in the checkpoint, as the parent's, or in an item of its own."""
        kind, raw = dumped
        if len(raw) <= SHORT:
            return dumped
        ref = parent.refs.get(channel) if parent else None
        before = self._cache.value(place.session_id, ref) if isinstance(ref, int) else None
        if before is not None and (before.kind, before.raw) == (kind, raw):
            return before.seq
        return pack(kind, raw, before)

    def _record_turn(self, place: Place, title: str, parts: list[dict[str, Any]]) -> Work[int | None]:
        """Records the turn of a checkpoint. Returns the seq of its first part."""
        revision = 0
        while True:
            body = turn_body(checkpoint_key(parts[0]["id"], revision), title, parts)
            turn = yield from self._sessions.record(place, body)
            seq = first_seq_of(turn, len(parts)) if not turn["differs"] else turn["first_seq"] + 1
            if not turn["replayed"] or seq is None:
                return seq
            # What has the same key may be another checkpoint under this id, or one that was erased.
            is_there = bool((yield from self._reading.items.at(place, [seq])))
            if is_there and not turn["differs"]:
                return seq
            if is_there:
                parts[0]["replaces"] = True
            revision += 1

    def _keep(
        self,
        place: Place,
        checkpoint: Checkpoint,
        refs: dict[str, int | tuple[str, bytes]],
        written: tuple[Value, Mapping[str, Packed]],
    ) -> None:
        """Keeps in memory what the next checkpoint differs from."""
        skeleton, own = written
        self._cache.add_value(place.session_id, skeleton)
        for seq, (channel, packed) in enumerate(own.items(), skeleton.seq + 1):
            refs[channel] = seq
            self._cache.add_value(place.session_id, packed.stored(seq))
        record = Record(refs, checkpoint["channel_versions"], skeleton)
        self._cache.add_record(place.session_id, checkpoint["id"], record)

    def put_writes(
        self,
        serde: SerializerProtocol,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Work[None]:
        """Records the writes of a task."""
        thread_id, namespace, checkpoint_id = names_of(config)
        if checkpoint_id is None:
            raise ValueError("put_writes needs the checkpoint_id in its config")
        dumped: list[Write] = []
        for index, (channel, value) in enumerate(writes):
            dumped.append((WRITES_IDX_MAP.get(channel, index), channel, *serde.dumps_typed(value)))
        replaces = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        part = writes_part(checkpoint_id, task_id, task_path, dumped, replaces=replaces)

        def write(place: Place) -> Work[None]:
            while True:
                part["number"] = self._reading.counters.take(place, checkpoint_id)
                key = writes_key(checkpoint_id, part["number"])
                turn = yield from self._sessions.record(place, turn_body(key, "LangGraph writes", [part]))
                if not turn["replayed"] or not (turn["differs"] or turn["deleted_at"]):
                    first_seq_of(turn, 1)
                    return

        yield from self._sessions.in_place(thread_id, namespace, write)
