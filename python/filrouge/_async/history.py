"""The messages that a framework keeps in a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

from filrouge import types
from filrouge._async.session import AsyncSession
from filrouge._async.turn import AsyncTurn
from filrouge._shared.keys import new_key
from filrouge._shared.messages import FINAL, QUESTION, Message, Newest, Stored, continuation, items_of, mark
from filrouge._shared.wire import given
from filrouge.errors import Conflict, Error, NotFound, SeqConflict

LOG = logging.getLogger("filrouge")
ATTEMPTS_MAX = 100


class AsyncHistory:
    """Adds, reads and hides the messages of one framework, `kind`. All adapters use it.

    A question begins a turn; the messages after it are added to this turn, and an answer ends it."""

    def __init__(self, session: AsyncSession, kind: str, turn_id: str | None = None) -> None:
        """`turn_id`: the open turn that another object for this session knows."""
        self.session, self._kind = session, kind
        self._turn: AsyncTurn | None = self._of_id(turn_id) if turn_id else None

    @property
    def turn_id(self) -> str | None:
        """The open turn that takes the next messages without a question."""
        return self._turn.turn_id if self._turn else None

    async def add(self, messages: Sequence[Message], *, expected_seq: int | None = None) -> int:
        """Adds messages: all, or none. Returns the session's newest seq that they led to; 0 without messages.

        `expected_seq`: the session's newest seq that the caller knows; `SeqConflict` if there are newer items."""
        if not messages:
            return 0
        items, ends = items_of(messages, self._kind), messages[-1].channel == FINAL
        asks = any(message.channel == QUESTION for message in messages)
        turn = None if asks else await self._open_turn()
        last_seq = 0 if turn is None else await self._added(turn, items, expected_seq, ends)
        return last_seq or await self._started(items, expected_seq, ends)

    async def read(self, limit: int | None = None) -> list[Any]:
        """The newest messages that are not hidden, the oldest of them first."""
        newest = await self.newest(limit)
        return [stored.original for stored in reversed(newest.found)]

    async def pop(self) -> tuple[bool, Any]:
        """Hides the newest message. Returns whether there was one, and the message."""
        for _ in range(ATTEMPTS_MAX):
            newest = await self.newest(1)
            if not newest.found:
                return False, None
            try:
                await self._mark(newest.found[0], [newest.found[0].seq], newest.last_seq)
            except SeqConflict:
                continue  # another writer was faster
            return True, newest.found[0].original
        raise Conflict(f"other writers changed the session {ATTEMPTS_MAX} times", hint="try again", retryable=True)

    async def hide(self, count: int) -> None:
        """Hides the newest messages."""
        newest = await self.newest(count)
        if newest.found:
            await self._mark(newest.found[0], [stored.seq for stored in newest.found], newest.last_seq)

    async def replace(self, hidden: Sequence[Stored], messages: Sequence[Message], expected_seq: int) -> bool:
        """Hides messages and adds others in their place, at once. False if the session has newer items."""
        note = mark(self._kind, [stored.seq for stored in hidden])
        try:
            await self._started([continuation(), note, *items_of(messages, self._kind)], expected_seq, ends=False)
        except SeqConflict:
            return False
        return True

    async def clear(self) -> None:
        """Hides all messages."""
        newest = await self.newest(1)
        if newest.found:
            await self._mark(newest.found[0], None, None)

    async def newest(self, limit: int | None, wanted: Callable[[Any], bool] | None = None, since: str = "") -> Newest:
        """The newest messages that are not hidden, as items. Items that were recorded before `since` are not read."""
        newest = Newest(self._kind, limit, wanted, since)
        before: int | None = None
        while not newest.complete:
            size = newest.page
            try:
                rows = await self.session.newest_items(size, before=before)
            except NotFound:
                break
            newest.take(rows)
            before = rows[-1]["seq"] if rows else None
            if before is None or before == 1:
                break
        return newest

    async def _open_turn(self) -> AsyncTurn | None:
        """The turn to which messages without a question belong: the newest open one of this kind."""
        if self._turn is not None:
            return self._turn
        turn_id: str | None = None
        try:
            async for row in self.session.turns(status="open"):
                if row["request_id"].startswith(f"{self._kind}:"):
                    turn_id = row["turn_id"]
        except NotFound:
            return None
        return self._of_id(turn_id) if turn_id else None

    def _of_id(self, turn_id: str) -> AsyncTurn:
        turn = self.session.turn(request_id=self._kind)
        # Such a turn is not started again, whatever its status is.
        turn.data = cast("types.Turn", {"turn_id": turn_id, "status": "finalized"})
        return turn

    async def _started(self, items: list[types.NewItem], expected_seq: int | None, ends: bool) -> int:
        """Begins a turn, and ends it with its answer if it has one. Returns the seq of its last item."""
        if items[0]["channel"] != QUESTION:
            items = [continuation(), *items]
        options: Any = given(expected_seq=expected_seq, finalize=ends or None)
        turn = self.session.turn(request_id=f"{self._kind}:{new_key()}", items=items, **options)
        started = await turn.start()
        self._turn = None if ends else turn
        return started["last_seq"] or 0

    async def _added(self, turn: AsyncTurn, items: list[types.NewItem], expected_seq: int | None, ends: bool) -> int:
        """Adds items to a turn. Returns the seq of the last; 0 if the turn has ended in the meantime."""
        try:
            added = await turn.add(*items, expected_seq=expected_seq)
        except Conflict as error:
            if error.code not in ("turn_closed", "final_exists"):
                raise
            self._turn = None
            return 0
        self._turn = None if ends else turn
        last_seq = added.get("last_seq") or 0
        return await self._finished(turn, last_seq) if ends else last_seq

    async def _finished(self, turn: AsyncTurn, last_seq: int) -> int:
        """Ends the turn with its answer. The messages are recorded already, so nothing is raised."""
        try:
            ended = await turn.finish()
        except Error as error:
            LOG.warning("a turn of %s stays open: %s", self.session.session_id, error)
            return last_seq
        # An item of another writer may precede the one that ends the turn: the caller does not know it.
        return last_seq + 1 if ended["last_seq"] == last_seq + 1 else last_seq

    async def _mark(self, newest: Stored, seqs: Sequence[int] | None, expected_seq: int | None) -> None:
        """Adds a mark to the turn of the newest message: a turn takes notes also after its end."""
        await self._of_id(newest.turn_id or "").add(mark(self._kind, seqs), expected_seq=expected_seq)
