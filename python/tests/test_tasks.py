"""One ledger is used by many tasks, or many threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from filrouge import AsyncLedger, ClosedError, Ledger

NUMBERS = [str(number) for number in range(32)]


async def test_32_tasks_record_turns_of_one_session(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    for turn in await asyncio.gather(*[session.record_turn(number, number, request_id=number) for number in NUMBERS]):
        assert turn.answer == turn.request_id
    assert sorted([row["request_id"] async for row in session.turns()]) == sorted(NUMBERS)


def test_32_threads_record_turns_of_one_session(ledger: Ledger) -> None:
    session = ledger.session()
    with ThreadPoolExecutor(32) as threads:
        for turn in threads.map(lambda number: session.record_turn(number, number, request_id=number), NUMBERS):
            assert turn.answer == turn.request_id
    assert sorted(row["request_id"] for row in session.turns()) == sorted(NUMBERS)


async def test_a_cancelled_task_cancels_its_turn(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    started = asyncio.Event()

    async def work() -> None:
        async with session.turn("Wait for me?", request_id="r1"):
            started.set()
            await asyncio.sleep(1000)

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [row["status"] async for row in session.turns()] == ["cancelled"]


def test_a_closed_ledger_is_refused(ledger: Ledger) -> None:
    ledger.close()
    ledger.close()
    with pytest.raises(ClosedError):
        ledger.info()
