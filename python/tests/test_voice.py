"""The session store of the voice design."""

from __future__ import annotations

import logging
import threading
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

import filrouge
from filrouge import AsyncLedger, Invalid, LeaseHeld, Ledger
from filrouge.voice import (
    AsyncVoiceSessionStore,
    CallTerminated,
    CheckpointPolicy,
    LockTimeout,
    VoiceSessionStore,
)

TENANT = "default"


@dataclass
class Dialogue:
    """An application's session."""

    conv_id: str
    state: str = "START"
    pending_slots_display: list[str] = field(default_factory=list[str])
    heard: int = 0


def decode(call_id: str, state: dict[str, Any]) -> Dialogue:
    members: dict[str, Any] = {**state, "conv_id": call_id}
    return Dialogue(**members)


def heard(session: Dialogue, role: str, text: str) -> None:
    session.heard += role == "user"


def voice(ledger: Ledger, **options: Any) -> VoiceSessionStore[Dialogue]:
    return VoiceSessionStore(ledger, encode=asdict, decode=decode, new=Dialogue, **options)


def webhook(store: VoiceSessionStore[Dialogue], call_id: str, user: str, agent: str, **changes: Any) -> Dialogue:
    with store.call(TENANT, call_id) as call:
        call.add_message("user", user)
        call.session.heard += 1
        for name, value in changes.items():
            setattr(call.session, name, value)
        call.add_message("agent", agent)
        return call.session


def checkpoints(ledger: Ledger, call_id: str) -> list[tuple[int | None, str | None]]:
    return [(row["seq"], row["label"]) for row in reversed(ledger.session(call_id).checkpoints())]


def test_another_instance_continues_a_call(ledger: Ledger) -> None:
    webhook(voice(ledger), "voice-call-1", "Hello", "Your name?", state="QUALIF")
    webhook(voice(ledger), "voice-call-1", "Ada", "Tuesday?", state="WAIT_CONFIRM", pending_slots_display=["Tuesday"])
    loaded = voice(ledger).load_session_pg_first(TENANT, "voice-call-1")
    assert loaded == (Dialogue("voice-call-1", "WAIT_CONFIRM", ["Tuesday"], 2), 4, 4)
    assert voice(ledger).get_or_create(TENANT, "voice-call-1") == Dialogue(
        "voice-call-1", "WAIT_CONFIRM", ["Tuesday"], 2
    )
    assert voice(ledger).load_session_pg_first(TENANT, "voice-call-unknown") is None
    assert voice(ledger).get_or_create(TENANT, "voice-call-unknown") == Dialogue("voice-call-unknown")


def test_the_library_decides_when_a_checkpoint_is_written(ledger: Ledger) -> None:
    store = voice(ledger)
    webhook(store, "voice-policy", "Hello", "Your name?")  # the first
    webhook(store, "voice-policy", "Pardon?", "Your name?")  # two messages since: not due
    assert checkpoints(ledger, "voice-policy") == [(2, "START")]
    webhook(store, "voice-policy", "Ada", "Your number?")  # four messages since: due
    assert checkpoints(ledger, "voice-policy") == [(2, "START"), (6, "START")]
    webhook(store, "voice-policy", "1234", "Thank you", state="QUALIF")  # another state
    webhook(store, "voice-policy", "Yes", "Tuesday?", pending_slots_display=["Tuesday"])  # slots were proposed
    assert checkpoints(ledger, "voice-policy")[2:] == [(8, "QUALIF"), (10, "QUALIF")]


def test_the_policy_counts_messages_of_all_instances(ledger: Ledger) -> None:
    webhook(voice(ledger), "voice-instances", "Hello", "Your name?")
    for _ in range(2):
        webhook(voice(ledger), "voice-instances", "Pardon?", "Your name?")
    assert checkpoints(ledger, "voice-instances") == [(2, "START"), (6, "START")]


def test_messages_after_the_checkpoint_are_replayed(ledger: Ledger) -> None:
    for _ in range(2):
        webhook(voice(ledger), "voice-replay", "Hello?", "Hello.")
    assert checkpoints(ledger, "voice-replay") == [(2, "START")]
    snapshot = voice(ledger).load_session_pg_first(TENANT, "voice-replay")
    replayed = voice(ledger, replay=heard).load_session_pg_first(TENANT, "voice-replay")
    assert snapshot is not None and (snapshot[0].heard, *snapshot[1:]) == (1, 2, 4)
    assert replayed is not None and (replayed[0].heard, *replayed[1:]) == (2, 2, 4)
    with voice(ledger, replay=heard).call(TENANT, "voice-replay") as call:
        assert (call.session.heard, call.last_seq) == (2, 4)


def test_a_change_of_state_without_a_message_is_kept(ledger: Ledger) -> None:
    store = voice(ledger)
    webhook(store, "voice-tool", "Hello", "One moment", state="QUALIF")
    for state in ("SLOTS", "WAIT_CONFIRM"):
        with store.call(TENANT, "voice-tool") as call:
            call.session.state = state
    loaded = store.load_session_pg_first(TENANT, "voice-tool")
    assert loaded is not None and loaded[0].state == "WAIT_CONFIRM"
    assert [message.text for message in store.pg_list_messages_since(TENANT, "voice-tool", 0)] == [
        "Hello",
        "One moment",
    ]


def test_two_webhooks_of_one_call_do_not_run_at_once(ledger: Ledger) -> None:
    store = voice(ledger)
    with store.call(TENANT, "voice-locked") as call:
        with pytest.raises(LockTimeout), store.call(TENANT, "voice-locked", timeout_seconds=0.05):
            pass
        with pytest.raises(LeaseHeld):
            ledger.session("voice-locked").close()
        assert call.add_message("user", "Hello") == 1
    entered = threading.Event()

    def second() -> None:
        with voice(ledger).call(TENANT, "voice-locked", timeout_seconds=30) as later:
            assert later.last_seq == 2
            entered.set()

    with store.call(TENANT, "voice-locked") as call:
        thread = threading.Thread(target=second)
        thread.start()
        call.add_message("agent", "Hello.")
    assert entered.wait(30)
    thread.join()
    kinds = [event["kind"] for event in ledger.session("voice-locked").events()]
    assert kinds[:2] == ["call_started", "call_lock_timeout"]


def test_functions_write_under_the_lock_of_their_caller_only(ledger: Ledger) -> None:
    store, refused = voice(ledger), list[BaseException]()

    def outside() -> None:
        try:
            store.pg_add_message(TENANT, "voice-fence", "user", "Late")
        except LeaseHeld as error:
            refused.append(error)

    with store.pg_lock_call_session(TENANT, "voice-fence"):
        assert store.pg_add_message(TENANT, "voice-fence", "user", "Hello") == 1
        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert store.pg_add_message(TENANT, "voice-fence", "agent", "Hello.") == 2


def test_a_terminal_call_is_not_opened_again(ledger: Ledger) -> None:
    store = voice(ledger)
    webhook(store, "voice-ended", "Tuesday", "Confirmed.", state="CONFIRMED")
    with pytest.raises(CallTerminated) as refused, store.call(TENANT, "voice-ended"):
        pass
    assert refused.value.reply == "VOCAL_RESUME_ALREADY_TERMINATED"
    loaded = store.load_session_pg_first(TENANT, "voice-ended")
    assert loaded is not None and loaded[0].state == "CONFIRMED"
    webhook(store, "voice-hung-up", "Hello", "Hello.")
    store.end_call(TENANT, "voice-hung-up", "customer-ended-call")
    with pytest.raises(CallTerminated), store.call(TENANT, "voice-hung-up"):
        pass
    assert ledger.session("voice-hung-up").get()["status"] == "closed"
    assert [event["kind"] for event in ledger.session("voice-hung-up").events()][-1] == "call_ended"


def test_an_exception_leaves_the_messages_and_no_checkpoint(ledger: Ledger) -> None:
    store = voice(ledger)
    with pytest.raises(ZeroDivisionError), store.call(TENANT, "voice-broken") as call:
        call.add_message("user", "Hello")
        call.session.state = "HALF"
        raise ZeroDivisionError
    assert checkpoints(ledger, "voice-broken") == []
    with store.call(TENANT, "voice-broken", timeout_seconds=0.1) as call:  # it is not held any more
        assert call.session.state == "START"
        assert call.add_message("agent", "Hello.") == 2


def test_a_repeated_webhook_gets_the_earlier_answer(ledger: Ledger) -> None:
    store = voice(ledger)
    for number in range(2):
        with store.call(TENANT, "voice-twice") as call:
            call.add_message("user", "Hello", message_id="webhook-1")
            assert call.answered == (None if number == 0 else "Hello.")
            if call.answered is None:
                call.add_message("agent", "Hello.")
    assert len(store.pg_list_messages_since(TENANT, "voice-twice", 0)) == 2


def test_the_functions_of_the_design(ledger: Ledger) -> None:
    store = voice(ledger)
    assert store.pg_get_call_session_info(TENANT, "voice-named") is None
    assert store.pg_get_latest_checkpoint(TENANT, "voice-named") is None
    assert store.pg_list_messages_since(TENANT, "voice-named", 0) == []
    assert store.pg_ensure_call_session(TENANT, "voice-named", "START")
    assert store.pg_ensure_call_session(TENANT, "voice-named", "OTHER")
    assert store.pg_get_call_session_info(TENANT, "voice-named") == ("START", 0)
    time = datetime(2026, 2, 16, 9, 0, tzinfo=timezone.utc)
    assert store.pg_add_message(TENANT, "voice-named", "user", "Hello") == 1
    assert store.pg_add_message(TENANT, "voice-named", "agent", "Your name?", time) == 2
    assert store.pg_add_message(TENANT, "voice-named", "agent", "Are you there?") == 5  # after a silence
    messages = store.pg_list_messages_since(TENANT, "voice-named", 0)
    assert [(m.seq, m.role, m.text) for m in messages] == [
        (1, "user", "Hello"),
        (2, "agent", "Your name?"),
        (5, "agent", "Are you there?"),
    ]
    assert messages[1].ts == time
    assert store.pg_update_last_state(TENANT, "voice-named", "QUALIF")
    assert store.pg_get_call_session_info(TENANT, "voice-named") == ("QUALIF", 5)
    assert store.pg_write_checkpoint(TENANT, "voice-named", 5, {"state": "WAIT_CONFIRM"})
    assert store.pg_write_checkpoint(TENANT, "voice-named", 5, {"state": "WAIT_CONFIRM"})
    assert not store.pg_write_checkpoint(TENANT, "voice-named", 5, {"state": "START"})
    assert store.pg_get_latest_checkpoint(TENANT, "voice-named") == (5, {"state": "WAIT_CONFIRM"})


def test_a_message_with_the_session_applies_the_policy(ledger: Ledger) -> None:
    store, session = voice(ledger), Dialogue("voice-journal")
    for role in ("user", "agent", "user", "agent", "user"):
        store.pg_add_message(TENANT, "voice-journal", role, "Hello", session=session)
    assert checkpoints(ledger, "voice-journal") == [(1, "START"), (4, "START")]
    session.state = "QUALIF"
    store.pg_add_message(TENANT, "voice-journal", "agent", "Hello", session=session)
    assert checkpoints(ledger, "voice-journal")[2:] == [(6, "QUALIF")]


def test_an_unreadable_checkpoint_begins_the_dialogue_again(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    ledger.session("voice-unreadable").record_turn("Hello", "Hello.", request_id="r1")
    ledger.session("voice-unreadable").checkpoint({"from": "another version"}, label="WAIT_CONFIRM")
    with caplog.at_level(logging.WARNING), voice(ledger).call(TENANT, "voice-unreadable") as call:
        assert call.session == Dialogue("voice-unreadable")
    assert "[CALL_RESUME_WARN]" in caplog.text
    assert "unknown_state" in [event["kind"] for event in ledger.session("voice-unreadable").events()]


def test_tenants_are_separate(ledger: Ledger) -> None:
    with pytest.raises(Invalid, match="tenant is default, not 7"):
        voice(ledger).pg_add_message(7, "voice-call-1", "user", "Hello")
    stores = VoiceSessionStore({7: ledger}, encode=asdict, decode=decode, new=Dialogue)
    assert stores.pg_add_message(7, "voice-tenants", "user", "Hello") == 1
    with pytest.raises(Invalid, match="no ledger for the tenant 8"):
        stores.pg_add_message(8, "voice-tenants", "user", "Hello")


def test_a_call_goes_on_without_the_ledger(caplog: pytest.LogCaptureFixture) -> None:
    with filrouge.connect("http://127.0.0.1:9", timeout=1) as nobody:
        store = VoiceSessionStore({1: nobody}, encode=asdict, decode=decode, new=Dialogue)
        with caplog.at_level(logging.WARNING), store.call(1, "voice-down") as call:
            assert call.session == Dialogue("voice-down")
            assert call.add_message("user", "Hello") is None
        assert store.load_session_pg_first(1, "voice-down") is None
        assert store.pg_ensure_call_session(1, "voice-down") is False
    assert "[CALL_RESUME_WARN] pg_down" in caplog.text and "[CALL_JOURNAL_WARN] pg_down" in caplog.text
    assert store.outages == 4


def test_other_settings_of_the_policy() -> None:
    policy = CheckpointPolicy(every=5, critical=("cart",))
    before = {"state": "A", "cart": 1, "pending_slots_display": 1}
    assert policy.is_due(None, before, 0)
    assert not policy.is_due(before, {**before, "pending_slots_display": 2}, 4)
    assert policy.is_due(before, {**before, "cart": 2}, 0)
    assert policy.is_due(before, before, 5)


async def test_the_async_store_does_the_same(async_ledger: AsyncLedger) -> None:
    store = AsyncVoiceSessionStore(async_ledger, encode=asdict, decode=decode, new=Dialogue)
    async with store.call(TENANT, "voice-async") as call:
        assert await call.add_message("user", "Hello") == 1
        call.session.state = "QUALIF"
        assert await call.add_message("agent", "Your name?") == 2
        with pytest.raises(LockTimeout):
            async with store.pg_lock_call_session(TENANT, "voice-async", 0.05):
                pass
    loaded = await store.load_session_pg_first(TENANT, "voice-async")
    assert loaded == (Dialogue("voice-async", "QUALIF"), 2, 2)
