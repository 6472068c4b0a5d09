"""Messages of the persistence design (docs/python-persistence.md), and the items that record them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol, TypedDict, cast, runtime_checkable

from filrouge import types
from filrouge._shared.wire import given

NO_QUESTION = "[no question]"
"""The question of an exchange that has no message of the user."""
FINAL = "final"
FAILED = "exchange_failed"
"""The code of an error that only ends a turn; the message before it says what went wrong."""
_OWN_CHANNELS = frozenset({"cancelled", "interrupted", "link", "redaction"})
_OWN_PARTS = frozenset({"redaction", "session_closed", "session_link", "turn_status"})
"""Items that filrouge writes about the session itself: they are no messages."""


class HistoryMessage(TypedDict):
    """One message, with the design's names. `rank` is the item's seq, `exchange_id` the turn's `request_id`."""

    session_id: str
    exchange_id: str
    rank: int
    timestamp: str
    role: types.Role
    channel: str
    parts: list[types.Part]
    metadata: dict[str, Any]


@runtime_checkable
class Model(Protocol):
    """A message that is an object, such as a Pydantic model."""

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
        """The message as JSON values."""
        ...


MessageLike = Mapping[str, Any] | Model


@dataclass(frozen=True)
class Exchange:
    """The messages of one exchange in a batch."""

    exchange_id: str
    question: HistoryMessage | None
    others: Sequence[HistoryMessage]

    def starts(self) -> dict[str, Any]:
        """The members that start the turn."""
        if self.question is None:
            return {"question_neutral": NO_QUESTION}
        text = plain_text(self.question["parts"])
        return given(question_neutral=text or "", metadata=self.question["metadata"] or None)

    @property
    def has_final(self) -> bool:
        """Whether it has the assistant's final message."""
        return any(m["role"] == "assistant" and m["channel"] == FINAL for m in self.others)

    @property
    def has_error(self) -> bool:
        """Whether it has an error."""
        return any(m["channel"] == "error" for m in self.others)

    def items(self) -> list[types.NewItem]:
        """The items that follow the question. Their keys make a repetition harmless, and keep late messages apart."""
        asked = self.question
        extra = [asked] if asked is not None and plain_text(asked["parts"]) is None else []
        return [item_of(message) for message in (*extra, *self.others)]


def exchanges(messages: Iterable[MessageLike]) -> list[Exchange]:
    """The messages of a batch by exchange, each in the order of its ranks."""
    groups: dict[str, list[HistoryMessage]] = {}
    for message in sorted(map(read_message, messages), key=lambda message: message["rank"]):
        groups.setdefault(message["exchange_id"], []).append(message)
    return [_exchange(exchange_id, group) for exchange_id, group in groups.items()]


def _exchange(exchange_id: str, group: Sequence[HistoryMessage]) -> Exchange:
    is_question = (m for m in group if m["role"] == "user" and m["channel"] in (FINAL, "question"))
    question = next(is_question, None)
    return Exchange(exchange_id, question, [m for m in group if m is not question])


def read_message(message: MessageLike) -> HistoryMessage:
    """A message that a caller gave: a mapping, or an object such as a Pydantic model."""
    if isinstance(message, Model):
        given_message: Mapping[str, Any] = message.model_dump(mode="json", exclude_none=True)
    else:
        given_message = message
    read = dict(given_message)
    read["timestamp"] = rfc3339(read.get("timestamp"))
    read["parts"] = [dict(part) for part in read.get("parts") or ()]
    read["metadata"] = dict(read.get("metadata") or {})
    read["role"], read["channel"] = _word(read["role"]), _word(read["channel"])
    return cast(HistoryMessage, read)


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def rfc3339(value: Any) -> str | None:
    """A time as the wire has it. A time without a zone is UTC.

    >>> rfc3339("2026-02-01T09:30:00")
    '2026-02-01T09:30:00+00:00'
    """
    if value is None:
        return None
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).isoformat()


def plain_text(parts: Sequence[Mapping[str, Any]]) -> str | None:
    """The text of parts that are one text and nothing else."""
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == "text":
        text = str(parts[0]["text"])
        return text if text.strip() else None
    return None


def item_of(message: HistoryMessage) -> types.NewItem:
    """The item that records a message.

    Its key contains the message's content: another message at a rank that is taken gets the next free rank."""
    metadata = message["metadata"]
    content = json.dumps([message["role"], message["channel"], message["parts"]], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return cast(
        types.NewItem,
        given(
            item_id=f"{message['exchange_id'][:200]}:{message['rank']}:{digest}",
            role=message["role"],
            channel="question" if message["role"] == "user" and message["channel"] == FINAL else message["channel"],
            parts=message["parts"],
            metadata=metadata or None,
            agent=metadata.get("agent_id") or metadata.get("agent_name"),
            model=metadata.get("model"),
            usage=metadata.get("token_usage"),
            occurred_at=message["timestamp"],
        ),
    )


def new_items(items: Sequence[types.NewItem], known: Iterable[types.Item]) -> list[types.NewItem]:
    """The items that are not recorded yet."""
    keys = {item["item_id"] for item in known}
    return [item for item in items if item.get("item_id") not in keys]


def view(session_id: str, turns: Iterable[types.Turn], items: Iterable[types.Item]) -> Iterator[HistoryMessage]:
    """The messages of a session, in the order of their ranks.

    Without redacted and replaced contents, translations, and what filrouge records about the session itself."""
    known = {turn["turn_id"]: turn for turn in turns}
    shown = [item for item in items if _is_shown(item, known)]
    partials = {item["turn_id"]: item["seq"] for item in shown if item["channel"] == "partial"}
    for item in shown:
        turn = known.get(item["turn_id"] or "")
        unfinished = turn is not None and turn["status"] != "finalized"
        last_partial = unfinished and partials.get(item["turn_id"]) == item["seq"]
        yield HistoryMessage(
            session_id=session_id,
            exchange_id=turn["request_id"] if turn else "",
            rank=item["seq"] or 0,
            timestamp=item["occurred_at"] or item["created_at"],
            role=item["role"],
            channel=_channel(item["channel"], last_partial),
            parts=[_part(part) for part in item["parts"]],
            metadata=_metadata(item, turn),
        )


def _is_shown(item: types.Item, turns: Mapping[str, types.Turn]) -> bool:
    is_known = item["turn_id"] is None or item["turn_id"] in turns
    is_own = item["channel"] in _OWN_CHANNELS or any(
        part["type"] in _OWN_PARTS or part.get("code") == FAILED for part in item["parts"]
    )
    texts = [part.get("text") for part in item["parts"]]
    is_empty = item["channel"] == "question" and texts in ([""], [NO_QUESTION])
    return is_known and not is_own and not is_empty and not item["redacted"] and item["variant"] == "neutral"


def _channel(channel: str, last_partial: bool) -> str:
    if channel == "partial":
        return FINAL if last_partial else "observation"
    return FINAL if channel == "question" else channel


def _part(part: types.Part) -> types.Part:
    """An error of filrouge becomes a text: the design has no part for errors."""
    return {"type": "text", "text": part.get("message") or part.get("code", "")} if part["type"] == "error" else part


def _metadata(item: types.Item, turn: types.Turn | None) -> dict[str, Any]:
    recorded = item["metadata"]
    if recorded is None and item["channel"] == "question" and turn is not None:
        recorded = turn["metadata"]
    found = given(model=item["model"], token_usage=item["usage"], agent_id=item["agent"])
    return {**found, **(recorded or {})}
