"""What can go wrong: one class for each kind of error, with the code of the wire.

`docs/errors.md` lists the codes, and says which requests can be repeated.

>>> error = from_problem({"status": 404, "code": "session_not_found", "title": "No such session",
...                       "detail": 'there is no session "demo"', "hint": None})
>>> isinstance(error, NotFound), error.code
(True, 'session_not_found')
>>> print(error)
session_not_found: there is no session "demo"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "AnswerMissing",
    "ClosedError",
    "Conflict",
    "Error",
    "Forbidden",
    "ForkError",
    "Gone",
    "IdempotencyMismatch",
    "IntegrityError",
    "Invalid",
    "LeaseExpired",
    "LeaseHeld",
    "LeaseTimeout",
    "NotFound",
    "RateLimited",
    "SeqConflict",
    "StaleFence",
    "StreamOpen",
    "TransportError",
    "TurnBusy",
    "TurnClosed",
    "Unauthorized",
    "Unavailable",
]

_AGAIN = {
    "hot_unavailable",
    "lease_held",
    "lease_timeout",
    "overloaded",
    "rate_limited",
    "request_timeout",
    "spool_full",
    "store_full",
    "store_read_only",
    "store_unavailable",
    "turn_busy",
    "turn_open",
}


class Error(Exception):
    """An error of filrouge. `code` is its kind, `detail` what happened, `hint` what to do."""

    code: str
    status: int
    title: str
    detail: str
    hint: str | None
    retryable: bool
    """Whether the same request can succeed later."""
    problem: Mapping[str, Any]
    """The error as the server sent it, with members such as `actual_seq` or `holder`."""
    retry_after: float | None
    """The seconds after which the server asks to repeat the request."""

    def __init__(
        self,
        detail: str,
        *,
        code: str = "invalid",
        status: int = 0,
        title: str = "",
        hint: str | None = None,
        retryable: bool = False,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.code, self.status, self.title = code, status, title
        self.detail, self.hint, self.retryable = detail, hint, retryable
        self.problem, self.retry_after = problem or {}, retry_after

    def __str__(self) -> str:
        text = f"{self.code}: {self.detail}"
        return f"{text} (hint: {self.hint})" if self.hint else text


class Invalid(Error):
    """The request is not acceptable: 400, 413, 415, 422."""


class AnswerMissing(Invalid):
    """The turn has no answer to finalize with."""


class Unauthorized(Error):
    """Credentials are needed: 401."""


class Forbidden(Error):
    """The caller may not do this: 403."""


class NotFound(Error):
    """It does not exist, or belongs to another owner: 404."""


class Conflict(Error):
    """The state of the session or the turn does not allow the request: 409, 412."""


class TurnClosed(Conflict):
    """The turn has ended."""


class TurnBusy(Conflict):
    """Another request is working on the turn."""


class StreamOpen(Conflict):
    """The turn is being recorded."""


class SeqConflict(Conflict):
    """The session has newer items than `expected_seq`."""

    @property
    def actual_seq(self) -> int:
        """The session's newest seq."""
        return int(self.problem.get("actual_seq", 0))


class IdempotencyMismatch(Conflict):
    """The key was used with another body."""


class StaleFence(Conflict):
    """Another holder took over the lease."""


class LeaseExpired(Conflict):
    """The lease expired or was released."""


class LeaseHeld(Conflict):
    """Another holder has the session, and the request has no fence."""

    @property
    def holder(self) -> str | None:
        """Who holds the session's lease."""
        return self.problem.get("holder")


class Gone(Error):
    """The session was erased, or the turn is no longer kept: 410."""


class LeaseTimeout(Error):
    """Another holder kept the lease for the whole wait: 423."""

    @property
    def holder(self) -> str | None:
        """Who holds the session's lease."""
        return self.problem.get("holder")


class RateLimited(Error):
    """Too many requests: 429."""


class Unavailable(Error):
    """The server or its store does not answer now: 408, 503, 507."""


class IntegrityError(Error):
    """Stored data was changed, or its key is missing."""


class TransportError(Error):
    """The server cannot be reached, or the connection broke: the outcome is unknown."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            detail,
            code="transport_error",
            title="No response",
            hint="the same call can be repeated: its keys make it safe",
            retryable=True,
        )


class ClosedError(Error, RuntimeError):
    """The ledger was closed."""

    def __init__(self, detail: str = "the ledger is closed") -> None:
        super().__init__(detail, code="closed", title="Closed", hint="open or connect it again")


class ForkError(Error, RuntimeError):
    """The ledger was opened before a fork."""

    def __init__(self, detail: str = "the ledger was opened in the parent process") -> None:
        super().__init__(detail, code="forked", title="Used after a fork", hint="open or connect it in the child")


_BY_CODE: dict[str, type[Error]] = {
    "answer_missing": AnswerMissing,
    "idempotency_mismatch": IdempotencyMismatch,
    "integrity_error": IntegrityError,
    "key_missing": IntegrityError,
    "lease_expired": LeaseExpired,
    "lease_held": LeaseHeld,
    "seq_conflict": SeqConflict,
    "stale_fence": StaleFence,
    "stream_open": StreamOpen,
    "turn_busy": TurnBusy,
    "turn_closed": TurnClosed,
}
_BY_STATUS: dict[int, type[Error]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    423: LeaseTimeout,
    429: RateLimited,
    503: Unavailable,
    507: Unavailable,
}


def from_problem(problem: Mapping[str, Any], retry_after: float | None = None) -> Error:
    """The exception of an `application/problem+json` document."""
    code, status = str(problem.get("code", "internal")), int(problem.get("status", 500))
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or Error
    return kind(
        str(problem.get("detail") or problem.get("title") or code),
        code=code,
        status=status,
        title=str(problem.get("title", "")),
        hint=problem.get("hint"),
        retryable=code in _AGAIN or retry_after is not None,
        problem=problem,
        retry_after=retry_after,
    )
