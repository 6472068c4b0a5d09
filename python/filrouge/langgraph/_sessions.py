"""Finds the session of a thread, and creates it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from filrouge._shared.wire import SESSIONS
from filrouge.errors import Error, Gone, NotFound
from filrouge.langgraph._names import Place, place_in, place_of
from filrouge.langgraph._work import Call, T, Work

PAGE = 500


class Sessions:
    """The sessions that hold threads. Their ids begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._lock = threading.Lock()
        self._generations: dict[str, int] = {}
        self._created: set[str] = set()

    def place(self, thread_id: str, namespace: str = "") -> Place:
        """Where a namespace is, as far as this process knows."""
        return place_in(self.prefix, thread_id, namespace, self._generations.get(thread_id, 1))

    def in_place(self, thread_id: str, namespace: str, work: Callable[[Place], Work[T]]) -> Work[T]:
        """Does work in the session of a namespace; if the thread was deleted, in the thread's next session."""
        while True:
            place = self.place(thread_id, namespace)
            try:
                return (yield from work(place))
            except Gone as error:
                if error.code != "session_erased" or not (yield from self._is_erased(place.root)):
                    raise
                self.leave(place)

    def leave(self, place: Place) -> None:
        """Remembers that the thread's session was erased."""
        with self._lock:
            newest = self._generations.get(place.thread_id, 1)
            self._generations[place.thread_id] = max(newest, place.generation + 1)

    def _is_erased(self, place: Place) -> Work[bool]:
        try:
            yield Call("GET", place.target)
        except Gone:
            return True
        except NotFound:
            return False
        return False

    def ensure(self, place: Place) -> Work[None]:
        """Creates the session, unless its first turn does."""
        if not place.is_plain and place.session_id not in self._created:
            yield Call("POST", SESSIONS, json=place.creation())
            with self._lock:
                self._created.add(place.session_id)

    def record(self, place: Place, body: Mapping[str, Any]) -> Work[Mapping[str, Any]]:
        """Records a complete turn."""
        yield from self.ensure(place)
        turn: Mapping[str, Any] = yield Call("POST", f"{place.target}/turns", json=body)
        return turn

    def turn(self, place: Place, request_id: str) -> Work[Mapping[str, Any] | None]:
        """The turn of a request; None if it is absent or erased."""
        try:
            page = yield Call("GET", f"{place.target}/turns", {"request_id": request_id})
        except NotFound:
            return None
        return page["data"][0] if page["data"] else None

    def namespaces(self, thread_id: str) -> Work[list[Place]]:
        """The namespaces of a thread that have a session, the root first."""

        def find(root: Place) -> Work[list[Place]]:
            if (yield from self._is_erased(root)):
                raise Gone(f"{root.session_id} was erased", code="session_erased", status=410)
            rows = yield from self._rows({"parent_session_id": root.session_id})
            return [root, *self._places(rows)]

        return (yield from self.in_place(thread_id, "", find))

    def all(self) -> Work[list[Place]]:
        """The namespaces of all threads that the caller may see."""
        return list(self._places((yield from self._rows({}))))

    def erase(self, thread_id: str) -> Work[list[Place]]:
        """Erases the sessions of a thread. Returns them."""
        places = yield from self.namespaces(thread_id)
        for place in places:
            try:
                yield Call("DELETE", place.target)
            except NotFound:
                continue
            except Gone:
                pass
            self.leave(place)
        return places

    def _rows(self, filters: Mapping[str, str]) -> Work[list[Mapping[str, Any]]]:
        rows: list[Mapping[str, Any]] = []
        cursor: str | None = None
        while True:
            query = {**filters, "order": "created", "limit": PAGE, "cursor": cursor}
            page = yield Call("GET", SESSIONS, query)
            if findings := page.get("findings"):
                damaged = ", ".join(finding["session_id"] for finding in findings)
                raise Error(f"damaged sessions: {damaged}", code="integrity_error", status=500, hint="filrouge verify")
            rows += page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return rows

    def _places(self, rows: list[Mapping[str, Any]]) -> Iterator[Place]:
        places = (place_of(self.prefix, row) for row in rows)
        return (place for place in places if place is not None)
