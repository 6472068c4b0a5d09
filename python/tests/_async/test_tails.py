"""A tail shows items and drafts as they are written, each item once."""

from __future__ import annotations

from filrouge import AsyncLedger


async def test_a_tail_shows_items_until_the_session_is_erased(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.record_turn("q1", "a1")
    seen: list[object] = []
    async with session.tail(after=1, drafts=False) as tail:
        async for event in tail:
            seen.append(event.data["seq"] if event.kind == "item" else event.kind)
            if event.kind == "item" and event.data["seq"] == 2:
                await session.record_turn("q2", "a2")
            if event.kind == "item" and event.data["seq"] == 4:
                await session.erase()
    assert seen == [2, 3, 4, "erased"]


async def test_a_tail_begins_at_the_end(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.record_turn("q1", "a1")
    async with session.tail(drafts=False) as tail:
        await session.record_turn("q2", "a2")
        assert (await tail.__anext__()).data["parts"][0]["text"] == "q2"
