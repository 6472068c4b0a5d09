"""Requests and responses of the HTTP API, as values."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from filrouge.errors import Error, from_problem

Header = tuple[str, str]
Query = Mapping[str, object]
SESSIONS = "/api/v1/sessions"
TURN = "{turn}"
"""Stands in a target for the id of a turn that the server has not started yet."""


@dataclass(frozen=True)
class Request:
    """One request. `repeatable`: its keys make a repetition safe."""

    method: str
    target: str
    body: bytes = b""
    headers: Sequence[Header] = ()
    repeatable: bool = True
    session_id: str | None = None
    """The session that it writes to; the outage buffer keeps such requests, in order."""
    turn: TurnKey | None = None
    """The turn that it starts or writes to."""


@dataclass(frozen=True)
class TurnKey:
    """What identifies a turn before the server gives it an id, and what starts it again."""

    session_id: str
    request_id: str
    start: bytes
    """The body that starts the turn."""


@dataclass(frozen=True)
class Answer:
    """The response to a request that succeeded."""

    status: int
    body: bytes
    headers: Sequence[Header] = field(default=())

    @property
    def durability(self) -> str | None:
        """What the write survives."""
        return header(self.headers, "filrouge-durability")

    def json(self) -> Any:
        """The body; None without one."""
        return json.loads(self.body) if self.body else None

    def value(self) -> Any:
        """The body: its JSON, or bytes if it has another type."""
        kind = header(self.headers, "content-type") or ""
        return self.json() if not self.body or ("json" in kind and "ndjson" not in kind) else self.body


def header(headers: Iterable[Header], name: str) -> str | None:
    """The value of a header, whatever the case of its name."""
    return next((value for key, value in headers if key.lower() == name), None)


def path(*segments: str | None) -> str:
    """The target of a session's route, with encoded ids. None stands for the id of a turn that has none yet.

    >>> path("team/été 1", "turns")
    '/api/v1/sessions/team%2F%C3%A9t%C3%A9%201/turns'

    >>> path("{turn}", "turns", None)
    '/api/v1/sessions/%7Bturn%7D/turns/{turn}'
    """
    return "/".join([SESSIONS, *(TURN if segment is None else encoded(segment) for segment in segments)])


def encoded(segment: str) -> str:
    """One segment of a path; a URL parser would remove `.` and `..`."""
    return segment.replace(".", "%2E") if segment in (".", "..") else quote(segment, safe="")


def with_query(target: str, query: Query | None) -> str:
    """A target with the parameters that have a value.

    >>> with_query("/api/v1/sessions", {"q": "a b", "limit": None, "drafts": False})
    '/api/v1/sessions?q=a+b&drafts=false'
    """
    given = {name: plain(value) for name, value in (query or {}).items() if value is not None}
    return f"{target}?{urlencode(given)}" if given else target


def plain(value: object) -> str:
    """A parameter's value as the API reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encode(value: Any) -> bytes:
    """A JSON body. Half of a surrogate pair, which UTF-8 cannot express, stays as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def given(**members: Any) -> dict[str, Any]:
    """The members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def read(status: int, headers: Sequence[Header], body: bytes) -> Answer:
    """The answer of a response; an exception for an error."""
    if status < 400:
        return Answer(status, body, headers)
    raise error_of(status, headers, body)


def error_of(status: int, headers: Sequence[Header], body: bytes) -> Error:
    """The exception of a response. A proxy's page has no code, so its status decides."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "code" not in problem:
        code = "overloaded" if status in (429, 502, 503, 504) else "internal"
        status = 503 if status in (502, 504) else status
        problem = {"code": code, "status": status, "detail": body[:200].decode(errors="replace") or f"HTTP {status}"}
    return from_problem(problem, seconds(header(headers, "retry-after")))  # pyright: ignore[reportUnknownArgumentType]


def seconds(value: str | None) -> float | None:
    """The seconds of `Retry-After`."""
    try:
        return max(0.0, float(value)) if value is not None else None
    except ValueError:
        return None  # a date: the usual pause is used


def pause(attempt: int, error: Error, longest: float) -> float:
    """The seconds to wait before a request is sent again: longer each time, and not the same for all clients."""
    usual = min(longest, 0.05 * 2.0**attempt)
    return min(longest, error.retry_after or 0.0) + usual * random.uniform(0.5, 1.0)
