"""The ledger: what `open` and `connect` return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from filrouge import types
from filrouge._sync.runtime import in_thread
from filrouge._sync.session import Session, pages
from filrouge._sync.transport import Transport
from filrouge._outage import BufferedWrite, DeadLetter
from filrouge._shared.keys import new_key
from filrouge._shared.wire import SESSIONS, Header, Query, Request, encode, with_query

IDENTITY = "filrouge-identity"
Self = TypeVar("Self", bound="Ledger")


class Ledger:
    """The record of conversations, in this process or on a server.

    >>> with filrouge.open("app.db") as ledger:
    ...     session = ledger.session("demo")
    ...     with session.turn("Which way?") as turn:
    ...         turn.finish("To the left.")
    ...     context = session.context("openai-chat")
    ...     print(context["messages"][1]["content"])
    To the left.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, for all that share it. Buffered writes stay on disk, and are sent by the next process.

        Turns that are still open stay open: start them again under their `request_id`."""
        if self._transport.outage is not None:
            in_thread(self._transport.outage.close)
        in_thread(self._transport.connection.close)

    def with_identity(self, identity: str) -> Ledger:
        """The same connection for another end user."""
        return Ledger(self._transport.with_header(IDENTITY, identity))

    def session(
        self,
        session_id: str | None = None,
        *,
        title: str | None = None,
        project_id: str | None = None,
        parent_session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """A session; without `session_id`, a new one. Nothing is sent before its first use.

        With a title, project, parent or metadata, the first write creates the session with them."""
        return Session(
            self._transport,
            session_id or new_key(),
            title=title,
            project_id=project_id,
            parent_session_id=parent_session_id,
            metadata=metadata,
        )

    def sessions(
        self,
        *,
        q: str | None = None,
        status: types.SessionStatus | None = None,
        project_id: str | None = None,
        identity_id: str | None = None,
        parent_session_id: str | None = None,
        agent: str | None = None,
        since: str | None = None,
        until: str | None = None,
        order: str | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Session]:
        """All sessions that match, page by page. `limit` is the size of a page."""
        query = {
            "q": q,
            "status": status,
            "project_id": project_id,
            "identity_id": identity_id,
            "parent_session_id": parent_session_id,
            "agent": agent,
            "since": since,
            "until": until,
            "order": order,
            "limit": limit,
        }
        for row in pages(self._transport, SESSIONS, query):
            yield row

    def turns(
        self, identity_id: str, *, status: types.TurnStatus | None = None, limit: int | None = None
    ) -> Iterator[types.Turn]:
        """An end user's turns in all sessions, the newest first."""
        query = {"identity_id": identity_id, "status": status, "limit": limit}
        for row in pages(self._transport, "/api/v1/turns", query):
            yield row

    def search(self, q: str | None = None, **filters: str | int | bool | None) -> types.SearchPage:
        """One page of the sessions that contain words. The filters are the parameters of `GET /api/v1/search`."""
        page: types.SearchPage = self.request("GET", "/api/v1/search", query={"q": q, **filters})
        return page

    def changes(
        self, after: str | int | None = None, *, wait: float | None = None, limit: int | None = None
    ) -> types.ChangePage:
        """One page of the change feed. Call it again with `next_cursor` as `after`.

        `wait`: the seconds to wait for a change."""
        query: Query = {"after": after, "wait": None if wait is None else round(wait * 1000), "limit": limit}
        page: types.ChangePage = self.request("GET", "/api/v1/changes", query=query)
        return page

    def info(self) -> types.Info:
        """What the server is, and its limits."""
        found: types.Info = self.request("GET", "/api/v1/info")
        return found

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """Calls any route. Returns its JSON, or bytes if it has another type.

        `repeatable`: whether the request may be sent again after a broken connection; by default all but POST."""
        sent: list[Header] = list((headers or {}).items())
        body = b""
        if json is not None:
            sent.append(("content-type", "application/json"))
            body = encode(json)
        again = method != "POST" if repeatable is None else repeatable
        request = Request(method, with_query(path, query), body, sent, repeatable=again)
        return (self._transport.send(request)).value()

    def buffered(self) -> list[BufferedWrite]:
        """The writes that wait on this machine for the server."""
        outage = self._transport.outage
        return in_thread(outage.buffered) if outage else []

    def dead_letters(self) -> list[DeadLetter]:
        """The buffered writes that the server refused."""
        outage = self._transport.outage
        return in_thread(outage.dead_letters) if outage else []

    def drop_dead_letter(self, number: int) -> None:
        """Removes a dead letter after you have seen to it."""
        if self._transport.outage:
            in_thread(self._transport.outage.drop, number)

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits until no write is buffered. Returns False after `timeout` seconds."""
        outage = self._transport.outage
        return in_thread(outage.flush, timeout) if outage else True
