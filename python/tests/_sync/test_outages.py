"""While the server does not answer, writes wait on this machine; afterwards nothing is missing and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Server

import filrouge
from filrouge import Ledger, TransportError

ANSWER = [
    {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "To the "}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "left."}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def buffering(server: Server, file: Path) -> Ledger:
    """A ledger that buffers its writes in an outage."""
    return filrouge.connect(server.url, on_outage="buffer", buffer=file)


def items(ledger: Ledger, session_id: str) -> list[tuple[str, str]]:
    """The channel and the text of each item."""
    found = [item for item in ledger.session(session_id).items()]
    return [(item["channel"], item["parts"][0].get("text", "")) for item in found]


def stream(*events: Any) -> Iterator[Any]:
    """A provider's stream, in which a function is called where it stands."""
    for event in events:
        if callable(event):
            event()
        else:
            yield event


def test_without_a_buffer_an_outage_is_an_error(server: Server) -> None:
    with filrouge.connect(server.url) as ledger:
        server.kill()
        with pytest.raises(TransportError) as error:
            ledger.session("s").record_turn("q", "a")
        assert error.value.retryable


def test_writes_of_an_outage_arrive_in_order_once(server: Server, tmp_path: Path) -> None:
    with buffering(server, tmp_path / "outage.db") as ledger:
        session, new = ledger.session("old"), ledger.session("new", title="Begun in the outage")
        with session.turn("q1", request_id="r1") as turn:
            turn.add_text("before")
            server.kill()
            turn.add_text("during")
            assert turn.durability == "buffered-on-client"
            turn.finish("a1")
        assert (turn.status, turn.answer) == ("finalized", "a1")
        for number in range(20):
            done = new.record_turn(f"q{number}", f"a{number}", request_id=f"r{number}")
            assert (done.durability, done.turn_id, done.answer) == ("buffered-on-client", None, f"a{number}")
        assert (new.add_event("call_started", key="e1"))["kind"] == "call_started"
        assert (new.checkpoint({"n": 1}, label="L"))["state"] == {"n": 1}
        assert len(ledger.buffered()) == 25
        server.start()
        assert ledger.flush(60)
        expected = [("question", "q1"), ("thought", "before"), ("thought", "during"), ("final", "a1")]
        assert items(ledger, "old") == expected
        pairs = [[("question", f"q{number}"), ("final", f"a{number}")] for number in range(20)]
        assert items(ledger, "new") == [item for pair in pairs for item in pair]
        assert (new.get())["title"] == "Begun in the outage"
        assert [event["key"] for event in new.events()] == ["e1"]
        assert (new.latest_checkpoint())["state"] == {"n": 1}
        assert ledger.buffered() == [] == ledger.dead_letters()
        assert (new.record_turn("q", "a")).durability == "flushed"


def test_a_turn_continues_over_an_outage(server: Server, tmp_path: Path) -> None:
    with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        with ledger.session("s").turn("q") as turn:
            call = turn.add_tool_call("look", {})
            assert turn.turn_id is None
            server.start()
            assert ledger.flush(60)
            turn.add_tool_result(call, "a wall")
            assert turn.turn_id is not None and turn.durability == "flushed"
            turn.finish("a")
        channels = [channel for channel, _ in items(ledger, "s")]
        assert channels == ["question", "tool_call", "tool_result", "final"]


def test_what_waits_survives_the_process(server: Server, tmp_path: Path) -> None:
    ledger = buffering(server, tmp_path / "outage.db")
    server.kill()
    ledger.session("s").record_turn("q1", "a1", request_id="r1")
    ledger.close()
    server.start()
    with buffering(server, tmp_path / "outage.db") as ledger:
        assert ledger.flush(60)
        ledger.session("s").record_turn("q1", "a1", request_id="r1")
        assert items(ledger, "s") == [("question", "q1"), ("final", "a1")]


def test_two_ledgers_use_one_buffer(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "outage.db"
    with buffering(server, file) as one, buffering(server, file) as two:
        server.kill()
        for number in range(5):
            one.session("one").record_turn(str(number), "a")
            two.session("two").record_turn(str(number), "a")
        server.start()
        assert one.flush(60) and two.flush(60)
        for name in ("one", "two"):
            asked = [text for channel, text in items(one, name) if channel == "question"]
            assert asked == ["0", "1", "2", "3", "4"]


def test_a_stream_of_an_outage_is_recorded_later(server: Server, tmp_path: Path) -> None:
    with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        with ledger.session("s").turn("q") as turn:
            shown = [event for event in turn.record(stream(*ANSWER))]
        assert (shown, turn.durability) == (ANSWER, "buffered-on-client")
        server.start()
        assert ledger.flush(60)
        assert items(ledger, "s") == [("question", "q"), ("final", "To the left.")]


def test_a_stream_that_an_outage_cuts_is_recorded_whole(server: Server, tmp_path: Path) -> None:
    with buffering(server, tmp_path / "outage.db") as ledger:
        session = ledger.session("s")
        with session.turn("q") as turn:
            events = stream(ANSWER[0], server.kill, *ANSWER[1:])
            assert [event for event in turn.record(events)] == ANSWER
        server.start()
        assert ledger.flush(60)
        recorded = items(ledger, "s")
        assert recorded[0] == ("question", "q") and recorded[-1] == ("final", "To the left.")
        assert [text for channel, text in recorded if channel == "final"] == ["To the left."]
        assert [message["content"] for message in (session.context())["messages"]] == ["q", "To the left."]
        assert ledger.dead_letters() == []


def test_a_refused_write_becomes_a_dead_letter(server: Server, tmp_path: Path) -> None:
    with filrouge.connect(server.url) as plain:
        plain.session("s").create()
        plain.session("s").close()
    with buffering(server, tmp_path / "outage.db") as ledger:
        server.kill()
        with ledger.session("s").turn("q", request_id="r1") as turn:
            turn.finish("a")
        ledger.session("other").record_turn("q", "a")
        server.start()
        assert ledger.flush(60)
        letters = ledger.dead_letters()
        assert [letter.code for letter in letters] == ["session_closed", "session_closed"]
        assert b'"r1"' in letters[0].body
        assert items(ledger, "other") == [("question", "q"), ("final", "a")]
        for letter in letters:
            ledger.drop_dead_letter(letter.number)
        assert ledger.dead_letters() == []


def test_a_lease_that_ended_in_an_outage_loses_no_write(server: Server, tmp_path: Path) -> None:
    with buffering(server, tmp_path / "outage.db") as ledger:
        session = ledger.session("s")
        with session.resume("worker", create=True, ttl=0.5):
            server.kill()
            session.record_turn("q", "a")
            server.start()
            assert ledger.flush(60)
        assert items(ledger, "s") == [("question", "q"), ("final", "a")]


def test_no_credential_is_in_the_buffer(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "outage.db"
    server.kill()
    with filrouge.connect(server.url, key="a-secret-key", on_outage="buffer", buffer=file) as ledger:
        ledger.session("s").record_turn("q", "a")
        assert file.stat().st_mode & 0o077 == 0
        assert all(b"a-secret-key" not in path.read_bytes() for path in tmp_path.glob("outage.db*"))
