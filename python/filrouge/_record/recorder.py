"""What `filrouge.record` attaches to a client."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Literal, TypeVar

from filrouge._async.exchange import AsyncExchange, AsyncHeldSession
from filrouge._async.runtime import here
from filrouge._async.session import AsyncSession
from filrouge._async.transport import AsyncTransport
from filrouge._record.wires import Wire, wire_of
from filrouge._sync.exchange import Exchange, HeldSession
from filrouge._sync.session import Session
from filrouge._sync.transport import Transport
from filrouge.errors import Error, Invalid, TransportError, Unavailable

LOG = logging.getLogger("filrouge")
AnySession = Session | AsyncSession
OnFailure = Literal["log", "raise"]
T = TypeVar("T")
PAUSE_S = 5.0
"""For how long nothing is recorded after the server did not answer, so that not every request waits for it."""
RETRY_S = 1.0
"""For how long the requests of a recording are repeated."""
_SESSIONS_MAX = 1024


class _Unset:
    """No choice was made."""


_current: ContextVar[AnySession | _Unset | None] = ContextVar("filrouge_session")
_UNSET = _Unset()


@contextlib.contextmanager
def current_session(session: AnySession | None) -> Generator[None]:
    """Records the requests that this thread or task sends in the block into a session; with None, into none.

    >>> with filrouge.current_session(session):
    ...     pass  # use clients that are recorded
    """
    token = _current.set(session)
    try:
        yield
    finally:
        _current.reset(token)


class Recorder:
    """Records the requests of clients. `filrouge.recorder` returns that of a client."""

    def __init__(
        self, session: AnySession | None = None, *, agent: str | None = None, on_failure: OnFailure = "log"
    ) -> None:
        if on_failure not in ("log", "raise"):
            raise Invalid(f"on_failure is {on_failure!r}", hint="log or raise")
        self.session, self.agent, self.on_failure = session, agent, on_failure
        self.failures = 0
        """The number of requests that were not recorded, or not completely."""
        self.last_failure: Exception | None = None
        self._lock = threading.Lock()
        self._away_until = 0.0
        self._held: OrderedDict[object, HeldSession] = OrderedDict()
        self._held_async: OrderedDict[object, AsyncHeldSession] = OrderedDict()

    def exchange(self, method: str, path: str) -> Exchange | None:
        """What records an HTTP request; None if it is not recorded."""
        wire, session = wire_of(method, path), self.chosen(self.session)
        return None if wire is None or session is None else self.exchange_of(wire, session)

    def async_exchange(self, method: str, path: str) -> AsyncExchange | None:
        """The same for asyncio."""
        wire, session = wire_of(method, path), self.chosen(self.session)
        return None if wire is None or session is None else self.async_exchange_of(wire, session)

    def exchange_of(self, wire: Wire, session: AnySession) -> Exchange:
        """What records a request into a session."""
        given = session._transport
        transport = Transport(given.connection, given.headers, given.outage, given.pid, RETRY_S)
        twin = Session(transport, session.session_id, **session._writer._create)
        twin._writer.fence = session.fence
        return Exchange(self, twin, self._kept(self._held, HeldSession, session, None), wire)

    def async_exchange_of(self, wire: Wire, session: AnySession) -> AsyncExchange:
        """The same for asyncio."""
        given = session._transport
        transport = AsyncTransport(given.connection, given.headers, given.outage, given.pid, RETRY_S)
        twin = AsyncSession(transport, session.session_id, **session._writer._create)
        twin._writer.fence = session.fence
        return AsyncExchange(self, twin, self._kept(self._held_async, AsyncHeldSession, session, here()), wire)

    @staticmethod
    def chosen(default: AnySession | None) -> AnySession | None:
        """The session of a request: that of `current_session`, else the default."""
        current = _current.get(_UNSET)
        return default if isinstance(current, _Unset) else current

    def _kept(self, kept: OrderedDict[object, T], make: Callable[[], T], session: AnySession, loop: object) -> T:
        transport = session._transport
        key = (transport.connection, tuple(transport.headers), session.session_id, loop)
        with self._lock:
            found = kept.setdefault(key, make())
            kept.move_to_end(key)
            if len(kept) > _SESSIONS_MAX:
                kept.popitem(last=False)
            return found

    def check(self) -> None:
        """Refuses to record while the server was away a moment ago."""
        if self.on_failure == "log" and time.monotonic() < self._away_until:
            raise Unavailable("filrouge did not answer a moment ago", code="paused", retryable=True)

    def failed(self, error: Exception, session_id: str) -> None:
        """Counts and logs a failure, or raises it."""
        with self._lock:
            self.failures += 1
            self.last_failure = error
            if isinstance(error, TransportError | Unavailable) and error.code != "paused":
                self._away_until = time.monotonic() + PAUSE_S
        if self.on_failure == "raise":
            raise error
        text = "not recorded into session %s: %s"
        LOG.warning(text, session_id, error, exc_info=None if isinstance(error, Error) else error)
