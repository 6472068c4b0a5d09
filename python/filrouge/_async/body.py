"""The body of a recording's request."""

from __future__ import annotations

from dataclasses import replace

from filrouge import _native
from filrouge._async.runtime import in_thread
from filrouge._async.transport import AsyncTransport
from filrouge._shared.buffered import WAITS
from filrouge._shared.native import translated
from filrouge._shared.wire import Answer, Request, read
from filrouge.errors import Error, TransportError, Unavailable


class AsyncBody:
    """Goes to the server piece by piece; in an outage, to the buffer of writes."""

    def __init__(self, transport: AsyncTransport, request: Request) -> None:
        self._transport, self._request = transport, request
        self._upload: _native.Upload | None = None
        self._number: int | None = None
        self._early: Answer | None = None
        self._sent: list[bytes] = []

    async def begin(self) -> None:
        """Begins the request."""
        if await self._transport.holds(self._request):
            await self._keep(None)
            return
        try:
            self._upload = await self._transport.upload(self._request)
        except TransportError as error:
            await self._keep(error)

    async def send(self, piece: bytes) -> None:
        """Sends a piece, or keeps it on disk."""
        outage = self._transport.outage
        if self._upload is None:
            if outage is not None and self._number is not None:
                await in_thread(outage.add_piece, self._number, piece)
            return
        if outage is not None:
            self._sent.append(piece)  # it is needed if the connection breaks
        try:
            with translated():
                await self._upload.send_async(piece)
        except TransportError as error:
            await self._broken(error)

    async def _broken(self, error: TransportError) -> None:
        """After a failed write: the server responds early to what it refuses, and when somebody ends the turn."""
        assert self._upload is not None
        try:
            with translated():
                response = await self._upload.finish_async()
        except TransportError:
            await self._keep(error)
        else:
            self._upload = None
            self._early = read(response.status, response.headers, response.body)

    async def _keep(self, why: Error | None) -> None:
        outage, self._upload = self._transport.outage, None
        if outage is None:
            raise why or TransportError("the stream cannot be sent")
        request = replace(self._request, body=b"".join(self._sent))
        self._number = await in_thread(outage.put_stream, request, self._transport.headers, why)
        self._sent.clear()

    async def finish(self) -> Answer:
        """Ends the body. The answer has the turn."""
        if self._early is not None:
            return self._early
        if self._upload is not None:
            try:
                with translated():
                    response = await self._upload.finish_async()
                return read(response.status, response.headers, response.body)
            except (TransportError, Unavailable) as error:
                await self._keep(error)
        await self._end()
        return WAITS

    async def cut(self) -> bool:
        """Breaks the request off. Returns whether the server got it; what is in the buffer of writes stays there."""
        if self._upload is None:
            await self._end(True)
            return False
        await in_thread(self._upload.abort)
        return True

    async def _end(self, cut: bool = False) -> None:
        if self._transport.outage is not None and self._number is not None:
            await in_thread(self._transport.outage.end_stream, self._number, cut)
