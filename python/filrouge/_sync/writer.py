"""The writes to one session, with its fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from filrouge import types
from filrouge._sync.transport import Transport
from filrouge._shared import buffered
from filrouge._shared.wire import SESSIONS, Answer, Header, Query, Request, TurnKey, encode, path, with_query

JSON = ("content-type", "application/json")


class Writer:
    """Sends the writes of a session, its turns and its lease."""

    def __init__(self, transport: Transport, session_id: str, create: Mapping[str, Any]) -> None:
        self.fence: int | None = None
        self.durability: str | None = None
        self._transport, self._session_id, self._create = transport, session_id, create
        self._created = not create

    def create(self) -> types.Session:
        """Creates the session."""
        body = {"session_id": self._session_id, **self._create}
        answer = self.send(self.request("POST", body, SESSIONS), first=False)
        self._created = True
        session: types.Session = answer.json() or buffered.session(self._session_id, self._create)
        return session

    def write(self, method: str, body: Mapping[str, Any], *segments: str, headers: Sequence[Header] = ()) -> Any:
        """The JSON of the answer to a write under the session's path; None if the write is buffered."""
        target = path(self._session_id, *segments)
        return (self.send(self.request(method, body, target, headers=headers))).json()

    def request(
        self,
        method: str,
        body: Mapping[str, Any] | bytes,
        target: str,
        *,
        turn: TurnKey | None = None,
        headers: Sequence[Header] = (),
        query: Query | None = None,
        buffered: bool = True,
    ) -> Request:
        """A write to this session, with its fence. `buffered`: whether it may wait for the end of an outage."""
        fence = [] if self.fence is None else [("filrouge-fence", str(self.fence))]
        content = body if isinstance(body, bytes) else encode(body)
        every = [JSON, *fence, *headers]
        session_id = self._session_id if buffered else None
        return Request(method, with_query(target, query), content, every, session_id=session_id, turn=turn)

    def send(self, request: Request, *, first: bool = True) -> Answer:
        """Sends a write; the session is created before if it has a title or other members."""
        if first and not self._created:
            self.create()
        answer = self._transport.send(request)
        self.durability = answer.durability
        return answer
