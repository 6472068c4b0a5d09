"""What a write returns while it waits on this machine: the members that are known here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from filrouge import types
from filrouge._shared.wire import Answer, TurnKey

BUFFERED = "buffered-on-client"
"""The durability of a write that waits on this machine for the server."""
WAITS = Answer(202, b"", [("filrouge-durability", BUFFERED)])
"""The answer to such a write."""


def now() -> str:
    """The time by this machine's clock."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def turn(before: types.Turn | None, key: TurnKey, status: types.TurnStatus, members: Mapping[str, Any]) -> types.Turn:
    """A turn of which a write waits."""
    start: dict[str, Any] = json.loads(key.start)
    if before is None:
        finished = start.get("answer_neutral") is not None
        return {
            "turn_id": "",
            "session_id": key.session_id,
            "request_id": key.request_id,
            "ordinal": None,
            "status": "finalized" if finished else "open",
            "question_neutral": start.get("question_neutral"),
            "question_translated": start.get("question_translated"),
            "answer_neutral": start.get("answer_neutral"),
            "answer_translated": None,
            "answer_translated_is_fallback": False,
            "metadata": start.get("metadata") or {},
            "identity_id": None,
            "pipeline_name": start.get("pipeline_name"),
            "consultant": start.get("consultant"),
            "repository": start.get("repository"),
            "translate_chat": bool(start.get("translate_chat")),
            "first_seq": None,
            "last_seq": None,
            "record_version": 1,
            "replaced_by_turn_id": None,
            "created_at": now(),
            "finalized_at": None,
            "deleted_at": None,
            "replayed": False,
            "differs": False,
        }
    known: types.Turn = {**before, "status": status, "last_seq": None}
    if "answer_neutral" in members:
        known["answer_neutral"] = members["answer_neutral"]
    if "answer_translated" in members:
        known["answer_translated"] = members["answer_translated"]
    return known


def session(session_id: str, members: Mapping[str, Any]) -> types.Session:
    """A session of which a write waits."""
    return {
        "session_id": session_id,
        "tenant_id": "",
        "identity_id": None,
        "project_id": members.get("project_id"),
        "parent_session_id": members.get("parent_session_id"),
        "team_id": None,
        "title": members.get("title"),
        "status": members.get("status") or "active",
        "state": members.get("state"),
        "last_seq": 0,
        "turn_count": 0,
        "metadata": members.get("metadata") or {},
        "created_at": now(),
        "updated_at": now(),
    }


def checkpoint(members: Mapping[str, Any]) -> types.Checkpoint:
    """A checkpoint that waits."""
    return {
        "seq": members.get("seq"),
        "label": members.get("label"),
        "state": dict(members["state"]),
        "created_at": now(),
    }


def event(members: Mapping[str, Any]) -> types.SessionEvent:
    """An event that waits."""
    return {
        "key": members["key"],
        "kind": members["kind"],
        "detail": members.get("detail"),
        "at": members.get("at") or now(),
        "created_at": now(),
    }
