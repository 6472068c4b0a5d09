"""While the server does not answer, writes wait on this machine; afterwards nothing is missing and nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from servers import Server

import filrouge
from filrouge import AsyncLedger, TransportError

ANSWER = [
    {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "To the "}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "left."}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def buffering(server: Server, file: Path) -> AsyncLedger:
    """A ledger that buffers its writes in an outage."""
    return filrouge.connect_async(server.url, on_outage="buffer", buffer=file)


async def items(ledger: AsyncLedger, session_id: str) -> list[tuple[str, str]]:
    """The channel and the text of each item."""
    found = [item async for item in ledger.session(session_id).items()]
    return [(item["channel"], item["parts"][0].get("text", "")) for item in found]


async def stream(*events: Any) -> AsyncIterator[Any]:
    """A provider's stream, in which a function is called where it stands."""
    for event in events:
        if callable(event):
            event()
        else:
            yield event


async def test_without_a_buffer_an_outage_is_an_error(server: Server) -> None:
    async with filrouge.connect_async(server.url) as ledger:
        server.kill()
        with pytest.raises(TransportError) as error:
            await ledger.session("s").record_turn("q", "a")
        assert error.value.retryable


async def test_writes_of_an_outage_arrive_in_order_once(server: Server, tmp_path: Path) -> None:
    async with buffering(server, tmp_path / "outage.db") as ledger:
        session, new = ledger.session("old"), ledger.session("new", title="Begun in the outage")
        async with session.turn("q1", request_id="r1") as turn:
            await turn.add_text("before")
            server.kill()
            await turn.add_text("during")
            assert turn.durability == "buffered-on-client"
            await turn.finish("a1")
        assert (turn.status, turn.answer) == ("finalized", "a1")
        for number in range(20):
            done = await new.record_turn(f"q{number}", f"a{number}", request_id=f"r{number}")
            assert (done.durability, done.turn_id, done.answer) == ("buffered-on-client", None, f"a{number}")
        assert (await new.add_event("call_started", key="e1"))["kind"] == "call_started"
        assert (await new.checkpoint({"n": 1}, label="L"))["state"] == {"n": 1}
        assert len(await ledger.buffered()) == 25
        server.start()
        assert await ledger.flush(60)
        expected = [("question", "q1"), ("thought", "before"), ("thought", "during"), ("final", "a1")]
        assert await items(ledger, "old") == expected
        pairs = [[("question", f"q{number}"), ("final", f"a{number}")] for number in range(20)]
        assert await items(ledger, "new") == [item for pair in pairs for item in pair]
        assert (await new.get())["title"] == "Begun in the outage"
        assert [event["key"] async for event in new.events()] == ["e1"]
        assert (await new.latest_checkpoint())["state"] == {"n": 1}
        assert await ledger.buffered() == [] == await ledger.dead_letters()
        assert (await new.record_turn("q", "a")).durability == "flushed"


async def test_a_turn_continues_over_an_outage(server: Server, tmp_path: Path) -> None:
    async with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        async with ledger.session("s").turn("q") as turn:
            call = await turn.add_tool_call("look", {})
            assert turn.turn_id is None
            server.start()
            assert await ledger.flush(60)
            await turn.add_tool_result(call, "a wall")
            assert turn.turn_id is not None and turn.durability == "flushed"
            await turn.finish("a")
        channels = [channel for channel, _ in await items(ledger, "s")]
        assert channels == ["question", "tool_call", "tool_result", "final"]


async def test_what_waits_survives_the_process(server: Server, tmp_path: Path) -> None:
    ledger = buffering(server, tmp_path / "outage.db")
    server.kill()
    await ledger.session("s").record_turn("q1", "a1", request_id="r1")
    await ledger.close()
    server.start()
    async with buffering(server, tmp_path / "outage.db") as ledger:
        assert await ledger.flush(60)
        await ledger.session("s").record_turn("q1", "a1", request_id="r1")
        assert await items(ledger, "s") == [("question", "q1"), ("final", "a1")]


async def test_two_ledgers_use_one_buffer(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "outage.db"
    async with buffering(server, file) as one, buffering(server, file) as two:
        server.kill()
        for number in range(5):
            await one.session("one").record_turn(str(number), "a")
            await two.session("two").record_turn(str(number), "a")
        server.start()
        assert await one.flush(60) and await two.flush(60)
        for name in ("one", "two"):
            asked = [text for channel, text in await items(one, name) if channel == "question"]
            assert asked == ["0", "1", "2", "3", "4"]


async def test_a_stream_of_an_outage_is_recorded_later(server: Server, tmp_path: Path) -> None:
    async with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        async with ledger.session("s").turn("q") as turn:
            shown = [event async for event in turn.record(stream(*ANSWER))]
        assert (shown, turn.durability) == (ANSWER, "buffered-on-client")
        server.start()
        assert await ledger.flush(60)
        assert await items(ledger, "s") == [("question", "q"), ("final", "To the left.")]


async def test_a_stream_that_an_outage_cuts_is_recorded_whole(server: Server, tmp_path: Path) -> None:
    async with buffering(server, tmp_path / "outage.db") as ledger:
        session = ledger.session("s")
        async with session.turn("q") as turn:
            events = stream(ANSWER[0], server.kill, *ANSWER[1:])
            assert [event async for event in turn.record(events)] == ANSWER
        server.start()
        assert await ledger.flush(60)
        recorded = await items(ledger, "s")
        assert recorded[0] == ("question", "q") and recorded[-1] == ("final", "To the left.")
        assert [text for channel, text in recorded if channel == "final"] == ["To the left."]
        assert [message["content"] for message in (await session.context())["messages"]] == ["q", "To the left."]
        assert await ledger.dead_letters() == []


async def test_a_refused_write_becomes_a_dead_letter(server: Server, tmp_path: Path) -> None:
    async with filrouge.connect_async(server.url) as plain:
        await plain.session("s").create()
        await plain.session("s").close()
    async with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        async with ledger.session("s").turn("q", request_id="r1") as turn:
            await turn.finish("a")
        await ledger.session("other").record_turn("q", "a")
        server.start()
        assert await ledger.flush(60)
        letters = await ledger.dead_letters()
        assert [letter.code for letter in letters] == ["session_closed", "session_closed"]
        assert b'"r1"' in letters[0].body
        assert await items(ledger, "other") == [("question", "q"), ("final", "a")]
        for letter in letters:
            await ledger.drop_dead_letter(letter.number)
        assert await ledger.dead_letters() == []


async def test_a_lease_that_ended_in_an_outage_loses_no_write(server: Server, tmp_path: Path) -> None:
    async with buffering(server, tmp_path / "outage.db") as ledger:
        session = ledger.session("s")
        async with session.resume("worker", create=True, ttl=0.5):
            server.kill()
            await session.record_turn("q", "a")
            server.start()
            assert await ledger.flush(60)
        assert await items(ledger, "s") == [("question", "q"), ("final", "a")]


async def test_no_credential_is_in_the_buffer(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "outage.db"
    server.kill()
    async with filrouge.connect_async(server.url, key="a-secret-key", on_outage="buffer", buffer=file) as ledger:
        await ledger.session("s").record_turn("q", "a")
        assert file.stat().st_mode & 0o077 == 0
        assert all(b"a-secret-key" not in path.read_bytes() for path in tmp_path.glob("outage.db*"))
