"""Calls of the voice design (docs/python-voice.md): its names, and when a checkpoint is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar, cast

from filrouge import types
from filrouge._shared.keys import new_key
from filrouge._shared.wire import given

SessionT = TypeVar("SessionT")
VOCAL_RESUME_ALREADY_TERMINATED = "VOCAL_RESUME_ALREADY_TERMINATED"
START = "START"
SILENCE = "[silence]"
"""The question of a turn in which the agent speaks first, or again."""
USER, AGENT = "user", "agent"
_SPOKEN = {("question", "user"): USER, ("final", "assistant"): AGENT, ("partial", "assistant"): AGENT}


class LockTimeout(Exception):
    """Another webhook kept the call for the whole wait."""


class CallTerminated(Exception):
    """The call has ended, in a terminal state or because it was closed: it is not opened again."""

    reply = VOCAL_RESUME_ALREADY_TERMINATED


class CallMessage(NamedTuple):
    """A row of `call_messages`."""

    seq: int
    role: str
    text: str
    ts: datetime


@dataclass(frozen=True)
class Codec(Generic[SessionT]):
    """How the application's session becomes a checkpoint's state, and the other way round."""

    encode: Callable[[SessionT], Mapping[str, Any]]
    decode: Callable[[str, dict[str, Any]], SessionT]
    new: Callable[[str], SessionT]
    replay: Callable[[SessionT, str, str], None] | None = None


@dataclass(frozen=True)
class CheckpointPolicy:
    """When a checkpoint is due: the state has changed, a critical member has changed, or enough messages were written.

    >>> policy = CheckpointPolicy()
    >>> before = {"state": "QUALIF", "pending_slots_display": None}
    >>> policy.is_due(before, {**before}, 2), policy.is_due(before, {**before}, 3)
    (False, True)
    >>> policy.is_due(before, {**before, "state": "WAIT_CONFIRM"}, 1)
    True
    >>> policy.is_due(before, {**before, "pending_slots_display": ["Tuesday 9:00"]}, 1)
    True
    """

    every: int = 3
    critical: Sequence[str] = field(default=("pending_slots_display",))

    def is_due(self, before: Mapping[str, Any] | None, after: Mapping[str, Any], messages: int) -> bool:
        """`before` is the newest checkpoint's state, None without one; `messages` were written since."""
        if before is None:
            return True
        compared = ("state", *self.critical)
        return messages >= self.every or any(before.get(name) != after.get(name) for name in compared)


def label_of(state: Mapping[str, Any]) -> str | None:
    """The state of the application's state machine."""
    label = state.get("state")
    return None if label is None else str(getattr(label, "value", label))


def newest_seq(items: Sequence[types.Item], seq: int) -> int:
    """The newest seq of a call, of which these are the items after `seq`."""
    return (items[-1]["seq"] if items else None) or seq


def spoken(items: Iterable[types.Item]) -> list[CallMessage]:
    """The messages among a call's items."""
    messages = (_message(item) for item in items)
    return [message for message in messages if message is not None]


def _message(item: types.Item) -> CallMessage | None:
    role = _SPOKEN.get((item["channel"], item["role"]))
    text = "\n".join(str(part["text"]) for part in item["parts"] if part["type"] == "text")
    if role is None or item["variant"] != "neutral" or (role == USER and text == SILENCE):
        return None
    time = item["occurred_at"] or item["created_at"]
    return CallMessage(item["seq"] or 0, role, text, datetime.fromisoformat(time.replace("Z", "+00:00")))


def message_item(role: str, text: str, key: str, ts: datetime | None) -> types.NewItem:
    """The item of a message in a turn that has begun."""
    item = given(
        item_id=key,
        role="user" if role == USER else "assistant",
        channel="question" if role == USER else "final",
        parts=[{"type": "text", "text": text}],
        occurred_at=ts.astimezone().isoformat() if ts else None,
    )
    return cast(types.NewItem, item)


def note_item(label: str | None) -> types.NewItem:
    """The item that says that a call is in another state."""
    item = given(item_id=new_key(), role="system", channel="system_note")
    return cast(types.NewItem, {**item, "parts": [{"type": "text", "text": f"state {label}"}]})
