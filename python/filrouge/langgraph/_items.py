"""Reads the items and values of a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from filrouge.errors import Error, NotFound
from filrouge.langgraph._format import CHECKPOINT, VALUE, WRITES, Item, item_of
from filrouge.langgraph._names import Place
from filrouge.langgraph._values import Cache, Value, read_value
from filrouge.langgraph._work import Call, Work

FIRST_PAGE = 24
PAGE = 200
MOST_SEQS = 500


@dataclass(frozen=True)
class Found:
    """A stored checkpoint, with the writes that belong to it."""

    item: Item
    writes: list[Item]


class Row(NamedTuple):
    """An item of a turn, also one of another program."""

    seq: int
    turn_id: str
    item: Item | None


@dataclass
class Scan:
    """Reads a session from its end. A checkpoint is `ready` once an older one is found: its writes come after it, or,
    if they overtook it, shortly before it."""

    place: Place
    before: int | None = None
    limit: int = FIRST_PAGE
    ended: bool = False
    ready: deque[Found] = field(default_factory=deque[Found])
    items: dict[int, Item] = field(default_factory=dict[int, Item])
    """The items with values; they need not be read again."""
    _waiting: Item | None = None
    _writes: dict[str, list[Item]] = field(default_factory=dict[str, list[Item]])
    _replacements: dict[str, Item] = field(default_factory=dict[str, Item])

    def take(self, rows: list[Mapping[str, Any]], *, ended: bool) -> None:
        """Takes the next page."""
        for row in rows:
            item = item_of(row)
            if item is not None:
                self._take(item)
        self.before = rows[-1]["seq"] if rows else self.before
        self.ended, self.limit = ended, PAGE
        if ended:
            self._finish()

    def _take(self, item: Item) -> None:
        if item.type == VALUE:
            self.items[item.seq] = item
        if item.type == WRITES:
            self._writes.setdefault(item.part["checkpoint"], []).append(item)
        if item.type == CHECKPOINT:
            replacement = self._replacements.get(item.part["id"])
            if item.part.get("replaces"):
                self._replacements.setdefault(item.part["id"], item)
                return
            self._finish()
            self._waiting = replacement or item

    def _finish(self) -> None:
        if self._waiting is not None:
            writes = self._writes.pop(self._waiting.part["id"], [])
            self.ready.append(Found(self._waiting, writes[::-1]))
            self._waiting = None


class Items:
    """Reads items."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def advance(self, scan: Scan) -> Work[None]:
        """Reads on until a checkpoint is ready, or the session's beginning is reached."""
        while not scan.ready and not scan.ended:
            query = {"order": "desc", "before": scan.before, "limit": scan.limit}
            try:
                page = yield Call("GET", f"{scan.place.target}/items", query)
            except NotFound:
                scan.take([], ended=True)
            else:
                scan.take(page["data"], ended=page["next_cursor"] is None)

    def rows(self, place: Place) -> Work[list[Row]]:
        """All items of a session whose contents are there, oldest first, without their data."""
        found: list[Row] = []
        cursor: str | None = None
        while True:
            try:
                page = yield Call("GET", f"{place.target}/items", {"limit": PAGE, "cursor": cursor})
            except NotFound:
                return found
            for row in page["data"]:
                item = item_of(row)
                if item is not None:
                    members = {name: value for name, value in item.part.items() if name != "data"}
                    item = Item(item.seq, item.turn_id, members)
                if row["parts"] and row["turn_id"] is not None:
                    found.append(Row(row["seq"], row["turn_id"], item))
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def at(self, place: Place, seqs: Iterable[int]) -> Work[dict[int, Item]]:
        """The items at these seqs that were not erased."""
        wanted: list[int] = sorted(set(seqs))
        found: dict[int, Item] = {}
        while wanted:
            page = yield Call("GET", f"{place.target}/items", {"seqs": ranges(wanted[:MOST_SEQS])})
            rows: list[Mapping[str, Any]] = page["data"]
            found.update({item.seq: item for row in rows if (item := item_of(row)) is not None})
            read: int = wanted[:MOST_SEQS][-1] if page["next_cursor"] is None else rows[-1]["seq"]
            wanted = [seq for seq in wanted if seq > read]
        return found

    def values(self, place: Place, seqs: Iterable[int], known: Mapping[int, Item]) -> Work[dict[int, Value]]:
        """The values of items. `known` are items that were read already."""
        session, wanted = place.session_id, set(seqs)
        values: dict[int, Value] = {}
        items = dict(known)

        def fetch(some: Iterable[int]) -> Work[None]:
            for seq in some:
                if seq not in values and (cached := self._cache.value(session, seq)) is not None:
                    values[seq] = cached
            missing = [seq for seq in some if seq not in values and seq not in items]
            if missing:
                items.update((yield from self.at(place, missing)))
                if absent := [seq for seq in missing if seq not in items]:
                    raise erased(place, absent)

        yield from fetch(wanted)
        yield from fetch({base for seq in wanted if seq not in values for base in items[seq].path})
        for seq in sorted(wanted):
            self._build(session, seq, values, items)
        return {seq: values[seq] for seq in wanted}

    def _build(self, session: str, seq: int, values: dict[int, Value], items: Mapping[int, Item]) -> None:
        if seq in values:
            return
        base: Value | None = None
        for at in (*reversed(items[seq].path), seq):
            if at not in values:
                values[at] = read_value(at, base, items[at].part)
                self._cache.add_value(session, values[at])
            base = values[at]


def erased(place: Place, seqs: list[int]) -> Error:
    """The error for a checkpoint whose values somebody has erased."""
    return Error(
        f"values of a checkpoint were erased: seqs {ranges(seqs)} of session {place.session_id}",
        code="checkpoint_erased",
        hint="erase checkpoints with delete_thread, delete_for_runs or prune, which keep what other checkpoints need",
    )


def runs(seqs: Sequence[int]) -> list[list[int]]:
    """Ascending seqs as ranges.

    >>> runs([3, 9, 10, 11, 14])
    [[3, 3], [9, 11], [14, 14]]
    """
    found: list[list[int]] = []
    for seq in seqs:
        if found and seq == found[-1][1] + 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    return found


def ranges(seqs: Sequence[int]) -> str:
    """Ascending seqs as the parameter `seqs`.

    >>> ranges([3, 9, 10, 11, 14])
    '3,9-11,14'
    """
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs(seqs))
