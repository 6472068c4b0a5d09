"""The journal of a call, and its lock."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from datetime import datetime
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from filrouge import types
from filrouge._async.lease import AsyncLease
from filrouge._async.runtime import to_the_end
from filrouge._async.session import AsyncSession
from filrouge._async.turn import AsyncTurn
from filrouge._shared.calls import AGENT, SILENCE, USER, CallTerminated, LockTimeout, message_item, note_item
from filrouge.errors import Conflict, Invalid, LeaseTimeout, NotFound

if TYPE_CHECKING:
    from filrouge._async.voice import AsyncVoiceSessionStore

CallKey = tuple[str, str]
ENDED = ("session_terminated", "session_closed")


class AsyncCallJournal:
    """Records the messages of a call: those of the user start turns, those of the agent end them."""

    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self.last_seq = 0
        self.answered: str | None = None
        self._turn: AsyncTurn | None = None

    async def write(self, role: str, text: str, key: str, ts: datetime | None) -> int | None:
        """Records a message. Returns its seq."""
        if role == USER:
            seq = await self._ask(text, key)
        elif role == AGENT:
            seq = await self._answer(text, key, ts)
        else:
            raise Invalid(f"a message's role is {USER} or {AGENT}, not {role}")
        return seq

    async def _ask(self, text: str, key: str) -> int | None:
        self._turn = self.session.turn(text if text.strip() else SILENCE, request_id=key)
        started = await self._turn.start()
        self.answered = self._turn.answer if self._turn.replayed else None
        self._note_seq(started["last_seq"])
        return started["first_seq"]

    async def _answer(self, text: str, key: str, ts: datetime | None) -> int | None:
        turn = self._turn or await self._open_turn()
        if turn is None or turn.status != "open":
            turn = self.session.turn(SILENCE, request_id=key)
            await turn.start()
        self._turn = None
        if ts is None:
            seq = newest = (await turn.finish(text))["last_seq"]
        else:
            seq = (await turn.add(message_item(AGENT, text, key, ts))).get("last_seq")
            newest = (await turn.finish())["last_seq"]
        self._note_seq(newest)
        return seq

    def _note_seq(self, seq: int | None) -> None:
        self.last_seq = max(self.last_seq, seq or 0)

    async def _open_turn(self) -> AsyncTurn | None:
        """The newest turn that waits for its answer, which another process may have started."""
        try:
            waiting = [turn async for turn in self.session.turns(status="open")]
        except NotFound:
            return None
        if not waiting:
            return None
        turn = self.session.turn(waiting[-1]["question_neutral"], request_id=waiting[-1]["request_id"])
        await turn.start()
        return turn

    async def note(self, label: str | None) -> None:
        """Adds a note about a state that changed without a message, so that its checkpoint has a seq of its own."""
        turn = await self._open_turn()
        if turn is None:
            for ended in await self.session.last_turns(1):
                turn = self.session.turn(ended["question_neutral"], request_id=ended["request_id"])
                await turn.start()
        if turn is not None:
            await turn.add(note_item(label))


class AsyncCallLock:
    """The right to work on a call, to be used in a `with` statement. The store's functions write under it."""

    resumed: types.Resumed
    journal: AsyncCallJournal

    def __init__(self, store: AsyncVoiceSessionStore[Any], tenant_id: int | str, call_id: str, wait: float) -> None:
        self._store, self._tenant_id, self._call_id, self._wait = store, tenant_id, call_id, wait
        self._lease: AsyncLease | None = None
        self._token: Token[Mapping[CallKey, AsyncCallJournal]] | None = None

    async def __aenter__(self) -> AsyncCallLock:
        session = await self._store.open_session(self._tenant_id, self._call_id)
        lease = session.resume(create=True, wait=self._wait, ttl=self._store.lease_ttl)
        try:
            await lease.acquire()
        except LeaseTimeout as error:
            raise LockTimeout(str(error)) from error
        except Conflict as error:
            if error.code in ENDED:
                raise CallTerminated(str(error)) from error
            raise
        assert lease.resumed is not None
        self._lease, self.resumed, self.journal = lease, lease.resumed, AsyncCallJournal(session)
        held = {**_HELD.get(), (str(self._tenant_id), self._call_id): self.journal}
        self._token = _HELD.set(held)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _HELD.reset(self._token)
        if self._lease is not None:
            await to_the_end(self._lease.release)


_HELD: ContextVar[Mapping[CallKey, AsyncCallJournal]] = ContextVar("filrouge_calls", default=MappingProxyType({}))


def held_journal(key: CallKey) -> AsyncCallJournal | None:
    """The journal of a call that the caller holds."""
    return _HELD.get().get(key)
