"""The messages of a framework as items of a session, and back.

A mark hides messages. It is an item of channel `system_note`, which a turn takes also after its end. Its part of type
`hidden` names the hidden seqs, or all before it. Nothing is removed from the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from filrouge import types
from filrouge._shared.keys import new_key
from filrouge._shared.originals import original_of, with_original

QUESTION, FINAL = "question", "final"
PAGE_MAX = 500
EXTRA_ROWS = 8
"""Rows read beside the wanted messages: marks, and items that filrouge adds."""


@dataclass(frozen=True)
class Message:
    """A message in the framework's form, with the parts that filrouge reads.

    Channel `question` begins a turn. Channel `final` ends it, if the message is the last of those that are added."""

    original: Any
    role: types.Role
    channel: str
    parts: Sequence[dict[str, Any]] = ()
    labels: dict[str, Any] = field(default_factory=dict[str, Any])
    """Members of the item, such as `agent`, `model` and `usage`."""


@dataclass(frozen=True)
class Stored:
    """A message that was read."""

    seq: int
    turn_id: str | None
    original: Any
    metadata: Mapping[str, Any]


def items_of(messages: Sequence[Message], kind: str) -> list[types.NewItem]:
    """The items to write. They have keys of their own: a framework's ids may repeat."""
    batch = new_key()
    items: list[types.NewItem] = []
    for index, message in enumerate(messages):
        is_early = message.channel == FINAL and index + 1 < len(messages)
        parts = with_original(message.parts, kind, message.original)
        item = {**message.labels, "item_id": f"{batch}.{index}", "role": message.role, "parts": parts}
        items.append(cast("types.NewItem", {**item, "channel": "observation" if is_early else message.channel}))
    return items


def continuation() -> types.NewItem:
    """Stands for the question of a turn whose messages do not begin with one."""
    return {"item_id": new_key(), "role": "user", "channel": QUESTION, "parts": [{"type": "continued"}]}


def mark(kind: str, seqs: Sequence[int] | None) -> types.NewItem:
    """The item that hides these seqs; without seqs, all items before it."""
    part = {"type": "hidden", "kind": kind, **({"all": True} if seqs is None else {"seqs": list(seqs)})}
    return {
        "item_id": new_key(),
        "role": "system",
        "channel": "system_note",
        "parts": [cast("types.Part", part)],
    }


class Newest:
    """Collects the newest messages of a kind while items are read from the newest on.

    A mark is newer than what it hides, so it is seen first, and nothing before a mark of all needs to be read."""

    def __init__(self, kind: str, limit: int | None, wanted: Callable[[Any], bool] | None, since: str) -> None:
        self.found: list[Stored] = []
        self.last_seq = 0
        self.complete = limit == 0
        self._kind, self._limit, self._hidden = kind, limit, set[int]()
        self._wanted, self._since = wanted, since

    @property
    def page(self) -> int:
        """The number of rows to read next."""
        if self._limit is None:
            return PAGE_MAX
        return min(PAGE_MAX, self._limit - len(self.found) + EXTRA_ROWS)

    def take(self, rows: Iterable[types.Item]) -> None:
        """Takes the next rows, newest first."""
        for row in rows:
            seq = row["seq"] or 0
            self.last_seq = self.last_seq or seq
            self.complete = self.complete or row["created_at"] < self._since
            if self.complete:
                return
            parts = row["parts"] or []
            if parts and parts[0].get("type") == "hidden" and parts[0].get("kind") == self._kind:
                self.complete = parts[0].get("all") is True
                self._hidden.update(parts[0].get("seqs", ()))
            elif seq not in self._hidden:
                is_one, original = original_of(parts, self._kind)
                if is_one and (self._wanted is None or self._wanted(original)):
                    self.found.append(Stored(seq, row["turn_id"], original, row["metadata"] or {}))
                    self.complete = len(self.found) == self._limit
