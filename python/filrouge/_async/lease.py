"""The exclusive right to write to a session, renewed while it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from filrouge import types
from filrouge._async.runtime import Repeater, to_the_end
from filrouge._async.transport import AsyncTransport
from filrouge._async.writer import AsyncWriter
from filrouge._shared.wire import Query, path
from filrouge.errors import Conflict, Error, Gone, NotFound

LOG = logging.getLogger("filrouge")


class AsyncLease:
    """A lease, to be used in a `with` statement. Get it from `AsyncSession.lease` or `resume`."""

    def __init__(
        self, transport: AsyncTransport, writer: AsyncWriter, session_id: str, route: str, body: Mapping[str, Any]
    ) -> None:
        self.holder: str = body["holder"]
        self.fence = 0
        self.resumed: types.Resumed | None = None
        """For `resume`: the checkpoint, the items after it, and what else the session's state is."""
        self.lost: Error | None = None
        """Why the lease could not be renewed, if it was lost. Writes under it are refused."""
        self._transport, self._writer, self._session_id = transport, writer, session_id
        self._route, self._body = route, body
        self._heartbeat = Repeater(body["ttl_ms"] / 3000, self._renew)

    async def __aenter__(self) -> AsyncLease:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await to_the_end(self.release)

    async def acquire(self) -> None:
        """Takes the lease, and renews it from now on. Raises `LeaseTimeout` if another holder keeps it."""
        target = path(self._session_id, self._route)
        request = self._writer.request("POST", self._body, target, buffered=False)
        taken = (await self._transport.send(request)).json()
        self.fence = self._writer.fence = taken["fence"]
        self.resumed = taken if self._route == "resume" else None
        await self._heartbeat.start()

    async def release(self) -> None:
        """Gives the lease back, so that the next holder gets it at once. A lost lease is not there to be released."""
        await self._heartbeat.stop()
        self._writer.fence = None
        query: Query = {"holder": self.holder, "fence": self.fence}
        request = self._writer.request("DELETE", b"", path(self._session_id, "lease"), query=query, buffered=False)
        try:
            await self._transport.send(request)
        except (Conflict, Gone, NotFound) as error:
            LOG.info("the lease of %s was not released: %s", self._session_id, error)
        except Error as error:
            LOG.warning("the lease of %s ends by its duration: %s", self._session_id, error)

    async def _renew(self) -> bool:
        body = {"holder": self.holder, "fence": self.fence, "ttl_ms": self._body["ttl_ms"]}
        request = self._writer.request("PUT", body, path(self._session_id, "lease"), buffered=False)
        try:
            await self._transport.send(request)
        except Error as error:
            if error.retryable:
                LOG.warning("the lease of %s could not be renewed: %s", self._session_id, error)
                return True
            LOG.error("the lease of %s is lost: %s", self._session_id, error)
            self.lost = error
            return False
        return True
