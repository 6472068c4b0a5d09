"""Records one request to a model, and its response while it arrives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from filrouge import types
from filrouge._async.body import AsyncBody
from filrouge._async.runtime import CANCELLED, Lock
from filrouge._async.session import AsyncSession
from filrouge._async.turn import AsyncTurn
from filrouge._record.entries import Asked
from filrouge._record.held import NEWEST_ITEMS, Held
from filrouge._record.plan import PlannedTurn, plan
from filrouge._record.wires import Wire, read_request
from filrouge._shared.wire import Request, path
from filrouge.errors import Error, NotFound, TransportError, TurnClosed, Unavailable

if TYPE_CHECKING:
    from filrouge._record.recorder import Recorder


class AsyncHeldSession:
    """What a session holds. One request at a time compares itself with it, and starts its turn."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.held = Held()

    async def refresh(self, session: AsyncSession) -> None:
        """Reads the items that were written since the last time; at first, the newest."""
        if self.held.seq is None:
            try:
                newest = (await session.get())["last_seq"]
            except NotFound:
                return
            self.held.seq = max(0, newest - NEWEST_ITEMS)
        async for item in session.items(self.held.seq, limit=NEWEST_ITEMS):
            self.held.add(item)


class AsyncExchange:
    """A request to a model and its response, recorded into a turn.

    A failure of the recording is handed to the recorder, and ends only the recording."""

    def __init__(self, recorder: Recorder, session: AsyncSession, shared: AsyncHeldSession, wire: Wire) -> None:
        self._recorder, self._session, self._shared, self._wire = recorder, session, shared, wire
        self._turn: AsyncTurn | None = None
        self._body: AsyncBody | None = None
        self._decode: Callable[[bytes], bytes] = bytes
        self._transport = session._transport  # pyright: ignore[reportPrivateUsage]
        self.is_over = False
        """Whether nothing more is recorded."""

    async def ask(self, body: bytes) -> None:
        """Records what the request says that is new. Call it before the request is sent."""
        await self._guarded(self._ask, body)

    async def open(self, decode: Callable[[bytes], bytes]) -> None:
        """Begins to record the response. `decode` decompresses a piece of its body."""
        self._decode = decode
        await self._guarded(self._open)

    async def piece(self, raw: bytes) -> None:
        """Records a piece of the response's body. Call it before the application sees the piece."""
        await self._guarded(self._piece, raw)

    async def end(self) -> None:
        """Ends the recording: the response has ended, or broke off, or the application reads no more of it.

        The server knows whether the response is complete."""
        await self._guarded(self._end)
        self.is_over = True

    async def fail(self, error: BaseException) -> None:
        """Ends the turn because there is no response."""
        await self._guarded(self._fail, error)
        self.is_over = True

    async def _guarded(self, function: Callable[..., Any], *arguments: Any) -> None:
        if self.is_over:
            return
        try:
            await function(*arguments)
        except Exception as error:
            self.is_over = True
            with suppress(Error):  # the first failure is reported
                await self._abort()
            self._recorder.failed(error, self._session.session_id)

    async def _abort(self) -> None:
        if self._body is not None:
            await self._body.abort()

    async def _ask(self, body: bytes) -> None:
        self._recorder.check()
        asked = read_request(self._wire, body)
        async with self._shared.lock:
            self._turn = await self._start(asked)

    async def _start(self, asked: Asked) -> AsyncTurn:
        is_complete = True
        try:
            await self._shared.refresh(self._session)
        except (TransportError, Unavailable):
            if self._transport.outage is None:
                raise
            is_complete = False  # the writes wait for the server
        planned = plan(asked, self._shared.held, is_complete=is_complete)
        for past in planned.past:
            await self._record_past(past)
        try:
            return await self._begin(planned.turn)
        except TurnClosed:
            return await self._begin(planned.restated)

    async def _record_past(self, past: PlannedTurn) -> None:
        try:
            turn = await self._begin(past)
        except TurnClosed:
            return  # it ended without the model's words, which the session then does not have
        if turn.status != "open":
            return
        if past.answer is not None:
            await turn.finish(past.answer)
        else:
            await turn.cancel()

    async def _begin(self, planned: PlannedTurn) -> AsyncTurn:
        """Starts the turn, or appends to the one that continues."""
        if planned.turn_id is None:
            if planned.answer is not None:
                return await self._session.record_turn(planned.question, planned.answer, items=planned.items)
            turn = self._session.turn(planned.question, items=planned.items)
            await turn.start()
            return turn
        turn = await self._found(planned.turn_id)
        if planned.items:
            await turn.add(*planned.items)
        return turn

    async def _found(self, turn_id: str) -> AsyncTurn:
        """A turn that is open, or was interrupted and is open again."""
        target = path(self._session.session_id, "turns", turn_id)
        found: types.Turn = (await self._transport.send(Request("GET", target))).json()
        turn = self._session.turn(found["question_neutral"], request_id=found["request_id"])
        turn.data = found
        if found["status"] == "interrupted":
            await turn.start()
        if turn.status != "open":
            raise TurnClosed("the turn of these tool calls has ended", code="turn_closed", status=409)
        return turn

    async def _open(self) -> None:
        assert self._turn is not None
        self._body = await self._turn.stream_body(self._wire.format, self._recorder.agent, True)

    async def _piece(self, raw: bytes) -> None:
        assert self._body is not None
        piece = self._decode(raw)
        if piece:
            await self._body.send(piece)

    async def _end(self) -> None:
        assert self._body is not None
        await self._body.finish()

    async def _fail(self, error: BaseException) -> None:
        assert self._turn is not None
        if isinstance(error, CANCELLED):
            await self._turn.cancel()
        else:
            await self._turn.fail(error, retryable=True)
