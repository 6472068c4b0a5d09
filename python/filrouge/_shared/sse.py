"""Server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    """One event."""

    event: str
    data: str
    id: str | None


class EventReader:
    """Splits the pieces of a response into events.

    >>> reader = EventReader()
    >>> list(reader.feed(b"event: item\\nid: 1\\nda"))
    []
    >>> list(reader.feed(b"ta: {}\\n\\n"))
    [ServerEvent(event='item', data='{}', id='1')]
    """

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that are complete with this piece."""
        *blocks, self._waiting = (self._waiting + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            found = _event(block.decode())
            if found is not None:
                yield found


def _event(block: str) -> ServerEvent | None:
    fields: dict[str, list[str]] = {}
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        return None  # a comment, or the pause before a new connection
    kinds, ids = fields.get("event"), fields.get("id")
    return ServerEvent(kinds[-1] if kinds else "message", "\n".join(fields["data"]), ids[-1] if ids else None)
