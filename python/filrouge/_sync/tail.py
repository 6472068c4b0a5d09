"""Items and drafts of a session as they are written."""

from __future__ import annotations

import json
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple

from filrouge import _native
from filrouge._sync.runtime import in_thread, sleep
from filrouge._sync.transport import Transport
from filrouge._shared.native import translated
from filrouge._shared.sse import EventReader, ServerEvent
from filrouge._shared.wire import Request, error_of, with_query
from filrouge.errors import TransportError, Unavailable

PAUSE_S = 1.0


class TailEvent(NamedTuple):
    """One event: `item` (an Item), `draft` (a DraftEvent), or `erased`, the last one."""

    kind: str
    data: Any


class Tail:
    """The events of a session without an end. A broken connection is made again: no item is missing, none comes twice.

    It begins when its block is entered, or at its first event.

    >>> tail = session.tail(after=0)
    >>> event = tail.__next__()
    >>> event.kind, event.data["parts"][0]["text"]
    ('item', 'Is it far?')
    >>> tail.close()
    """

    def __init__(self, transport: Transport, target: str, after: int | None, drafts: bool) -> None:
        self._transport, self._target = transport, target
        self._after, self._drafts = after, drafts
        self._download: _native.Download | None = None
        self._reader = EventReader()
        self._ready: deque[ServerEvent] = deque()
        self._closed = False

    def __enter__(self) -> Tail:
        self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Tail:
        return self

    def __next__(self) -> TailEvent:
        while not self._closed:
            while self._ready:
                event = self._ready.popleft()
                if event.event in ("item", "draft", "erased"):
                    return self._known(event)
            self._read()
        raise StopIteration

    def _known(self, event: ServerEvent) -> TailEvent:
        if event.event == "item" and event.id is not None:
            self._after = int(event.id)
        if event.event == "erased":
            self.close()
        return TailEvent(event.event, json.loads(event.data) if event.data else None)

    def _read(self) -> None:
        try:
            download = self._download or self._connect()
            with translated():
                piece = download.read()
        except (TransportError, Unavailable):
            piece = b""
        if piece:
            self._ready.extend(self._reader.feed(piece))
        elif not self._closed:
            self._download = None
            sleep(PAUSE_S)

    def _connect(self) -> _native.Download:
        if self._after is None:  # from the end on, also after the connection broke
            session = self._transport.send(Request("GET", self._target.rpartition("/")[0]))
            self._after = int(session.json()["last_seq"])
        query = {"after": self._after, "drafts": None if self._drafts else False}
        headers = [("accept", "text/event-stream")]
        download = self._transport.download(Request("GET", with_query(self._target, query), b"", headers))
        if download.status >= 400:
            raise error_of(download.status, download.headers, _whole(download))
        self._download, self._reader = download, EventReader()
        return download

    def close(self) -> None:
        """Ends the tail."""
        self._closed = True
        if self._download is not None:
            in_thread(self._download.close)


def _whole(download: _native.Download) -> bytes:
    pieces: list[bytes] = []
    while piece := download.read():
        pieces.append(piece)
    return b"".join(pieces)
