"""The rules of the history contract, as docs/history-contract.md lists them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from filrouge import AsyncLedger, Conflict, Invalid, Ledger, NotFound
from filrouge.history_contract import (
    AsyncConversationHistoryService,
    ConversationHistoryService,
    ConversationTurn,
    IConversationHistoryService,
    ISessionConversationStore,
    IUserConversationStore,
    QuestionAnswer,
    SessionConversationStore,
    UserConversationStore,
)

ANSWER: dict[str, Any] = {"answer_translated": None, "answer_translated_is_fallback": None, "meta": None}


def started(store: ISessionConversationStore, session_id: str, request_id: str, **members: Any) -> str:
    question: dict[str, Any] = {
        "identity_id": None,
        "question_neutral": "Which way?",
        "question_translated": None,
        "translate_chat": False,
        "meta": None,
    }
    return store.start_turn(session_id=session_id, request_id=request_id, **{**question, **members})


def finalized(store: ISessionConversationStore, session_id: str, request_id: str, turn_id: str, **members: Any) -> None:
    answer: dict[str, Any] = {"answer_neutral": "To the left.", **ANSWER, **members}
    store.finalize_turn(session_id=session_id, request_id=request_id, turn_id=turn_id, **answer)


def test_the_ports_are_those_of_the_contract(ledger: Ledger) -> None:
    ports: tuple[ISessionConversationStore, IUserConversationStore, IConversationHistoryService] = (
        SessionConversationStore(ledger),
        UserConversationStore(ledger),
        ConversationHistoryService(ledger),
    )
    assert len(ports) == 3


def test_a_repeated_start_returns_the_same_turn(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    first = started(store, "contract-repeats", "r1")
    assert started(store, "contract-repeats", "r1", question_neutral="Another?") == first
    assert started(SessionConversationStore(ledger), "contract-repeats", "r1") == first
    assert started(store, "contract-repeats", "r2") != first
    assert started(store, "contract-repeats-2", "r1") != first


def test_concurrent_starts_are_one_turn(ledger: Ledger) -> None:
    store, ids = SessionConversationStore(ledger), set[str]()
    threads = [threading.Thread(target=lambda: ids.add(started(store, "contract-concurrent", "r1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 1


def test_finalizing_again_changes_nothing_and_another_answer_is_refused(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    turn_id = started(store, "contract-final", "r1")
    finalized(store, "contract-final", "r1", turn_id)
    (first,) = store.list_recent_finalized_turns(session_id="contract-final", limit=5)
    finalized(store, "contract-final", "r1", turn_id)
    finalized(SessionConversationStore(ledger), "contract-final", "r1", turn_id)
    with pytest.raises(Conflict):
        finalized(store, "contract-final", "r1", turn_id, answer_neutral="To the right.")
    assert store.list_recent_finalized_turns(session_id="contract-final", limit=5) == [first]
    assert first.finalized_at is not None and first.answer_neutral == "To the left."


def test_a_turn_of_another_session_or_request_is_not_finalized(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    mine, other = started(store, "contract-mine", "r1"), started(store, "contract-other", "r1")
    with pytest.raises(Conflict) as refused:
        finalized(store, "contract-mine", "r1", other)
    assert refused.value.code == "turn_mismatch"
    with pytest.raises(Conflict):
        finalized(store, "contract-mine", "r2", mine)
    with pytest.raises(NotFound):
        finalized(store, "contract-mine", "r1", "0197f3b2-93b1-8c4e-9f0a-3b6d5e2f7a10")
    assert store.list_recent_finalized_turns(session_id="contract-mine", limit=5) == []


def test_the_newest_finalized_turns_are_listed_the_oldest_first(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    for number in range(5):
        turn_id = started(store, "contract-newest", f"r{number}", question_neutral=f"Question {number}?")
        if number != 3:
            finalized(store, "contract-newest", f"r{number}", turn_id)
    newest = store.list_recent_finalized_turns(session_id="contract-newest", limit=3)
    assert [turn.question_neutral for turn in newest] == ["Question 1?", "Question 2?", "Question 4?"]
    assert store.list_recent_finalized_turns(session_id="contract-newest", limit=0) == []
    assert store.list_recent_finalized_turns(session_id="contract-unknown", limit=3) == []


def test_translations_and_metadata_are_kept(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    turn_id = started(
        store,
        "contract-words",
        "r1",
        question_translated="Którędy?",
        translate_chat=True,
        meta={"channel": "web", "n": 1.5},
    )
    finalized(store, "contract-words", "r1", turn_id, meta={"device_type": "phone"})
    (turn,) = store.list_recent_finalized_turns(session_id="contract-words", limit=1)
    assert (turn.question_neutral, turn.question_translated) == ("Which way?", "Którędy?")
    assert (turn.answer_translated, turn.answer_translated_is_fallback) == ("To the left.", True)
    assert turn.metadata == {"channel": "web", "n": 1.5, "device_type": "phone"}
    assert turn.translate_chat and turn.record_version == 1 and turn.created_at is not None


def test_a_missing_neutral_question_is_a_flagged_copy(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    turn_id = started(store, "contract-copy", "r1", question_neutral="", question_translated="Którędy?")
    finalized(store, "contract-copy", "r1", turn_id, answer_translated="W lewo.", answer_translated_is_fallback=False)
    (turn,) = store.list_recent_finalized_turns(session_id="contract-copy", limit=1)
    assert turn.question_neutral == "Którędy?"
    assert turn.metadata == {"question_neutral_is_fallback": True}
    assert (turn.answer_translated, turn.answer_translated_is_fallback) == ("W lewo.", False)
    with pytest.raises(Invalid):
        started(store, "contract-copy", "r2", question_neutral="")


def test_only_the_owner_reads_and_finalizes(ledger: Ledger) -> None:
    store = SessionConversationStore(ledger)
    turn_id = started(store, "contract-owned", "r1", identity_id="ada")
    with pytest.raises(NotFound):
        finalized(SessionConversationStore(ledger), "contract-owned", "r1", turn_id)
    finalized(store, "contract-owned", "r1", turn_id)  # this object has started the turn for ada
    assert store.list_recent_finalized_turns(session_id="contract-owned", limit=5) == []
    assert len(store.list_recent_finalized_turns(session_id="contract-owned", limit=5, identity_id="ada")) == 1
    for identity, count in (("ada", 1), ("bob", 0), (None, 0)):
        of_request = SessionConversationStore(ledger, current_identity=lambda identity=identity: identity)
        assert len(of_request.list_recent_finalized_turns(session_id="contract-owned", limit=5)) == count
    theirs = SessionConversationStore(ledger.with_identity("ada"))
    assert len(theirs.list_recent_finalized_turns(session_id="contract-owned", limit=5)) == 1


def test_links_are_upserts_and_a_second_owner_is_refused(ledger: Ledger) -> None:
    users = UserConversationStore(ledger)
    for _ in range(2):
        users.upsert_session_link(identity_id="ada", session_id="contract-linked")
    with pytest.raises(Conflict) as refused:
        users.upsert_session_link(identity_id="bob", session_id="contract-linked")
    assert refused.value.code == "session_linked"
    anonymous = SessionConversationStore(ledger)
    finalized(anonymous, "contract-visitor", "r1", started(anonymous, "contract-visitor", "r1"))
    users.upsert_session_link(identity_id="ada", session_id="contract-visitor")
    assert anonymous.list_recent_finalized_turns(session_id="contract-visitor", limit=5) == []
    assert len(anonymous.list_recent_finalized_turns(session_id="contract-visitor", limit=5, identity_id="ada")) == 1


def test_inserted_turns_are_recorded_once(ledger: Ledger) -> None:
    users, store = UserConversationStore(ledger), SessionConversationStore(ledger)
    turn = ConversationTurn(
        turn_id="",
        session_id="contract-inserted",
        request_id="r1",
        identity_id="ada",
        question_neutral="Which way?",
        question_translated="Którędy?",
        pipeline_name="rag",
        metadata={"channel": "web"},
    )
    users.insert_turn(turn=turn)
    answered = replace(turn, answer_neutral="To the left.", finalized_at="2026-02-01T10:00:00Z")
    users.insert_turn(turn=answered)
    users.insert_turn(turn=replace(answered, answer_neutral="Ignored, the turn has its answer."))
    (recorded,) = store.list_recent_finalized_turns(session_id="contract-inserted", limit=5, identity_id="ada")
    assert (recorded.answer_neutral, recorded.pipeline_name) == ("To the left.", "rag")
    users.insert_turn(turn=replace(answered, turn_id=recorded.turn_id))
    assert len(store.list_recent_finalized_turns(session_id="contract-inserted", limit=5, identity_id="ada")) == 1


def test_turns_that_violate_a_rule_are_not_inserted(ledger: Ledger) -> None:
    users, store = UserConversationStore(ledger), SessionConversationStore(ledger)
    turn_id = started(store, "contract-rules", "r1", identity_id="ada")
    turn = ConversationTurn(
        turn_id=turn_id, session_id="contract-rules", request_id="r1", identity_id="ada", question_neutral="Which way?"
    )
    for wrong, code in (
        (replace(turn, identity_id=None), "invalid"),
        (replace(turn, deleted_at="2026-02-01T10:00:00Z"), "turn_redacted"),
        (replace(turn, finalized_at="2026-02-01T10:00:00Z"), "answer_missing"),
        (replace(turn, turn_id="0197f3b2-93b1-8c4e-9f0a-3b6d5e2f7a10"), "turn_mismatch"),
        (replace(turn, identity_id="bob", answer_neutral="Mine."), "session_conflict"),
    ):
        with pytest.raises((Invalid, Conflict)) as refused:
            users.insert_turn(turn=wrong)
        assert refused.value.code == code
    assert store.list_recent_finalized_turns(session_id="contract-rules", limit=5, identity_id="ada") == []


def test_upsert_turn_final_needs_a_turn_and_its_owner(ledger: Ledger) -> None:
    users, store = UserConversationStore(ledger), SessionConversationStore(ledger)
    turn_id = started(store, "contract-upsert", "r1", identity_id="ada")
    final: dict[str, Any] = {"answer_neutral": "To the left.", "finalized_at_utc": "1999-01-01T00:00:00Z", **ANSWER}
    for identity, unknown in (("bob", turn_id), ("ada", "0197f3b2-93b1-8c4e-9f0a-3b6d5e2f7a10")):
        with pytest.raises(NotFound):
            users.upsert_turn_final(identity_id=identity, session_id="contract-upsert", turn_id=unknown, **final)
    for _ in range(2):
        users.upsert_turn_final(identity_id="ada", session_id="contract-upsert", turn_id=turn_id, **final)
    (turn,) = store.list_recent_finalized_turns(session_id="contract-upsert", limit=5, identity_id="ada")
    assert turn.finalized_at is not None and not turn.finalized_at.startswith("1999")


def test_the_service_links_records_and_reads(ledger: Ledger) -> None:
    service = ConversationHistoryService(ledger)
    question: dict[str, Any] = {"translate_chat": False, "question_neutral": "Which way?", "question_translated": None}
    for number, identity in enumerate((None, "ada", "ada")):
        request: dict[str, Any] = {"session_id": "contract-visit", "request_id": f"r{number}", "identity_id": identity}
        turn_id = service.on_request_started(**request, **question)
        service.on_request_finalized(**request, turn_id=turn_id, answer_neutral="To the left.", **ANSWER)
    pairs = service.load_conversation_history(session_id="contract-visit", limit=10, identity_id="ada")
    assert pairs == [QuestionAnswer("Which way?", "To the left.")] * 3
    assert service.load_conversation_history(session_id="contract-visit", limit=10) == []
    with pytest.raises(Conflict) as refused:
        service.on_request_started(session_id="contract-visit", request_id="r9", identity_id="bob", **question)
    assert refused.value.code == "session_linked"


def test_best_effort_is_only_for_development(ledger: Ledger) -> None:
    request: dict[str, Any] = {"session_id": "contract-dev", "request_id": "r1", "identity_id": None, "turn_id": None}
    service = ConversationHistoryService(ledger)
    with pytest.raises(Invalid, match="turn_id is missing"):
        service.on_request_finalized(**request, answer_neutral="To the left.", **ANSWER)
    assert service.load_conversation_history(session_id="contract-dev", limit=5) == []
    development = ConversationHistoryService(ledger, best_effort_finalize=True)
    for _ in range(2):
        development.on_request_finalized(**request, answer_neutral="To the left.", **ANSWER)
    (pair,) = development.load_conversation_history(session_id="contract-dev", limit=5)
    assert pair.answer_neutral == "To the left."


async def test_the_async_classes_do_the_same(async_ledger: AsyncLedger) -> None:
    service = AsyncConversationHistoryService(async_ledger)
    request: dict[str, Any] = {"session_id": "contract-async", "request_id": "r1", "identity_id": "ada"}
    turn_id = await service.on_request_started(
        **request, translate_chat=False, question_neutral="Which way?", question_translated=None
    )
    await service.on_request_finalized(**request, turn_id=turn_id, answer_neutral="To the left.", **ANSWER)
    pairs = await service.load_conversation_history(session_id="contract-async", limit=5, identity_id="ada")
    assert pairs == [("Which way?", "To the left.")]
