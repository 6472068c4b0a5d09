"""The optional members of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from filrouge import types
from filrouge._shared.keys import new_key
from filrouge._shared.wire import given


class TurnOptions(TypedDict, total=False):
    """The members that a turn may start with, besides question and items."""

    question_translated: str
    metadata: Mapping[str, Any]
    runtime_context: Mapping[str, Any]
    translate_chat: bool
    pipeline_name: str
    consultant: str
    repository: str


def turn_body(
    question: str | None,
    request_id: str,
    items: Sequence[types.NewItem],
    options: Mapping[str, Any],
    answer: str | None = None,
) -> dict[str, Any]:
    """The body that starts a turn."""
    body = given(request_id=request_id, question_neutral=question, answer_neutral=answer, **options)
    return {**body, "items": list(items)} if items else body


def lease_body(holder: str | None, ttl: float, wait: float | None) -> dict[str, Any]:
    """The body that takes a lease; a holder without a name gets one of its own."""
    wait_ms = None if wait is None else round(wait * 1000)
    return given(holder=holder or new_key(), ttl_ms=round(ttl * 1000), wait_ms=wait_ms)
