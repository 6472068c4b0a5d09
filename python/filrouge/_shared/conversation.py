"""The records of the history contract (docs/history-contract.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from filrouge import types
from filrouge._shared.wire import given

NO_QUESTION = "[the question was not recorded]"
"""The question of a turn that only the fallback for development started."""


@dataclass(frozen=True)
class ConversationTurn:
    """A question and its answer, with the contract's names. Times are RFC 3339 in UTC."""

    turn_id: str
    session_id: str
    request_id: str
    question_neutral: str
    identity_id: str | None = None
    created_at: str | None = None
    finalized_at: str | None = None
    question_translated: str | None = None
    answer_neutral: str | None = None
    answer_translated: str | None = None
    answer_translated_is_fallback: bool | None = None
    translate_chat: bool = False
    pipeline_name: str | None = None
    consultant: str | None = None
    repository: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    record_version: int | None = None
    replaced_by_turn_id: str | None = None
    deleted_at: str | None = None


class QuestionAnswer(NamedTuple):
    """A question and its answer, in the neutral language."""

    question_neutral: str
    answer_neutral: str


_FIELDS = frozenset(member.name for member in fields(ConversationTurn))


def conversation_turn(turn: types.Turn) -> ConversationTurn:
    """A turn of the wire, with the contract's members."""
    members: dict[str, Any] = {name: value for name, value in turn.items() if name in _FIELDS}
    members["question_neutral"] = members["question_neutral"] or ""
    return ConversationTurn(**members)


def labels(turn: ConversationTurn) -> dict[str, Any]:
    """The optional members with which a turn starts."""
    return given(
        question_translated=turn.question_translated,
        translate_chat=turn.translate_chat or None,
        pipeline_name=turn.pipeline_name,
        consultant=turn.consultant,
        repository=turn.repository,
        metadata=dict(turn.metadata) or None,
    )


def final(
    request_id: str | None,
    answer_translated: str | None,
    answer_translated_is_fallback: bool | None,
    meta: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The members of a request that finalizes a turn, without the answer."""
    return given(
        request_id=request_id,
        answer_translated=answer_translated,
        answer_translated_is_fallback=answer_translated_is_fallback,
        metadata=dict(meta) if meta else None,
    )
