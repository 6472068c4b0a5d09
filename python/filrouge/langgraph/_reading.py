"""Reads checkpoints."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, CheckpointTuple, PendingWrite, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from filrouge.langgraph._format import Item, Write, read_skeleton, read_writes
from filrouge.langgraph._items import Found, Items, Scan
from filrouge.langgraph._names import Place, key_of
from filrouge.langgraph._sessions import Sessions
from filrouge.langgraph._values import Cache, Record, Value
from filrouge.langgraph._work import Work

COUNTERS = 4096


def checkpoint_key(checkpoint_id: str, revision: int) -> str:
    """The key of the turn that records a checkpoint."""
    return f"langgraph:c:{key_of(checkpoint_id)}" + (f":{revision}" if revision else "")


def writes_key(checkpoint_id: str, number: int) -> str:
    """The key of the turn that records a task's writes."""
    return f"langgraph:w:{key_of(checkpoint_id)}:{number}"


def config_of(place: Place, checkpoint_id: str) -> RunnableConfig:
    """The config of a stored checkpoint."""
    names = {"thread_id": place.thread_id, "checkpoint_ns": place.namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": names}


def names_of(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread, namespace and checkpoint of a config."""
    names = config.get("configurable", {})
    return str(names["thread_id"]), names.get("checkpoint_ns") or "", names.get("checkpoint_id")


@dataclass(frozen=True)
class Read:
    """A stored checkpoint whose values are not read yet."""

    found: Found
    record: Record
    checkpoint: dict[str, Any]
    metadata: CheckpointMetadata

    @property
    def id(self) -> str:
        """Its id."""
        checkpoint_id: str = self.found.item.part["id"]
        return checkpoint_id

    @property
    def parent(self) -> str | None:
        """The id of the checkpoint before it."""
        parent: str | None = self.found.item.part.get("parent")
        return parent


class Counters:
    """The next number for the writes of a checkpoint, for the checkpoints used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: OrderedDict[tuple[str, str], int] = OrderedDict()

    def take(self, place: Place, checkpoint_id: str) -> int:
        """The next number."""
        with self._lock:
            number = self._next.get((place.session_id, checkpoint_id), 0)
            self._set(place, checkpoint_id, number + 1)
            return number

    def next(self, place: Place, checkpoint_id: str) -> int:
        """The next number, which is not taken yet."""
        with self._lock:
            return self._next.get((place.session_id, checkpoint_id), 0)

    def raise_to(self, place: Place, checkpoint_id: str, number: int) -> None:
        """Notes that lower numbers are used."""
        with self._lock:
            self._set(place, checkpoint_id, max(number, self._next.get((place.session_id, checkpoint_id), 0)))

    def _set(self, place: Place, checkpoint_id: str, number: int) -> None:
        self._next[place.session_id, checkpoint_id] = number
        self._next.move_to_end((place.session_id, checkpoint_id))
        if len(self._next) > COUNTERS:
            self._next.popitem(last=False)


class Reading:
    """Reads checkpoints."""

    def __init__(self, sessions: Sessions, cache: Cache) -> None:
        self.sessions, self.cache, self.items, self.counters = sessions, cache, Items(cache), Counters()

    def get(self, serde: SerializerProtocol, config: RunnableConfig) -> Work[CheckpointTuple | None]:
        """The checkpoint of a config; without a `checkpoint_id`, the newest."""
        thread_id, namespace, checkpoint_id = names_of(config)

        def get(place: Place) -> Work[CheckpointTuple | None]:
            scan = Scan(place)
            if checkpoint_id:
                found = yield from self.find(place, checkpoint_id)
            else:
                yield from self.items.advance(scan)
                found = (yield from self.next_of(scan)) if scan.ready else None
            if found is None:
                return None
            self.counters.raise_to(place, found.item.part["id"], len(found.writes))
            reads = yield from self.read(serde, place, [found], scan.items)
            return (yield from self.tuples(serde, place, reads, scan.items))[0]

        return (yield from self.sessions.in_place(thread_id, namespace, get))

    def find(self, place: Place, checkpoint_id: str) -> Work[Found | None]:
        """A checkpoint by its id, with its writes."""
        revisions = yield from self._seqs(place, lambda number: checkpoint_key(checkpoint_id, number), 1, 1)
        if not revisions:
            return None
        writes = yield from self._seqs(place, lambda number: writes_key(checkpoint_id, number), 1, 2)
        items = yield from self.items.at(place, [revisions[-1], *writes])
        if revisions[-1] not in items:
            return None
        return Found(items[revisions[-1]], [items[seq] for seq in writes if seq in items])

    def next_of(self, scan: Scan) -> Work[Found]:
        """The next checkpoint of a scan that is ready, with the writes that overtook it."""
        found = scan.ready.popleft()
        early = set(range(found.item.part.get("early", 0))) - {item.part["number"] for item in found.writes}
        seqs: list[int] = []
        for number in early:
            turn = yield from self.sessions.turn(scan.place, writes_key(found.item.part["id"], number))
            if turn is not None:
                seqs.append(turn["first_seq"] + 1)
        overtook = yield from self.items.at(scan.place, seqs)
        return Found(found.item, [*(overtook[seq] for seq in sorted(overtook)), *found.writes])

    def _seqs(self, place: Place, key: Callable[[int], str], least: int, gap: int) -> Work[list[int]]:
        """The first items of numbered turns. Numbers up to `least` are tried, and `gap` more after each that is found:
        a number is missing if its turn was erased, or could not be written."""
        seqs: list[int] = []
        number, until = 0, least
        while number <= until:
            turn = yield from self.sessions.turn(place, key(number))
            if turn is not None:
                seqs.append(turn["first_seq"] + 1)
                until = max(until, number + gap)
            number += 1
        return seqs

    def read(
        self, serde: SerializerProtocol, place: Place, found: Sequence[Found], known: Mapping[int, Item]
    ) -> Work[list[Read]]:
        """Reads checkpoints, but not yet the values of their channels."""
        skeletons = yield from self.items.values(place, [one.item.skeleton for one in found], known)
        reads: list[Read] = []
        for one in found:
            skeleton = skeletons[one.item.skeleton]
            kind, data, inline = read_skeleton(skeleton.raw)
            checkpoint, metadata = serde.loads_typed((kind, data))
            refs: dict[str, int | tuple[str, bytes]] = {**inline, **one.item.refs}
            record = Record(refs, checkpoint["channel_versions"], skeleton)
            self.cache.add_record(place.session_id, one.item.part["id"], record)
            reads.append(Read(one, record, checkpoint, metadata))
        return reads

    def tuples(
        self,
        serde: SerializerProtocol,
        place: Place,
        reads: Sequence[Read],
        known: Mapping[int, Item],
        channels: Sequence[str] | None = None,
    ) -> Work[list[CheckpointTuple]]:
        """Reads the values of checkpoints; of all channels, or only of some."""
        seqs = {
            ref
            for read in reads
            for channel, ref in read.record.refs.items()
            if isinstance(ref, int) and (channels is None or channel in channels)
        }
        values = yield from self.items.values(place, seqs, known)
        return [self._tuple(serde, place, read, values, channels) for read in reads]

    def _tuple(
        self,
        serde: SerializerProtocol,
        place: Place,
        read: Read,
        values: Mapping[int, Value],
        channels: Sequence[str] | None,
    ) -> CheckpointTuple:
        loaded: dict[str, Any] = {}
        for channel, ref in read.record.refs.items():
            if channels is None or channel in channels:
                dumped = (values[ref].kind, values[ref].raw) if isinstance(ref, int) else ref
                loaded[channel] = serde.loads_typed(dumped)
        checkpoint: Any = {**read.checkpoint, "channel_values": loaded}
        parent = config_of(place, read.parent) if read.parent else None
        writes = pending_writes(serde, read.found.writes)
        return CheckpointTuple(config_of(place, read.id), checkpoint, read.metadata, parent, writes)


def pending_writes(serde: SerializerProtocol, items: Iterable[Item]) -> list[PendingWrite]:
    """The writes of a checkpoint. Of two writes of a task with the same index, the first counts; of errors, interrupts
    and resumptions, the last."""
    kept: dict[tuple[str, str, int], Write] = {}
    for item in items:
        for write in read_writes(item.part):
            key = writes_sort_key(item.part.get("path_of_task", ""), item.part["task"], write[0])
            same = next((old for old in kept if old[1:] == key[1:]), None)
            if same is None:
                kept[key] = write
            elif item.part.get("replaces"):
                kept[same] = write
    return [(key[1], kept[key][1], serde.loads_typed(kept[key][2:])) for key in sorted(kept)]
