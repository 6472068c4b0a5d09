"""The transports of httpx and httpx2, with a recorder in front."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any

from filrouge._async.exchange import AsyncExchange
from filrouge._async.runtime import to_the_end
from filrouge._record.recorder import Recorder
from filrouge._sync.exchange import Exchange

ERROR_MAX = 65_536


class RecordedTransport:
    """Passes requests and responses on unchanged, and records those that ask a model."""

    def __init__(self, inner: Any, recorder: Recorder) -> None:
        self.inner, self.recorder = inner, recorder

    def handle_request(self, request: Any) -> Any:
        """Sends a request."""
        exchange = self.recorder.exchange(request.method, request.url.path)
        if exchange is None:
            return self.inner.handle_request(request)
        exchange.ask(request.read())
        try:
            response = self.inner.handle_request(request)
        except BaseException as error:
            exchange.fail(error)
            raise
        exchange.open(_decoder(response))
        if response.is_stream_consumed:  # a transport for tests has it whole
            exchange.piece(response.content)
            exchange.end()
        else:
            response.stream = _recorded(_SyncStream, response, "SyncByteStream", exchange)
        return response

    def close(self) -> None:
        """Closes the transport."""
        self.inner.close()

    def __enter__(self) -> RecordedTransport:
        self.inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.inner.__exit__(kind, error, trace)


class RecordedAsyncTransport:
    """The same for asyncio."""

    def __init__(self, inner: Any, recorder: Recorder) -> None:
        self.inner, self.recorder = inner, recorder

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request."""
        exchange = self.recorder.async_exchange(request.method, request.url.path)
        if exchange is None:
            return await self.inner.handle_async_request(request)
        await exchange.ask(await request.aread())
        try:
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            await to_the_end(exchange.fail, error)
            raise
        await exchange.open(_decoder(response))
        if response.is_stream_consumed:
            await exchange.piece(response.content)
            await exchange.end()
        else:
            response.stream = _recorded(_AsyncStream, response, "AsyncByteStream", exchange)
        return response

    async def aclose(self) -> None:
        """Closes the transport."""
        await self.inner.aclose()

    async def __aenter__(self) -> RecordedAsyncTransport:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.inner.__aexit__(kind, error, trace)


class _SyncStream:
    """The body of a response, which is recorded piece by piece before the application sees it."""

    def __init__(self, inner: Any, exchange: Exchange, is_refusal: bool) -> None:
        self._inner, self._exchange, self._is_refusal = inner, exchange, is_refusal

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._inner:
                self._exchange.piece(piece)
                yield piece
        except Exception:
            self._exchange.end()
            raise
        self._exchange.end()

    def close(self) -> None:
        """Closes the response."""
        try:
            if self._is_refusal:
                self._read_on()
            self._exchange.end()
        finally:
            self._inner.close()

    def _read_on(self) -> None:
        """Reads the provider's error, which a client that asks again does not read."""
        if self._exchange.is_over:
            return
        read = 0
        with suppress(Exception):
            for piece in self._inner:
                self._exchange.piece(piece)
                read += len(piece)
                if read > ERROR_MAX:
                    break


class _AsyncStream:
    """The same for asyncio."""

    def __init__(self, inner: Any, exchange: AsyncExchange, is_refusal: bool) -> None:
        self._inner, self._exchange, self._is_refusal = inner, exchange, is_refusal

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                await self._exchange.piece(piece)
                yield piece
        except Exception:
            await self._exchange.end()
            raise
        await self._exchange.end()

    async def aclose(self) -> None:
        """Closes the response."""
        try:
            if self._is_refusal:
                await self._read_on()
            await to_the_end(self._exchange.end)
        finally:
            await self._inner.aclose()

    async def _read_on(self) -> None:
        if self._exchange.is_over:
            return
        read = 0
        with suppress(Exception):
            async for piece in self._inner:
                await self._exchange.piece(piece)
                read += len(piece)
                if read > ERROR_MAX:
                    break


def _module_of(thing: Any) -> Any:
    """The package, httpx or httpx2, whose class this is."""
    return sys.modules[next(kind.__module__ for kind in type(thing).__mro__ if _is_httpx(kind)).partition(".")[0]]


def _is_httpx(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("httpx", "httpx2")


@cache
def _stream_class(kind: type, base: type) -> type:
    """A stream that httpx accepts as its own."""
    return type(kind.__name__, (kind, base), {})


def _recorded(kind: type, response: Any, base: str, exchange: Any) -> Any:
    return _stream_class(kind, getattr(_module_of(response), base))(
        response.stream, exchange, response.status_code >= 400
    )


def _decoder(response: Any) -> Callable[[bytes], bytes]:
    """What decompresses the pieces of the body, as httpx does it for the application."""
    encoding = response.headers.get("content-encoding")
    if not encoding or response.is_stream_consumed:
        return bytes
    twin = type(response)(200, headers={"content-encoding": encoding})
    decoder = twin._get_content_decoder()

    def decode(piece: bytes) -> bytes:
        decoded = decoder.decode(piece)
        return decoded if isinstance(decoded, bytes) else b"".join(decoded)

    return decode


def wrap(client: Any, recorder: Recorder) -> None:
    """Puts a recorder in front of all transports of an httpx client."""
    kind = RecordedAsyncTransport if hasattr(client, "aclose") else RecordedTransport

    def wrapped(transport: Any) -> Any:
        if isinstance(transport, RecordedTransport | RecordedAsyncTransport):
            transport.recorder = recorder
            return transport
        return transport if transport is None else kind(transport, recorder)

    client._transport = wrapped(client._transport)
    client._mounts = {pattern: wrapped(transport) for pattern, transport in client._mounts.items()}
