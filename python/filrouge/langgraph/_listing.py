"""Lists checkpoints, and follows their parents."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite
from langgraph.checkpoint.serde.base import SerializerProtocol

from filrouge.errors import Gone
from filrouge.langgraph._items import Found, Scan
from filrouge.langgraph._names import Place
from filrouge.langgraph._reading import Reading, checkpoint_key, names_of
from filrouge.langgraph._work import Work

AT_ONCE = 16


@dataclass
class Listing:
    """The checkpoints of some namespaces, the newest first."""

    scans: list[Scan]
    filter: Mapping[str, Any]
    before: str | None
    ready: list[deque[CheckpointTuple]] = field(default_factory=list[deque[CheckpointTuple]])
    """For each namespace, the checkpoints that were read and not yet listed."""
    heads: list[tuple[str, int]] | None = None
    """The next checkpoint of each namespace, by id, the newest last; None before the first is read."""


@dataclass
class Walk:
    """What a walk along the parents of a checkpoint has found, the newest first."""

    missing: list[str]
    """The channels that have no value yet."""
    writes: list[PendingWrite] = field(default_factory=list[PendingWrite])
    seeds: dict[str, Any] = field(default_factory=dict[str, Any])

    def take(self, found: CheckpointTuple) -> None:
        """Takes the next ancestor."""
        self.writes += [write for write in reversed(found.pending_writes or []) if write[1] in self.missing]
        self.seeds.update(found.checkpoint["channel_values"])
        self.missing = [channel for channel in self.missing if channel not in self.seeds]

    def history(self, channels: Sequence[str]) -> dict[str, DeltaChannelHistory]:
        """What was found of each channel, the oldest first."""
        found: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            found[channel] = {"writes": [write for write in reversed(self.writes) if write[1] == channel]}
            if channel in self.seeds:
                found[channel]["seed"] = self.seeds[channel]
        return found


class Lists:
    """Lists checkpoints, and follows their parents."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._sessions, self._items = reading, reading.sessions, reading.items

    def listing(
        self, config: RunnableConfig | None, filter: Mapping[str, Any] | None, before: RunnableConfig | None
    ) -> Work[Listing]:
        """Begins a list of checkpoints."""
        if config is None:
            places = yield from self._sessions.all()
        elif config.get("configurable", {}).get("checkpoint_ns") is None:
            places = yield from self._sessions.namespaces(names_of(config)[0])
        else:
            places = [self._sessions.place(*names_of(config)[:2])]
        before_id = before.get("configurable", {}).get("checkpoint_id") if before else None
        listing = Listing([Scan(place) for place in places], filter or {}, before_id)
        if before_id and len(places) == 1:
            key, names = checkpoint_key(before_id, 0), (places[0].thread_id, places[0].namespace)
            first = yield from self._sessions.in_place(*names, lambda place: self._sessions.turn(place, key))
            if first is not None:
                listing = Listing([Scan(self._sessions.place(*names), first["first_seq"])], listing.filter, None)
        listing.ready = [deque() for _ in listing.scans]
        return listing

    def next(self, serde: SerializerProtocol, listing: Listing) -> Work[CheckpointTuple | None]:
        """The next checkpoint of a list; None at its end."""
        if listing.heads is None:
            listing.heads = []
            for number in range(len(listing.scans)):
                yield from self._fill(serde, listing, listing.heads, number)
        if not listing.heads:
            return None
        _, number = listing.heads.pop()
        found = listing.ready[number].popleft()
        yield from self._fill(serde, listing, listing.heads, number)
        return found

    def _fill(
        self, serde: SerializerProtocol, listing: Listing, heads: list[tuple[str, int]], number: int
    ) -> Work[None]:
        """Reads on in a namespace, if its checkpoints are used up."""
        scan, ready = listing.scans[number], listing.ready[number]
        while not ready and (scan.ready or not scan.ended):
            ready.extend((yield from self._batch(serde, scan, listing)))
        if ready:
            insort(heads, (str(ready[0].checkpoint["id"]), number))

    def _batch(self, serde: SerializerProtocol, scan: Scan, listing: Listing) -> Work[list[CheckpointTuple]]:
        try:
            yield from self._items.advance(scan)
        except Gone as error:
            if error.code != "session_erased":
                raise
            self._sessions.leave(scan.place)
            scan.ended = scan.before is not None
            scan.place = self._sessions.place(scan.place.thread_id, scan.place.namespace)
            return []
        most = AT_ONCE if len(listing.scans) == 1 else 1
        found: list[Found] = []
        while scan.ready and len(found) < most:
            found.append((yield from self._reading.next_of(scan)))
        reads = yield from self._reading.read(serde, scan.place, found, scan.items)
        wanted = [
            read
            for read in reads
            if contains(read.metadata, listing.filter) and (listing.before is None or read.id < listing.before)
        ]
        tuples = yield from self._reading.tuples(serde, scan.place, wanted, scan.items)
        if not scan.ready:
            scan.items.clear()
        return tuples

    def history(
        self, serde: SerializerProtocol, config: RunnableConfig, channels: Sequence[str]
    ) -> Work[dict[str, DeltaChannelHistory]]:
        """What was written to channels since the newest ancestor that has their value, and this value."""
        thread_id, namespace, checkpoint_id = names_of(config)

        def walk(place: Place) -> Work[dict[str, DeltaChannelHistory]]:
            scan = Scan(place)
            if checkpoint_id:
                turn = yield from self._sessions.turn(place, checkpoint_key(checkpoint_id, 0))
                scan.before = turn["last_seq"] + 1 if turn else None
            return (yield from self._walk(serde, scan, checkpoint_id, Walk(list(channels)))).history(channels)

        return (yield from self._sessions.in_place(thread_id, namespace, walk))

    def _walk(self, serde: SerializerProtocol, scan: Scan, checkpoint_id: str | None, walk: Walk) -> Work[Walk]:
        """Follows the parents of a checkpoint, or of the newest, until all channels have a value."""
        is_target = True
        while walk.missing:
            yield from self._items.advance(scan)
            if not scan.ready:
                break
            found = yield from self._reading.next_of(scan)
            if checkpoint_id not in (None, found.item.part["id"]):
                continue
            if not is_target:
                reads = yield from self._reading.read(serde, scan.place, [found], scan.items)
                tuples = yield from self._reading.tuples(serde, scan.place, reads, scan.items, walk.missing)
                walk.take(tuples[0])
            is_target, checkpoint_id = False, found.item.part.get("parent")
            if checkpoint_id is None:
                break
        return walk


def contains(found: Any, wanted: Any) -> bool:
    """Whether metadata contain what a filter names, as the operator `@>` of PostgreSQL.

    >>> contains({"step": 1, "parents": {"a": 1, "b": 2}}, {"parents": {"a": 1}}), contains({"step": 1}, {"step": 2})
    (True, False)
    """
    if isinstance(wanted, dict):
        names = cast("dict[str, Any]", wanted)
        return isinstance(found, dict) and all(name in found and contains(found[name], names[name]) for name in names)
    if isinstance(wanted, list):
        members = cast("Iterable[Any]", found) if isinstance(found, list) else ()
        return all(any(contains(one, value) for one in members) for value in cast("Iterable[Any]", wanted))
    return bool(found == wanted)
