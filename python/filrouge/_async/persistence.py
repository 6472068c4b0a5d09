"""The message list of the persistence design, as a view over sessions (docs/python-persistence.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from filrouge._async.ledger import AsyncLedger
from filrouge._async.session import AsyncSession
from filrouge._async.turn import AsyncTurn
from filrouge._shared.exchanges import (
    FAILED,
    Exchange,
    HistoryMessage,
    MessageLike,
    exchanges,
    new_items,
    view,
)
from filrouge._shared.wire import given
from filrouge.errors import Gone, NotFound

Message = TypeVar("Message")


class AsyncHistoryStore(Generic[Message]):
    """The design's history store: it saves and reads messages, each a row of a list sorted by `rank`.

    `message` makes the objects that `get` returns, such as `ChatMessage.model_validate`; without it they are dicts.

    >>> store = AsyncHistoryStore(ledger)
    >>> await store.save("chat-1", [
    ...     {"exchange_id": "e1", "rank": 1, "role": "user", "channel": "final",
    ...      "parts": [{"type": "text", "text": "Which way?"}]},
    ...     {"exchange_id": "e1", "rank": 2, "role": "assistant", "channel": "final",
    ...      "parts": [{"type": "text", "text": "To the left."}]},
    ... ], user_id="ada")
    >>> [(m["rank"], m["exchange_id"], m["role"]) for m in await store.get("chat-1", "ada")]
    [(1, 'e1', 'user'), (2, 'e1', 'assistant')]
    >>> await store.next_rank("chat-1", "ada")  # the end of the exchange has rank 3
    4
    """

    @overload
    def __init__(self: AsyncHistoryStore[HistoryMessage], ledger: AsyncLedger) -> None: ...

    @overload
    def __init__(self, ledger: AsyncLedger, message: Callable[[HistoryMessage], Message]) -> None: ...

    def __init__(self, ledger: AsyncLedger, message: Callable[[HistoryMessage], Any] | None = None) -> None:
        self._ledger = ledger
        self._message: Callable[[HistoryMessage], Any] = message or (lambda row: row)

    async def save(
        self,
        session_id: str,
        messages: Iterable[MessageLike],
        user_id: str,
        team_id: str | None = None,
        agent_instance_id: str | None = None,
    ) -> None:
        """Records a batch of messages. Saving them again changes nothing.

        Each exchange is one turn, whose messages are written at once. The ledger numbers them: a message whose rank is
        taken, such as a late error, gets the next free rank, and never replaces another. An exchange ends with its
        final message, or with an error; without either it stays open, for the rest of its messages."""
        metadata = given(team_id=team_id, agent_instance_id=agent_instance_id)
        session = self._for(user_id).session(session_id, metadata=metadata or None)
        for exchange in exchanges(messages):
            await self._save(session, exchange)

    async def _save(self, session: AsyncSession, exchange: Exchange) -> None:
        turn = await self._started(session, exchange)
        if turn.status == "open" and exchange.has_final:
            await turn.finish()
        elif turn.status == "open" and exchange.has_error:
            await turn.fail(FAILED, "")  # what went wrong is in the message

    async def _started(self, session: AsyncSession, exchange: Exchange) -> AsyncTurn:
        """The exchange's turn, with its messages."""
        items, begins = exchange.items(), exchange.starts()
        question = str(begins.pop("question_neutral"))
        turn = session.turn(question, request_id=exchange.exchange_id, items=items, **begins)
        started = await turn.start()
        if started["replayed"]:
            await self._append(session, turn, items)
        return turn

    async def _append(self, session: AsyncSession, turn: AsyncTurn, items: list[Any]) -> None:
        """Adds the items that are not recorded yet; to a turn that has ended, only errors and notes can be added."""
        assert turn.data is not None
        recorded = [item async for item in session.items((turn.data["first_seq"] or 1) - 1)]
        added = new_items(items, recorded)
        if added:
            await turn.add(*added)

    async def get(self, session_id: str, user_id: str | None = None) -> list[Message]:
        """All messages of a session, sorted by rank. None if it does not exist, or is another user's."""
        session = self._for(user_id).session(session_id)
        try:
            turns = [turn async for turn in session.turns()]
            items = [item async for item in session.items()]
        except (NotFound, Gone):
            return []
        return [self._message(row) for row in view(session_id, turns, items)]

    async def list_sessions(self, user_id: str) -> list[str]:
        """The ids of a user's sessions, the most recently used first."""
        return [session["session_id"] async for session in self._for(user_id).sessions()]

    async def delete_session(self, session_id: str, user_id: str | None = None) -> int:
        """Erases a session. Returns how many messages it had; 0 if it does not exist, or is another user's."""
        count = len(await self.get(session_id, user_id))
        try:
            await self._for(user_id).session(session_id).erase()
        except (NotFound, Gone):
            return 0
        return count

    async def session_belongs_to_user(self, session_id: str, user_id: str) -> bool:
        """Whether the user owns the session."""
        try:
            return (await self._for(user_id).session(session_id).get())["identity_id"] == user_id
        except (NotFound, Gone):
            return False

    async def next_rank(self, session_id: str, user_id: str | None = None) -> int:
        """The rank that the next message gets, unless another caller is faster."""
        try:
            return (await self._for(user_id).session(session_id).get())["last_seq"] + 1
        except NotFound:
            return 1

    def _for(self, user_id: str | None) -> AsyncLedger:
        return self._ledger.with_identity(user_id) if user_id else self._ledger
