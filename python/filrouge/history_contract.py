"""The ports of the history contract, and what implements them over a ledger (docs/python-history-contract.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from filrouge._async.history_contract import (
    AsyncConversationHistoryService,
    AsyncSessionConversationStore,
    AsyncUserConversationStore,
)
from filrouge._shared.conversation import ConversationTurn, QuestionAnswer
from filrouge._sync.history_contract import (
    ConversationHistoryService,
    SessionConversationStore,
    UserConversationStore,
)

__all__ = [
    "AsyncConversationHistoryService",
    "AsyncSessionConversationStore",
    "AsyncUserConversationStore",
    "ConversationHistoryService",
    "ConversationTurn",
    "IConversationHistoryService",
    "ISessionConversationStore",
    "IUserConversationStore",
    "QuestionAnswer",
    "SessionConversationStore",
    "Turn",
    "UserConversationStore",
]

Turn = ConversationTurn
"""The contract's name of a turn."""


class ISessionConversationStore(Protocol):
    """The contract's session store."""

    def start_turn(
        self,
        *,
        session_id: str,
        request_id: str,
        identity_id: str | None,
        question_neutral: str,
        question_translated: str | None,
        translate_chat: bool,
        meta: Mapping[str, Any] | None,
    ) -> str:
        """Records a question. Returns the turn's id."""
        ...

    def finalize_turn(
        self,
        *,
        session_id: str,
        request_id: str,
        turn_id: str,
        answer_neutral: str,
        answer_translated: str | None,
        answer_translated_is_fallback: bool | None,
        meta: Mapping[str, Any] | None,
    ) -> None:
        """Records an answer."""
        ...

    def list_recent_finalized_turns(self, *, session_id: str, limit: int) -> list[ConversationTurn]:
        """The newest finalized turns, the oldest of them first."""
        ...


class IUserConversationStore(Protocol):
    """The contract's durable store."""

    def upsert_session_link(self, *, identity_id: str, session_id: str) -> None:
        """Links a session to its owner."""
        ...

    def insert_turn(self, *, turn: ConversationTurn) -> None:
        """Records a turn."""
        ...

    def upsert_turn_final(
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
        """Records the answer of a turn."""
        ...


class IConversationHistoryService(Protocol):
    """The contract's service."""

    def on_request_started(
        self,
        *,
        session_id: str,
        request_id: str,
        identity_id: str | None,
        translate_chat: bool,
        question_neutral: str,
        question_translated: str | None,
        meta: Mapping[str, Any] | None = None,
    ) -> str:
        """Records the question of a request that begins. Returns the turn's id."""
        ...

    def on_request_finalized(
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
    ) -> None:
        """Records the answer of a request."""
        ...
