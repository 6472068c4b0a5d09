"""Removes checkpoints, and copies threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from filrouge.errors import Conflict
from filrouge.langgraph._format import CHECKPOINT, VALUE, WRITES, Item, turn_body
from filrouge.langgraph._items import Found, Row, runs
from filrouge.langgraph._names import Place
from filrouge.langgraph._reading import Reading, checkpoint_key, writes_key
from filrouge.langgraph._values import differences
from filrouge.langgraph._work import Call, Work

BATCH = 64
MOST_ERASED = 10_000
TITLES = {CHECKPOINT: "LangGraph checkpoint", WRITES: "LangGraph writes"}


class Outline:
    """The items of a session, without their data."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.items = {row.seq: row.item for row in rows if row.item is not None}
        self.turns: dict[str, list[Item]] = {}
        """The items of each turn that has some of these; a turn that was erased in part may have only values."""
        self.checkpoints: dict[str, list[Item]] = {}
        for item in self.items.values():
            self.turns.setdefault(item.turn_id, []).append(item)
            if item.type == CHECKPOINT:
                self.checkpoints.setdefault(item.part["id"], []).append(item)
        self.seqs = {row.seq: row.turn_id for row in rows if row.turn_id in self.turns}

    def newest(self) -> str | None:
        """The id of the newest checkpoint."""
        return next(reversed(self.checkpoints), None)

    def needs(self, checkpoint_id: str) -> set[int]:
        """The seqs of the values that a checkpoint is read from."""
        needed: set[int] = set()
        for item in self.checkpoints[checkpoint_id]:
            for seq in (item.skeleton, *item.refs.values()):
                needed.add(seq)
                needed.update(self.items[seq].path if seq in self.items else ())
        return needed


@dataclass(frozen=True)
class Unit:
    """What one turn of a copy holds."""

    key: str
    title: str
    items: Sequence[Item]


class Removal:
    """Removes checkpoints, and copies threads."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._sessions, self._items = reading, reading.sessions, reading.items

    def delete_thread(self, thread_id: str) -> Work[None]:
        """Erases a thread."""
        for place in (yield from self._sessions.erase(thread_id)):
            self._reading.cache.forget(place.session_id)

    def delete_for_runs(self, serde: SerializerProtocol, run_ids: Collection[str]) -> Work[None]:
        """Erases the checkpoints of runs, in all threads."""

        def kept(place: Place, outline: Outline) -> Work[set[str]]:
            runs = yield from self._metadata(serde, place, outline)
            return {one for one, metadata in runs.items() if metadata.get("run_id") not in run_ids}

        if run_ids:
            for place in (yield from self._sessions.all()):
                yield from self._remove(place, kept, "LangGraph: delete_for_runs")

    def prune(self, serde: SerializerProtocol, thread_ids: Sequence[str], strategy: str) -> Work[None]:
        """Erases threads, or all but the newest checkpoint of each of their namespaces."""

        def kept(place: Place, outline: Outline) -> Work[set[str]]:
            newest = outline.newest()
            return (yield from self._with_snapshots(serde, place, outline, newest)) if newest else set()

        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a list of ids, not one id")
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"no strategy {strategy!r}: keep_latest or delete")
        for thread_id in map(str, thread_ids):
            if strategy == "delete":
                yield from self.delete_thread(thread_id)
                continue
            for place in (yield from self._sessions.namespaces(thread_id)):
                yield from self._remove(place, kept, "LangGraph: prune")

    def _metadata(
        self, serde: SerializerProtocol, place: Place, outline: Outline
    ) -> Work[dict[str, Mapping[str, Any]]]:
        newest = [items[-1].seq for items in outline.checkpoints.values()]
        metadata: dict[str, Mapping[str, Any]] = {}
        for first in range(0, len(newest), BATCH):
            items = yield from self._items.at(place, newest[first : first + BATCH])
            found = [Found(item, []) for item in items.values()]
            for read in (yield from self._reading.read(serde, place, found, {})):
                metadata[read.id] = read.metadata
        return metadata

    def _with_snapshots(
        self, serde: SerializerProtocol, place: Place, outline: Outline, checkpoint_id: str
    ) -> Work[set[str]]:
        """A checkpoint, and those before it from which its channels of type `DeltaChannel` are rebuilt."""
        kept: set[str] = set()
        channels: set[str] = set()
        current: str | None = checkpoint_id
        while current in outline.checkpoints and current not in kept:
            seq = outline.checkpoints[current][-1].seq
            items = yield from self._items.at(place, [seq])
            read = (yield from self._reading.read(serde, place, [Found(items[seq], [])], {}))[0]
            if not kept:
                channels = set(read.metadata.get("counters_since_delta_snapshot", ()))
            kept.add(current)
            channels -= set(read.record.refs)
            if not channels:
                break
            current = read.parent
        return kept

    def _remove(self, place: Place, choose: Callable[[Place, Outline], Work[set[str]]], reason: str) -> Work[None]:
        """Erases the turns of all checkpoints but the chosen ones, with their writes. What these need of the erased
        turns is written again before."""
        outline = Outline((yield from self._items.rows(place)))
        kept = yield from choose(place, outline)
        removed = outline.checkpoints.keys() - kept
        if not removed:
            return
        live = {item.turn_id for one in kept for item in outline.checkpoints[one]}
        # Writes of a checkpoint that is not there yet stay: a run records it at the same time.
        pending = (item for item in outline.items.values() if item.type == WRITES)
        live.update(item.turn_id for item in pending if item.part["checkpoint"] not in removed)
        needed = {seq for one in kept for seq in outline.needs(one)}
        erased = [seq for seq, turn_id in outline.seqs.items() if turn_id not in live and seq not in needed]
        for first in range(0, len(erased), MOST_ERASED):
            body = {"seqs": runs(erased[first : first + MOST_ERASED]), "reason": reason}
            yield Call("POST", f"{place.target}/redact", json=body)
        self._reading.cache.forget(place.session_id)

    def copy_thread(self, source_id: str, target_id: str) -> Work[None]:
        """Copies all checkpoints and writes of a thread."""
        for place in (yield from self._sessions.namespaces(source_id)):
            outline = Outline((yield from self._items.rows(place)))
            seqs: dict[int, int] = {}
            units = self._units(outline)
            while chunk := list(islice(units, BATCH)):
                items = yield from self._items.at(place, [item.seq for unit in chunk for item in unit.items])
                for unit in chunk:
                    parts = [_with_seqs(items[item.seq], seqs) for item in unit.items]
                    body = turn_body(unit.key, unit.title, parts)

                    def write(target: Place, body: Mapping[str, Any] = body) -> Work[Mapping[str, Any]]:
                        return (yield from self._sessions.record(target, body))

                    turn = yield from self._sessions.in_place(target_id, place.namespace, write)
                    if turn["replayed"] and (turn["differs"] or turn["deleted_at"]):
                        detail = f"thread {target_id!r} has other checkpoints under the same ids"
                        raise Conflict(detail, code="idempotency_mismatch", status=409, hint="copy into a new thread")
                    seqs.update({item.seq: turn["first_seq"] + place for place, item in enumerate(unit.items, 1)})

    def _units(self, outline: Outline) -> Iterator[Unit]:
        """The turns of a copy, in order."""
        numbers: dict[str, int] = {}
        for items in outline.turns.values():
            kind, part = items[0].type, items[0].part
            if kind == VALUE:
                yield Unit(f"langgraph:v:{items[0].seq}", "LangGraph values", items)
                continue
            owner = part["id" if kind == CHECKPOINT else "checkpoint"]
            number = numbers[f"{kind} {owner}"] = numbers.get(f"{kind} {owner}", -1) + 1
            key = checkpoint_key if kind == CHECKPOINT else writes_key
            yield Unit(key(owner, number), TITLES[kind], items)


def _with_seqs(item: Item, seqs: Mapping[int, int]) -> dict[str, Any]:
    """A part that refers to the items of the copy."""
    part = dict(item.part)
    if item.type == CHECKPOINT:
        part["refs"] = {channel: seqs[seq] for channel, seq in part["refs"].items()}
    if item.path:
        part["path"] = differences([seqs[seq] for seq in item.path])
    return part
