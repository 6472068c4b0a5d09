"""The ports of the history contract, over a ledger (docs/python-history-contract.md)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from filrouge import types
from filrouge._async.ledger import AsyncLedger
from filrouge._async.turn import AsyncTurn
from filrouge._shared.conversation import (
    NO_QUESTION,
    ConversationTurn,
    QuestionAnswer,
    conversation_turn,
    final,
    labels,
)
from filrouge._shared.wire import given, path
from filrouge.errors import Conflict, Invalid, NotFound

PENDING = "pending:"
"""Begins the id of a turn that an outage keeps from the server, which gives turns their ids."""
TURNS_MAX = 500
OPEN_TURNS_MAX = 10_000


class AsyncSessionConversationStore:
    """`ISessionConversationStore`: questions and answers by `session_id`.

    The contract's `finalize_turn` and `list_recent_finalized_turns` name no end user, but only its owner may read a
    session. They act for `identity_id`, if you give it; else for whom `current_identity` returns, such as the user of
    the request that your web framework is serving; else for the ledger's own identity. A turn that this object started
    is finalized for whom it was started.
    """

    def __init__(self, ledger: AsyncLedger, *, current_identity: Callable[[], str | None] | None = None) -> None:
        self._ledger, self._current_identity = ledger, current_identity
        self._open: OrderedDict[str, AsyncTurn] = OrderedDict()

    async def start_turn(
        self,
        *,
        session_id: str,
        request_id: str,
        identity_id: str | None,
        question_neutral: str | None,
        question_translated: str | None,
        translate_chat: bool,
        meta: Mapping[str, Any] | None,
        pipeline_name: str | None = None,
        consultant: str | None = None,
        repository: str | None = None,
    ) -> str:
        """Records the question. Returns the turn's id: the same for the same session and request, whatever else.

        A missing neutral question is a copy of the translated one, which `metadata` says."""
        turn = (
            self._for(identity_id)
            .session(session_id)
            .turn(
                question_neutral or None,
                request_id=request_id,
                **given(
                    question_translated=question_translated,
                    translate_chat=translate_chat or None,
                    pipeline_name=pipeline_name,
                    consultant=consultant,
                    repository=repository,
                    metadata=dict(meta) if meta else None,
                ),
            )
        )
        await turn.start()
        turn_id = turn.turn_id or PENDING + request_id
        if turn.status == "open":
            self._remember(turn_id, turn)
        return turn_id

    async def finalize_turn(
        self,
        *,
        session_id: str,
        request_id: str,
        turn_id: str,
        answer_neutral: str,
        answer_translated: str | None,
        answer_translated_is_fallback: bool | None,
        meta: Mapping[str, Any] | None,
        identity_id: str | None = None,
    ) -> None:
        """Records the answer. Repeating it changes nothing; another answer is refused."""
        members = final(request_id, answer_translated, answer_translated_is_fallback, meta)
        turn = self._open.get(turn_id)
        if turn is not None and turn.session_id == session_id:
            await turn.finish(answer_neutral, **members)
            self._open.pop(turn_id, None)
            return
        if turn_id.startswith(PENDING):
            raise Invalid(
                f"the turn {turn_id} was started by another process, during an outage",
                hint="finalize it where it was started, or start it again: its id does not change",
            )
        await finalize(self._for(identity_id), session_id, turn_id, {"answer_neutral": answer_neutral, **members})

    async def list_recent_finalized_turns(
        self, *, session_id: str, limit: int, identity_id: str | None = None
    ) -> list[ConversationTurn]:
        """The newest finalized turns, the oldest of them first; at most `limit`, and at most 500.

        Without those that were redacted or replaced. None for a session that does not exist, or is another's."""
        return [conversation_turn(turn) for turn in await newest(self._for(identity_id), session_id, limit)]

    def _for(self, identity_id: str | None) -> AsyncLedger:
        identity_id = identity_id or (self._current_identity() if self._current_identity else None)
        return self._ledger.with_identity(identity_id) if identity_id else self._ledger

    def _remember(self, turn_id: str, turn: AsyncTurn) -> None:
        self._open[turn_id] = turn
        if len(self._open) > OPEN_TURNS_MAX:
            self._open.popitem(last=False)


class AsyncUserConversationStore:
    """`IUserConversationStore`: questions and answers by end user, in the ledger."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self._ledger = ledger

    async def upsert_session_link(self, *, identity_id: str, session_id: str) -> None:
        """Makes the end user the owner of the session, which it creates if it does not exist.

        Raises `Conflict` (`session_linked`) if the session is another's; filrouge logs and counts that."""
        if await link(self._ledger, identity_id, session_id):
            return
        session = self._ledger.with_identity(identity_id).session(session_id)
        try:
            created = await session.create()
        except Conflict as error:
            if error.code != "session_conflict":
                raise
            created = None  # another caller has created it in the meantime
        if created is None or created["identity_id"] is None:
            await session.link(identity_id)

    async def insert_turn(self, *, turn: ConversationTurn) -> None:
        """Records a turn of an end user, open or finalized. A turn that is recorded stays as it is; only, an open one
        gets the answer of a finalized one.

        `turn_id` is the one that `start_turn` returned; "" for a turn that no store has started."""
        check_insertable(turn)
        assert turn.identity_id is not None
        session = self._ledger.with_identity(turn.identity_id).session(turn.session_id)
        try:
            async for known in session.turns(request_id=turn.request_id):
                check_same(turn, known)
        except NotFound:
            pass  # the session does not exist, or is another's: starting the turn says which
        started = session.turn(turn.question_neutral or None, request_id=turn.request_id, **labels(turn))
        check_same(turn, await started.start())
        if turn.answer_neutral is not None and started.status == "open":
            members = final(turn.request_id, turn.answer_translated, turn.answer_translated_is_fallback, None)
            await started.finish(turn.answer_neutral, **members)

    async def upsert_turn_final(
        self,
        *,
        identity_id: str,
        session_id: str,
        turn_id: str,
        answer_neutral: str,
        answer_translated: str | None,
        answer_translated_is_fallback: bool | None,
        finalized_at_utc: str | None,
        meta: Mapping[str, Any] | None,
    ) -> None:
        """Records the answer of a turn that exists. Repeating it changes nothing.

        The time is that of the store's clock: `finalized_at_utc` is not used."""
        members = final(None, answer_translated, answer_translated_is_fallback, meta)
        ledger = self._ledger.with_identity(identity_id)
        await finalize(ledger, session_id, turn_id, {"answer_neutral": answer_neutral, **members})


class AsyncConversationHistoryService:
    """`IConversationHistoryService`: what a server calls when a request begins and ends.

    `best_effort_finalize` is for development and tests: `on_request_finalized` without a `turn_id` then starts the turn
    first. By default, as in production, a missing `turn_id` is an error.

    >>> service = AsyncConversationHistoryService(ledger)
    >>> request = {"session_id": "visit", "request_id": "r1", "identity_id": "ada"}
    >>> turn_id = await service.on_request_started(
    ...     **request, translate_chat=False, question_neutral="Which way?", question_translated=None)
    >>> await service.on_request_finalized(
    ...     **request, turn_id=turn_id, answer_neutral="To the left.", answer_translated=None,
    ...     answer_translated_is_fallback=None)
    >>> await service.load_conversation_history(session_id="visit", limit=10, identity_id="ada")
    [QuestionAnswer(question_neutral='Which way?', answer_neutral='To the left.')]
    """

    def __init__(
        self,
        ledger: AsyncLedger,
        *,
        best_effort_finalize: bool = False,
        current_identity: Callable[[], str | None] | None = None,
    ) -> None:
        self._ledger, self._best_effort = ledger, best_effort_finalize
        self._store = AsyncSessionConversationStore(ledger, current_identity=current_identity)

    async def on_request_started(
        self,
        *,
        session_id: str,
        request_id: str,
        identity_id: str | None,
        translate_chat: bool,
        question_neutral: str | None,
        question_translated: str | None,
        meta: Mapping[str, Any] | None = None,
        pipeline_name: str | None = None,
        consultant: str | None = None,
        repository: str | None = None,
    ) -> str:
        """Links the session to the end user, if there is one, and records the question. Returns the turn's id."""
        linked = identity_id is None or await link(self._ledger, identity_id, session_id)
        turn_id = await self._store.start_turn(
            session_id=session_id,
            request_id=request_id,
            identity_id=identity_id,
            question_neutral=question_neutral,
            question_translated=question_translated,
            translate_chat=translate_chat,
            meta=meta,
            pipeline_name=pipeline_name,
            consultant=consultant,
            repository=repository,
        )
        if identity_id is not None and not linked:
            # The turn has created the session, or another caller did that in the meantime, without an identity.
            await link(self._ledger, identity_id, session_id)
        return turn_id

    async def on_request_finalized(
        self,
        *,
        session_id: str,
        request_id: str,
        identity_id: str | None,
        turn_id: str | None,
        answer_neutral: str,
        answer_translated: str | None,
        answer_translated_is_fallback: bool | None,
        meta: Mapping[str, Any] | None = None,
        question_neutral: str | None = None,
        question_translated: str | None = None,
        translate_chat: bool = False,
    ) -> None:
        """Records the answer. The question and `translate_chat` are used only if the turn is started here."""
        if not turn_id:
            if not self._best_effort:
                raise Invalid(
                    "turn_id is missing: a request is finalized with the turn_id that on_request_started returned",
                    hint="call on_request_started before the work begins",
                )
            question = question_neutral or (None if question_translated else NO_QUESTION)
            turn_id = await self.on_request_started(
                session_id=session_id,
                request_id=request_id,
                identity_id=identity_id,
                translate_chat=translate_chat,
                question_neutral=question,
                question_translated=question_translated,
                meta=meta,
            )
        await self._store.finalize_turn(
            session_id=session_id,
            request_id=request_id,
            turn_id=turn_id,
            answer_neutral=answer_neutral,
            answer_translated=answer_translated,
            answer_translated_is_fallback=answer_translated_is_fallback,
            meta=meta,
            identity_id=identity_id,
        )

    async def load_conversation_history(
        self, *, session_id: str, limit: int, identity_id: str | None = None
    ) -> list[QuestionAnswer]:
        """Questions and answers for a prompt, in the neutral language, the oldest first: of the newest finalized turns.

        It is a list, so a question that was asked twice is there twice. A turn without a text is left out."""
        turns = await self._store.list_recent_finalized_turns(
            session_id=session_id, limit=limit, identity_id=identity_id
        )
        return [
            QuestionAnswer(turn.question_neutral, turn.answer_neutral)
            for turn in turns
            if turn.question_neutral and turn.answer_neutral
        ]


async def link(ledger: AsyncLedger, identity_id: str, session_id: str) -> bool:
    """Links a session that exists to an end user. Returns False if it does not exist."""
    session = ledger.with_identity(identity_id).session(session_id)
    try:
        if (await session.get())["identity_id"] is not None:
            return True
    except NotFound:
        pass  # it does not exist, or is another's: linking says which
    try:
        await session.link(identity_id)
    except NotFound:
        return False
    return True


async def finalize(ledger: AsyncLedger, session_id: str, turn_id: str, body: Mapping[str, Any]) -> None:
    """Finalizes a turn by its id."""
    target = path(session_id, "turns", turn_id, "finalize")
    await ledger.request("POST", target, json=body, repeatable=True)


async def newest(ledger: AsyncLedger, session_id: str, limit: int) -> list[types.Turn]:
    """The newest finalized turns. A page of large turns ends before it reaches its limit."""
    found: list[types.Turn] = []
    wanted, cursor = min(limit, TURNS_MAX), None
    while len(found) < wanted:
        query: dict[str, str | int | None] = {"status": "finalized", "limit": wanted - len(found), "cursor": cursor}
        try:
            page: types.TurnPage = await ledger.request("GET", path(session_id, "turns"), query=query)
        except NotFound:
            break
        found[:0], cursor = page["data"], page["next_cursor"]
        if cursor is None:
            break
    return found


def check_insertable(turn: ConversationTurn) -> None:
    """Refuses a turn that may not be inserted."""
    if not turn.identity_id:
        raise Invalid("a turn must have an identity_id to be inserted")
    if turn.deleted_at is not None:
        raise Conflict(f"turn {turn.turn_id} was redacted; it is not recorded again", code="turn_redacted")
    if turn.finalized_at is not None and turn.answer_neutral is None:
        raise Invalid("a finalized turn must have answer_neutral", code="answer_missing")


def check_same(turn: ConversationTurn, known: types.Turn) -> None:
    """Refuses a turn whose id is another's than that of its session and request."""
    if turn.turn_id and known["turn_id"] and known["turn_id"] != turn.turn_id:
        raise Conflict(
            f"turn {known['turn_id']} belongs to this session and request_id, not {turn.turn_id}",
            code="turn_mismatch",
            hint='use the turn_id that start_turn returned, or "" for a turn that no store has started',
        )
    if known["identity_id"] is not None and known["identity_id"] != turn.identity_id:
        raise Conflict(f"turn {known['turn_id']} belongs to another identity", code="turn_mismatch")
