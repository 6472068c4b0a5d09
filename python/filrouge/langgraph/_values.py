"""Values stored as differences from earlier ones.

A value that differs little from the one before it, such as a growing list of messages, is stored as a difference. The
values of a channel are numbered from 0. Number n is stored as the difference from n - 16^t, where 16^t is the largest
power of 16 (up to 16³) that divides n. So a new value costs little whatever its length, and at most 15 values for each
power are needed to read one. Number 0 is stored whole, and so is a value from which a difference saves too little.
"""

from __future__ import annotations

import threading
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from filrouge._native import delta, undelta

STEP = 16
LEVELS = 3
LONGEST_PATH = 64


@dataclass(frozen=True)
class Value:
    """The bytes of a stored value, and what the values after it are differences from."""

    seq: int
    """The item that holds it."""
    kind: str
    """The type that LangGraph's serializer gave it."""
    raw: bytes
    number: int = 0
    path: tuple[int, ...] = ()
    """The items needed to read it, the one that it differs from first."""
    bases: tuple[Value | None, ...] = (None,) * LEVELS
    """For each power of 16, the newest value up to this one whose number it divides; None is this value."""

    def base(self, level: int) -> Value:
        """The newest value up to this one whose number is divided by 16 to the power of `level`."""
        return (self.bases[level - 1] or self) if level else self

    @property
    def cost(self) -> int:
        """The memory that it takes."""
        return len(self.raw) + sum(len(base.raw) for base in self.bases if base is not None) + 500


@dataclass(frozen=True)
class Packed:
    """A value as it is written."""

    kind: str
    raw: bytes
    data: bytes
    number: int = 0
    base: Value | None = None

    @property
    def path(self) -> tuple[int, ...]:
        """The items needed to read it."""
        return (self.base.seq, *self.base.path) if self.base else ()

    def members(self) -> dict[str, Any]:
        """The members of its part."""
        members: dict[str, Any] = {"kind": self.kind, "data": b64encode(self.data).decode()}
        if self.base:
            members.update(number=self.number, path=differences(self.path))
        return members

    def stored(self, seq: int) -> Value:
        """The value, once the item has its seq."""
        return value_after(self.base, seq, self.kind, self.raw, self.number)


def value_after(base: Value | None, seq: int, kind: str, raw: bytes, number: int) -> Value:
    """A value that is stored as the difference from `base`."""
    if base is None:
        return Value(seq, kind, raw)
    bases = tuple(None if number % STEP**level == 0 else base.base(level) for level in range(1, LEVELS + 1))
    return Value(seq, kind, raw, number, (base.seq, *base.path), bases)


def pack(kind: str, raw: bytes, before: Value | None) -> Packed:
    """Packs the value that follows `before`."""
    if before is not None and before.kind == kind:
        number = before.number + 1
        base = before.base(_level(number))
        difference = delta(base.raw, raw)
        if len(base.path) < LONGEST_PATH and 2 * len(difference) < len(raw):
            return Packed(kind, raw, difference, number, base)
    return Packed(kind, raw, delta(b"", raw))


def _level(number: int) -> int:
    return max(level for level in range(LEVELS + 1) if number % STEP**level == 0)


def differences(path: Sequence[int]) -> list[int]:
    """A path as it is written: the first seq, then how far back each next one is.

    >>> differences((120, 114, 108, 12)), list(path_of([120, 6, 6, 96]))
    ([120, 6, 6, 96], [120, 114, 108, 12])
    """
    return [*path[:1], *(before - seq for before, seq in pairwise(path))]


def path_of(members: Sequence[int]) -> tuple[int, ...]:
    """The path that `differences` has written."""
    path: list[int] = []
    for member in members:
        path.append(path[-1] - member if path else member)
    return tuple(path)


def read_value(seq: int, base: Value | None, part: Mapping[str, Any]) -> Value:
    """The value of a part that is stored as the difference from `base`."""
    raw = undelta(base.raw if base else b"", b64decode(part["data"]))
    return value_after(base, seq, part["kind"], raw, part.get("number", 0))


@dataclass(frozen=True)
class Record:
    """What later checkpoints need of a stored one."""

    refs: Mapping[str, int | tuple[str, bytes]]
    """Where each channel's value is: the seq of its item, or its type and bytes."""
    versions: Mapping[str, Any]
    skeleton: Value
    """The checkpoint without the values of its channels."""


class Cache:
    """The values and checkpoints used last. It saves reads, and is never needed."""

    def __init__(self, budget: int) -> None:
        self._lock = threading.Lock()
        self._left = budget
        self._entries: OrderedDict[tuple[str, int | str], tuple[int, Any]] = OrderedDict()

    def value(self, session: str, seq: int) -> Value | None:
        """The value of an item."""
        found: Value | None = self._get((session, seq))
        return found

    def add_value(self, session: str, value: Value) -> None:
        """Keeps the value of an item."""
        self._put((session, value.seq), value, value.cost)

    def record(self, session: str, checkpoint_id: str) -> Record | None:
        """A checkpoint."""
        found: Record | None = self._get((session, checkpoint_id))
        return found

    def add_record(self, session: str, checkpoint_id: str, record: Record) -> None:
        """Keeps a checkpoint."""
        inline = sum(len(ref[1]) for ref in record.refs.values() if not isinstance(ref, int))
        self._put((session, checkpoint_id), record, inline + record.skeleton.cost)

    def forget(self, session: str) -> None:
        """Forgets a session."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == session]:
                self._left += self._entries.pop(key)[0]

    def _get(self, key: tuple[str, int | str]) -> Any:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][1]

    def _put(self, key: tuple[str, int | str], entry: Any, cost: int) -> None:
        with self._lock:
            if key in self._entries:
                self._left += self._entries.pop(key)[0]
            self._entries[key] = (cost, entry)
            self._left -= cost
            while self._left < 0 and self._entries:
                self._left += self._entries.popitem(last=False)[1][0]
