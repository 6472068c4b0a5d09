"""Streams of providers are passed through, and recorded before they are shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from filrouge import AsyncLedger, Invalid


def chunk(text: str | None = None, **choice: Any) -> dict[str, Any]:
    """A chunk of OpenAI's Chat Completions."""
    delta = {} if text is None else {"role": "assistant", "content": text}
    return {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": delta, **choice}]}


ANSWER = [chunk("To the "), chunk("left."), chunk(finish_reason="stop")]
TOOL = {"index": 0, "id": "k1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALL = [chunk(delta={"tool_calls": [TOOL]}), chunk(finish_reason="tool_calls")]


async def stream(*events: Any) -> AsyncIterator[Any]:
    """A provider's stream."""
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


class Response:
    """What httpx gives the provider's client."""

    is_stream_consumed = False

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        for start in range(0, len(self.body), 37):
            yield self.body[start : start + 37]


class Client:
    """A provider's client: it parses the pieces of the body, and gives events without its end."""

    def __init__(self, body: bytes) -> None:
        self.response = Response(body)

    async def __aiter__(self) -> AsyncIterator[str]:
        text = b""
        async for piece in self.response.aiter_bytes():
            *lines, text = (text + piece).split(b"\n\n")
            for line in lines:
                if line != b"data: [DONE]":
                    yield line.decode()


async def test_events_are_recorded_and_passed_on(async_ledger: AsyncLedger) -> None:
    async with async_ledger.session().turn("Which way?") as turn:
        shown = [event async for event in turn.record(stream(*ANSWER), agent="guide")]
    assert shown == ANSWER
    assert (turn.status, turn.answer) == ("finalized", "To the left.")


async def test_the_body_is_recorded_as_the_provider_sent_it(async_ledger: AsyncLedger) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in ANSWER) + b"data: [DONE]\n\n"
    session = async_ledger.session()
    async with session.turn("Which way?") as turn:
        shown = [event async for event in turn.record(Client(body), "openai-chat")]
    assert len(shown) == 3
    assert (turn.status, turn.answer) == ("finalized", "To the left.")
    final = [item async for item in session.items()][-1]
    assert final["metadata"] is not None and final["metadata"]["finish_reason"] == "stop"


async def test_bytes_are_recorded_as_they_are(async_ledger: AsyncLedger) -> None:
    message = {"type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn"}
    body = json.dumps({**message, "content": [{"type": "text", "text": "Left."}]}).encode()
    async with async_ledger.session().turn("Which way?") as turn:
        pieces = [piece async for piece in turn.record(stream(body[:9], b"", body[9:]), "anthropic")]
    assert b"".join(pieces) == body
    assert (turn.status, turn.answer) == ("finalized", "Left.")


async def test_a_complete_response_is_recorded(async_ledger: AsyncLedger) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Left."}, "finish_reason": "stop"}
    async with async_ledger.session().turn("Which way?") as turn:
        await turn.record_response({"id": "c1", "model": "m", "object": "chat.completion", "choices": [choice]})
    assert (turn.status, turn.answer) == ("finalized", "Left.")


async def test_tools_are_called_between_two_streams(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("Which way?") as turn:
        assert len([event async for event in turn.record(stream(*CALL))]) == 2
        assert turn.status == "open"
        await turn.add_tool_result("k1", "a door")
        assert len([event async for event in turn.record(stream(*ANSWER))]) == 3
    assert turn.status == "finalized"
    context = await session.context()
    assert [message["role"] for message in context["messages"]] == ["user", "assistant", "tool", "assistant"]


async def test_an_early_end_of_the_loop_cancels_the_turn(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("Which way?") as turn:
        async for _ in turn.record(stream(*ANSWER)):
            break
    assert turn.status == "cancelled"
    texts = [part.get("text") async for item in session.items() for part in item["parts"]]
    assert texts.count("To the ") == 1


async def test_an_early_end_of_the_loop_can_have_an_answer(async_ledger: AsyncLedger) -> None:
    async with async_ledger.session().turn("Which way?") as turn:
        async for _ in turn.record(stream(*ANSWER)):
            break
        await turn.finish("To the")
    assert (turn.status, turn.answer) == ("finalized", "To the")


async def test_an_error_of_the_provider_fails_the_turn_and_continues(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    with pytest.raises(ConnectionResetError):
        async with session.turn("Which way?") as turn:
            async for _ in turn.record(stream(ANSWER[0], ConnectionResetError("gone"))):
                pass
    assert turn.status == "failed"
    items = [item async for item in session.items()]
    assert items[1]["parts"][0]["text"] == "To the "
    assert items[-1]["parts"][0]["code"] == "connection_reset_error"


async def test_an_error_in_the_loop_fails_the_turn(async_ledger: AsyncLedger) -> None:
    with pytest.raises(ZeroDivisionError):
        async with async_ledger.session().turn("Which way?") as turn:
            async for _ in turn.record(stream(*ANSWER)):
                1 / 0  # noqa: B018
    assert turn.status == "failed"


async def test_a_stream_that_ends_early_fails_the_turn(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    async with session.turn("Which way?") as turn:
        body = b"data: " + json.dumps(ANSWER[0]).encode() + b"\n\n"
        async for _ in turn.record(stream(body), "openai-chat"):
            pass
    assert turn.status == "failed"
    assert [item async for item in session.items()][-1]["parts"][0]["code"] == "stream_truncated"


async def test_a_stream_without_events_fails_the_turn(async_ledger: AsyncLedger) -> None:
    async with async_ledger.session().turn("Which way?") as turn:
        assert [event async for event in turn.record(stream())] == []
    assert turn.status == "failed"


async def test_an_unknown_format_is_refused(async_ledger: AsyncLedger) -> None:
    with pytest.raises(Invalid) as refused:
        async with async_ledger.session().turn("Which way?") as turn:
            async for _ in turn.record(stream({"dots": "..."})):
                pass
    assert "openai-chat" in str(refused.value) and turn.status == "failed"
    with pytest.raises(Invalid):
        async with async_ledger.session().turn("Which way?") as turn:
            async for _ in turn.record(stream(b"..."), "morse"):
                pass
    assert turn.status == "failed"


async def test_an_answer_can_wait_for_its_translation(async_ledger: AsyncLedger) -> None:
    async with async_ledger.session().turn("Which way?", translate_chat=True) as turn:
        async for _ in turn.record(stream(*ANSWER), finalize=False):
            pass
        assert turn.status == "open"
        await turn.finish(answer_translated="À gauche.")
    assert turn.data is not None and turn.data["answer_translated"] == "À gauche."
