"""The message list of the persistence design."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from filrouge import AsyncLedger, Ledger
from filrouge.persistence import AsyncHistoryStore, HistoryMessage, HistoryStore


def message(exchange_id: str, rank: int, role: str, channel: str, *parts: Any, **members: Any) -> dict[str, Any]:
    texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    given = {"exchange_id": exchange_id, "rank": rank, "role": role, "channel": channel, "parts": texts}
    return {"session_id": "s", "timestamp": "2026-02-01T10:00:00Z", "metadata": {}, **given, **members}


CALL = {"type": "tool_call", "call_id": "c1", "name": "look", "args": {"where": "left"}}
RESULT = {"type": "tool_result", "call_id": "c1", "ok": True, "latency_ms": 7, "content": "a wall"}
METADATA = {
    "model": "m-1",
    "agent_id": "guide",
    "token_usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    "finish_reason": "stop",
    "sources": [{"uid": "doc-1"}],
}


def exchange(exchange_id: str, first_rank: int) -> list[dict[str, Any]]:
    return [
        message(exchange_id, first_rank, "user", "final", "Which way?"),
        message(exchange_id, first_rank + 1, "assistant", "thought", "Look first."),
        message(exchange_id, first_rank + 2, "assistant", "tool_call", CALL),
        message(exchange_id, first_rank + 3, "tool", "tool_result", RESULT),
        message(exchange_id, first_rank + 4, "assistant", "final", "To the right.", metadata=METADATA),
    ]


def shape(rows: list[HistoryMessage]) -> list[tuple[int, str, str, str]]:
    return [(row["rank"], row["exchange_id"], row["role"], row["channel"]) for row in rows]


def test_saved_messages_are_read_as_they_were(ledger: Ledger) -> None:
    store, saved = HistoryStore(ledger), exchange("e1", 1)
    store.save("fred-same", saved, "ada")
    rows = store.get("fred-same", "ada")
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    for row, given in zip(rows, saved, strict=True):
        assert {**row, "session_id": "s", "timestamp": ""} == {**given, "timestamp": ""}
    assert [row["timestamp"][:19] for row in rows[1:]] == ["2026-02-01T10:00:00"] * 4
    assert store.next_rank("fred-same", "ada") == 7


def test_saving_again_changes_nothing(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    for _ in range(3):
        store.save("fred-again", exchange("e1", 1), "ada")
    store.save("fred-again", exchange("e2", 6), "ada")
    assert shape(store.get("fred-again", "ada"))[4:6] == [(5, "e1", "assistant", "final"), (7, "e2", "user", "final")]
    assert store.next_rank("fred-again", "ada") == 13


def test_ranks_of_the_caller_are_only_an_order(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    store.save("fred-order", list(reversed(exchange("e1", 40))), "ada")
    assert [row["channel"] for row in store.get("fred-order", "ada")] == [
        "final", "thought", "tool_call", "tool_result", "final",
    ]  # fmt: skip
    assert [row["rank"] for row in store.get("fred-order", "ada")] == [1, 2, 3, 4, 5]


def test_a_late_error_gets_the_next_free_rank(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    store.save("fred-late", exchange("e1", 1), "ada")
    before = store.get("fred-late", "ada")
    error = message("e1", 5, "assistant", "error", "The mail bounced.")
    for _ in range(2):
        store.save("fred-late", [error], "ada")
    rows = store.get("fred-late", "ada")
    assert rows[:5] == before
    assert [(row["rank"], row["channel"], row["parts"]) for row in rows[5:]] == [
        (7, "error", [{"type": "text", "text": "The mail bounced."}])
    ]


def test_two_messages_at_one_rank_are_both_kept(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    batch = [
        message("e1", 1, "user", "final", "Which way?"),
        message("e1", 2, "system", "system_note", "A document was edited."),
        message("e1", 2, "assistant", "error", "The model is down."),
    ]
    for _ in range(2):
        store.save("fred-collision", batch, "ada")
    rows = store.get("fred-collision", "ada")
    assert shape(rows) == [
        (1, "e1", "user", "final"),
        (2, "e1", "system", "system_note"),
        (3, "e1", "assistant", "error"),
    ]
    assert rows[2]["parts"] == [{"type": "text", "text": "The model is down."}]
    (turn,) = ledger.with_identity("ada").session("fred-collision").turns()
    assert turn["status"] == "failed"


def test_an_exchange_can_be_saved_in_two_steps(ledger: Ledger) -> None:
    store, whole = HistoryStore(ledger), exchange("e1", 1)
    store.save("fred-steps", whole[:3], "ada")
    (turn,) = ledger.with_identity("ada").session("fred-steps").turns()
    assert turn["status"] == "open"
    store.save("fred-steps", whole[3:], "ada")
    store.save("fred-steps", whole, "ada")
    assert [row["rank"] for row in store.get("fred-steps", "ada")] == [1, 2, 3, 4, 5]
    (turn,) = ledger.with_identity("ada").session("fred-steps").turns()
    assert (turn["status"], turn["answer_neutral"]) == ("finalized", "To the right.")


def test_another_final_message_is_refused(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    store.save("fred-final", exchange("e1", 1), "ada")
    with pytest.raises(Exception, match=r"turn_closed|final_exists"):
        store.save("fred-final", [message("e1", 5, "assistant", "final", "To the left.")], "ada")
    assert store.get("fred-final", "ada")[4]["parts"] == [{"type": "text", "text": "To the right."}]


def test_questions_with_other_parts_keep_them(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    parts = ["What is this?", {"type": "image_url", "url": "https://example.org/a.png", "alt": "a"}]
    store.save("fred-parts", [message("e1", 1, "user", "final", *parts)], "ada")
    (row,) = store.get("fred-parts", "ada")
    assert (row["role"], row["channel"], len(row["parts"])) == ("user", "final", 2)
    assert row["timestamp"][:19] == "2026-02-01T10:00:00"


def test_exchanges_without_a_question_have_no_invented_message(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    store.save("fred-greeting", [message("e0", 1, "assistant", "final", "Hello!")], "ada")
    assert [row["parts"][0]["text"] for row in store.get("fred-greeting", "ada")] == ["Hello!"]


def test_only_the_user_sees_a_session(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    store.save("fred-hers", exchange("e1", 1), "ada")
    assert store.get("fred-hers", "bob") == [] and store.get("fred-hers") == []
    assert store.session_belongs_to_user("fred-hers", "ada")
    assert not store.session_belongs_to_user("fred-hers", "bob")
    assert store.delete_session("fred-hers", "bob") == 0
    assert len(store.get("fred-hers", "ada")) == 5


def test_sessions_are_listed_and_deleted(ledger: Ledger) -> None:
    store = HistoryStore(ledger)
    for session_id in ("fred-first", "fred-second"):
        store.save(session_id, exchange("e1", 1), "fred-carol", team_id="team-1", agent_instance_id="agent-1")
    store.save("fred-first", exchange("e2", 6), "fred-carol")
    assert store.list_sessions("fred-carol") == ["fred-first", "fred-second"]
    metadata = ledger.with_identity("fred-carol").session("fred-first").get()["metadata"]
    assert metadata == {"team_id": "team-1", "agent_instance_id": "agent-1"}
    assert store.delete_session("fred-first", "fred-carol") == 10
    assert store.get("fred-first", "fred-carol") == [] and store.list_sessions("fred-carol") == ["fred-second"]
    assert store.delete_session("fred-first", "fred-carol") == 0
    assert store.next_rank("fred-third", "fred-carol") == 1


def test_a_failed_stream_keeps_what_was_shown(ledger: Ledger) -> None:
    session = ledger.with_identity("ada").session("fred-cut")
    with pytest.raises(RuntimeError), session.turn("Which way?", request_id="e1") as turn:
        turn.add_text("To the", "partial")
        raise RuntimeError("the model went away")
    rows = HistoryStore(ledger).get("fred-cut", "ada")
    assert shape(rows) == [
        (1, "e1", "user", "final"),
        (2, "e1", "assistant", "final"),
        (3, "e1", "system", "error"),
    ]
    assert rows[2]["parts"] == [{"type": "text", "text": "the model went away"}]


def test_redacted_contents_are_not_listed(ledger: Ledger) -> None:
    store, session = HistoryStore(ledger), ledger.with_identity("ada").session("fred-redacted")
    store.save("fred-redacted", exchange("e1", 1), "ada")
    store.save("fred-redacted", exchange("e2", 6), "ada")
    first = next(iter(session.turns()))
    session.redact_turn(first["turn_id"], "names a person")
    assert {row["exchange_id"] for row in store.get("fred-redacted", "ada")} == {"e2"}


class Role(str, Enum):
    user = "user"


@dataclass
class ChatMessage:
    """Has the method of a Pydantic model that the store uses."""

    row: dict[str, Any]

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
        assert mode == "json" and exclude_none
        return self.row

    @classmethod
    def model_validate(cls, row: Any) -> ChatMessage:
        return cls(dict(row))


def test_messages_can_be_objects(ledger: Ledger) -> None:
    store = HistoryStore(ledger, ChatMessage.model_validate)
    store.save(
        "fred-objects", [ChatMessage({**row, "role": Role(row["role"])}) for row in exchange("e1", 1)[:1]], "ada"
    )
    (found,) = store.get("fred-objects", "ada")
    assert found.row["role"] == "user" and found.row["exchange_id"] == "e1"


async def test_the_async_store_does_the_same(async_ledger: AsyncLedger) -> None:
    store = AsyncHistoryStore(async_ledger)
    await store.save("fred-async", exchange("e1", 1), "fred-dora")
    assert [row["rank"] for row in await store.get("fred-async", "fred-dora")] == [1, 2, 3, 4, 5]
    assert await store.list_sessions("fred-dora") == ["fred-async"]
    assert await store.session_belongs_to_user("fred-async", "fred-dora")
    assert await store.delete_session("fred-async", "fred-dora") == 5
