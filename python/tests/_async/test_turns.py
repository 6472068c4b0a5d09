"""A turn records what happens in its block, whatever the way out."""

from __future__ import annotations

import asyncio

import pytest

from filrouge import AnswerMissing, AsyncLedger, IdempotencyMismatch, SeqConflict, TurnBusy, TurnClosed


async def test_a_turn_has_its_question_items_and_answer(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("Which way?", metadata={"b": 1, "a": 2}) as turn:
        assert (turn.status, turn.answer, turn.replayed, turn.durability) == ("open", None, False, "flushed")
        call = await turn.add_tool_call("look", {"where": "left"}, agent="guide")
        await turn.add_tool_result(call, "a wall", ok=False)
        added = await turn.add_text("Count steps.", model="m-1")
        await turn.finish("To the right.")
    assert (turn.status, turn.answer) == ("finalized", "To the right.")
    assert added == {"first_seq": 4, "last_seq": 4}
    items = [item async for item in session.items()]
    assert [item["channel"] for item in items] == ["question", "tool_call", "tool_result", "thought", "final"]
    assert items[1]["agent"] == "guide" and items[1]["parts"][0]["args"] == {"where": "left"}
    assert items[2]["parts"][0]["ok"] is False
    assert len({item["item_id"] for item in items[1:4]}) == 3


async def test_a_turn_that_was_answered_is_replayed(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.record_turn("Is it far?", "A while.", request_id="r1")
    async with session.turn("Is it far?", request_id="r1") as turn:
        assert (turn.replayed, turn.answer, turn.status) == (True, "A while.", "finalized")
    assert [row["ordinal"] async for row in session.turns()] == [1]
    with pytest.raises(TurnClosed):
        await turn.add_text("Too late.")
    with pytest.raises(IdempotencyMismatch) as mismatch:
        await turn.finish("Not far.")
    assert mismatch.value.hint is not None and not mismatch.value.retryable


async def test_an_exception_fails_the_turn_and_continues(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    with pytest.raises(ZeroDivisionError):
        async with session.turn("Divide!") as turn:
            await turn.add_text("Now.")
            1 / 0  # noqa: B018
    assert turn.status == "failed"
    error = [item async for item in session.items()][-1]["parts"][0]
    assert (error["code"], error["message"], error["retryable"]) == ("zero_division_error", "division by zero", False)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
async def test_a_cancellation_cancels_the_turn(async_ledger: AsyncLedger, stop: type[BaseException]) -> None:
    session = async_ledger.session()
    turn = session.turn("Wait for me?")
    with pytest.raises(stop):
        async with turn:
            raise stop
    assert turn.status == "cancelled"


async def test_a_block_without_an_answer_is_an_error(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    with pytest.raises(AnswerMissing):
        async with session.turn("And?") as turn:
            await turn.add_text("Nothing.")
    assert turn.status == "failed"


async def test_a_final_item_is_the_answer(async_ledger: AsyncLedger) -> None:
    async with async_ledger.session().turn("Which way?") as turn:
        await turn.add_text("Left.", "final")
    assert (turn.status, turn.answer) == ("finalized", "Left.")


async def test_a_turn_can_stay_open(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("May I?", request_id="r1") as turn:
        await turn.add_text("Allow it?", "hitl_request")
        turn.keep_open()
    assert turn.status == "open"
    async with session.turn("May I?", request_id="r1", on_busy=None) as again:
        assert (again.replayed, again.turn_id) == (False, turn.turn_id)
        await again.finish("Yes.")
    assert (await turn.wait())["answer_neutral"] == "Yes."
    assert [row["status"] async for row in session.turns()] == ["finalized"]


async def test_a_second_worker_is_refused_and_ends_nothing(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("Who?", request_id="r1") as turn:
        with pytest.raises(TurnBusy):
            async with session.turn("Who?", request_id="r1", on_busy="reject"):
                raise AssertionError("the block of a refused turn must not run")
        await turn.finish("I.")
    assert turn.status == "finalized"


async def test_a_turn_fails_with_a_code(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("And then?") as turn:
        await turn.fail("model_down", "no model", retryable=True, partial_text="Then you")
    items = [item async for item in session.items()]
    assert [item["channel"] for item in items] == ["question", "partial", "error"]
    assert items[2]["parts"][0]["retryable"] is True


async def test_a_write_can_depend_on_the_newest_seq(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("How far?") as turn:
        item = {"role": "assistant", "channel": "thought", "parts": [{"type": "text", "text": "Hm."}]}
        with pytest.raises(SeqConflict) as conflict:
            await turn.add(item, expected_seq=9)  # type: ignore[arg-type]
        assert conflict.value.actual_seq == 1
        await turn.finish("Far.")
