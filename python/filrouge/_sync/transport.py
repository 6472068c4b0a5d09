"""Sends requests: errors become exceptions, retries repeat the keys, an outage is buffered."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from filrouge import _native
from filrouge._sync.runtime import in_thread, sleep
from filrouge._outage import Outage
from filrouge._shared.native import translated
from filrouge._shared.wire import TURN, Answer, Header, Request, pause, read
from filrouge.errors import Error, ForkError, TransportError, Unavailable

RETRIES = 4
RETRY_S = 15.0
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, eq=False)
class Transport:
    """A connection, the headers of a caller, and what happens when the server does not answer."""

    connection: _native.Connection
    headers: Sequence[Header]
    outage: Outage | None = None
    pid: int = -1
    retry_s: float = RETRY_S
    """For how many seconds requests are sent again."""

    def with_header(self, name: str, value: str) -> Transport:
        """The same connection with another value of a header."""
        kept = [header for header in self.headers if header[0] != name]
        return replace(self, headers=[*kept, (name, value)])

    def send(self, request: Request) -> Answer:
        """The answer to a request, after retries. Raises its error."""
        self.check()
        if self.holds(request):
            return self._put(request)
        try:
            return self._with_retries(request)
        except (TransportError, Unavailable) as error:
            if self.outage is None or request.session_id is None:
                raise
            return self._put(request, error)

    def holds(self, request: Request) -> bool:
        """Whether a write must wait for the end of an outage."""
        if self.outage is None or request.session_id is None:
            return False
        return TURN in request.target or in_thread(self.outage.holds, request.session_id)

    def _put(self, request: Request, why: Error | None = None) -> Answer:
        assert self.outage is not None
        return in_thread(self.outage.put, request, self.headers, why)

    def _with_retries(self, request: Request) -> Answer:
        attempt, end = 0, time.monotonic() + self.retry_s
        while True:
            try:
                return self._once(request)
            except Error as error:
                again = error.status in (429, 503) or (request.repeatable and isinstance(error, TransportError))
                wait = pause(attempt, error, LONGEST_PAUSE_S)
                if not again or attempt == RETRIES or time.monotonic() + wait > end:
                    raise
            sleep(wait)
            attempt += 1

    def _once(self, request: Request) -> Answer:
        headers = [*self.headers, *request.headers]
        with translated():
            response = self.connection.request(request.method, request.target, headers, request.body)
        return read(response.status, response.headers, response.body)

    def upload(self, request: Request) -> _native.Upload:
        """A request whose body is sent piece by piece."""
        self.check()
        headers = [*self.headers, *request.headers]
        with translated():
            return in_thread(self.connection.upload, request.method, request.target, headers)

    def download(self, request: Request) -> _native.Download:
        """A response whose body arrives piece by piece."""
        self.check()
        headers = [*self.headers, *request.headers]
        with translated():
            return in_thread(self.connection.download, request.method, request.target, headers, b"")

    def check(self) -> None:
        """Refuses the use after a fork: threads and sockets are the parent's."""
        if self.pid != os.getpid():
            raise ForkError
