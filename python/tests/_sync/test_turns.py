"""A turn records what happens in its block, whatever the way out."""

from __future__ import annotations

import asyncio

import pytest

from filrouge import AnswerMissing, Ledger, IdempotencyMismatch, SeqConflict, TurnBusy, TurnClosed


def test_a_turn_has_its_question_items_and_answer(ledger: Ledger) -> None:
    session = ledger.session()
    with session.turn("Which way?", metadata={"b": 1, "a": 2}) as turn:
        assert (turn.status, turn.answer, turn.replayed, turn.durability) == ("open", None, False, "flushed")
        call = turn.add_tool_call("look", {"where": "left"}, agent="guide")
        turn.add_tool_result(call, "a wall", ok=False)
        added = turn.add_text("Count steps.", model="m-1")
        turn.finish("To the right.")
    assert (turn.status, turn.answer) == ("finalized", "To the right.")
    assert added == {"first_seq": 4, "last_seq": 4}
    items = [item for item in session.items()]
    assert [item["channel"] for item in items] == ["question", "tool_call", "tool_result", "thought", "final"]
    assert items[1]["agent"] == "guide" and items[1]["parts"][0]["args"] == {"where": "left"}
    assert items[2]["parts"][0]["ok"] is False
    assert len({item["item_id"] for item in items[1:4]}) == 3


def test_a_turn_that_was_answered_is_replayed(ledger: Ledger) -> None:
    session = ledger.session()
    session.record_turn("Is it far?", "A while.", request_id="r1")
    with session.turn("Is it far?", request_id="r1") as turn:
        assert (turn.replayed, turn.answer, turn.status) == (True, "A while.", "finalized")
    assert [row["ordinal"] for row in session.turns()] == [1]
    with pytest.raises(TurnClosed):
        turn.add_text("Too late.")
    with pytest.raises(IdempotencyMismatch) as mismatch:
        turn.finish("Not far.")
    assert mismatch.value.hint is not None and not mismatch.value.retryable


def test_an_exception_fails_the_turn_and_continues(ledger: Ledger) -> None:
    session = ledger.session()
    with pytest.raises(ZeroDivisionError):
        with session.turn("Divide!") as turn:
            turn.add_text("Now.")
            1 / 0  # noqa: B018
    assert turn.status == "failed"
    error = [item for item in session.items()][-1]["parts"][0]
    assert (error["code"], error["message"], error["retryable"]) == ("zero_division_error", "division by zero", False)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_a_cancellation_cancels_the_turn(ledger: Ledger, stop: type[BaseException]) -> None:
    session = ledger.session()
    turn = session.turn("Wait for me?")
    with pytest.raises(stop):
        with turn:
            raise stop
    assert turn.status == "cancelled"


def test_a_block_without_an_answer_is_an_error(ledger: Ledger) -> None:
    session = ledger.session()
    with pytest.raises(AnswerMissing):
        with session.turn("And?") as turn:
            turn.add_text("Nothing.")
    assert turn.status == "failed"


def test_a_final_item_is_the_answer(ledger: Ledger) -> None:
    with ledger.session().turn("Which way?") as turn:
        turn.add_text("Left.", "final")
    assert (turn.status, turn.answer) == ("finalized", "Left.")


def test_a_turn_can_stay_open(ledger: Ledger) -> None:
    session = ledger.session()
    with session.turn("May I?", request_id="r1") as turn:
        turn.add_text("Allow it?", "hitl_request")
        turn.keep_open()
    assert turn.status == "open"
    with session.turn("May I?", request_id="r1", on_busy=None) as again:
        assert (again.replayed, again.turn_id) == (False, turn.turn_id)
        again.finish("Yes.")
    assert (turn.wait())["answer_neutral"] == "Yes."
    assert [row["status"] for row in session.turns()] == ["finalized"]


def test_a_second_worker_is_refused_and_ends_nothing(ledger: Ledger) -> None:
    session = ledger.session()
    with session.turn("Who?", request_id="r1") as turn:
        with pytest.raises(TurnBusy):
            with session.turn("Who?", request_id="r1", on_busy="reject"):
                raise AssertionError("the block of a refused turn must not run")
        turn.finish("I.")
    assert turn.status == "finalized"


def test_a_turn_fails_with_a_code(ledger: Ledger) -> None:
    session = ledger.session()
    with session.turn("And then?") as turn:
        turn.fail("model_down", "no model", retryable=True, partial_text="Then you")
    items = [item for item in session.items()]
    assert [item["channel"] for item in items] == ["question", "partial", "error"]
    assert items[2]["parts"][0]["retryable"] is True


def test_a_write_can_depend_on_the_newest_seq(ledger: Ledger) -> None:
    session = ledger.session()
    with session.turn("How far?") as turn:
        item = {"role": "assistant", "channel": "thought", "parts": [{"type": "text", "text": "Hm."}]}
        with pytest.raises(SeqConflict) as conflict:
            turn.add(item, expected_seq=9)  # type: ignore[arg-type]
        assert conflict.value.actual_seq == 1
        turn.finish("Far.")
