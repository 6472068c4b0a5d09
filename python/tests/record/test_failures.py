"""Streams that break, applications that stop, providers that refuse, and a filrouge that is away."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from record.apis import APIS, Api, in_loop
from record.provider import Provider, Reply, stream
from record.test_streams import recorded
from servers import Server, wait_until

import filrouge
from filrouge._record import recorder as recorder_module

TEXT = {
    "openai-chat": "openai_text.sse",
    "openai-responses": "text.sse",
    "anthropic": "text.sse",
    "gemini": "text.sse",
}
OPENAI_ERROR = b'{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}'
ERRORS = {
    "openai-chat": OPENAI_ERROR,
    "openai-responses": OPENAI_ERROR,
    "anthropic": b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',
    "gemini": b'{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}',
}
CODES = {
    "openai-chat": "rate_limit_exceeded",
    "openai-responses": "rate_limit_exceeded",
    "anthropic": "rate_limit_error",
    "gemini": "RESOURCE_EXHAUSTED",
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was away is asked again at once."""
    monkeypatch.setattr(recorder_module, "PAUSE_S", 0.0)


@pytest.fixture
def session(remote: filrouge.Ledger) -> filrouge.Session:
    """A new session."""
    return remote.session()


def body_of(api: Api) -> bytes:
    """A stream with text."""
    return stream(api.format, TEXT[api.format])


def errors(session: filrouge.Session) -> list[str]:
    """The codes of the recorded errors."""
    return [item["parts"][0]["code"] for item in session.items() if item["channel"] == "error"]


def test_a_stream_that_breaks_fails_its_turn(api: Api, provider: Provider, session: filrouge.Session) -> None:
    body = body_of(api)
    cut = body.index(b"\n\n", len(body) // 2) + 2
    provider.replies = [Reply(body, cut_at=cut), Reply(body, cut_at=cut)]
    expected = api.events(api.client(provider.url), "Which way?", stream=True)
    assert isinstance(expected[-1], tuple), "the provider's client reports it"
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    assert api.events(client, "Which way?", stream=True) == expected
    (turn,) = session.turns()
    assert turn["status"] == "failed" and errors(session) == ["stream_truncated"]


def test_what_an_application_has_seen_before_it_stops_is_recorded(
    api: Api, provider: Provider, remote: filrouge.Ledger
) -> None:
    body = body_of(api)
    stop = body.index(b"\n\n", len(body) // 2) + 2
    events = body[:stop].count(b"\n\n")
    for most in range(1, events + 1):
        session, control = remote.session(), remote.session()
        reply = Reply(body, hold_at=stop, piece=stop)
        provider.replies = [reply]
        client = filrouge.record(api.client(provider.url), session, on_failure="raise")
        assert len(api.events(client, "Which way?", stream=True, most=most)) == most
        reply.go_on.set()
        wait_until(lambda s=session: [turn["status"] for turn in s.turns()] == ["failed"])  # Google's closes later
        turn = control.turn("Which way?")
        turn.start()
        turn.record_response(body[:stop], api.format)
        assert recorded(session) == recorded(control)
        assert errors(session) == ["stream_truncated"]


@pytest.mark.parametrize("api", [api for api in APIS if api.is_async], ids=str)
def test_a_cancelled_task_ends_its_turn(api: Api, provider: Provider, session: filrouge.Session) -> None:
    body = body_of(api)
    held = Reply(body, hold_at=body.index(b"\n\n", len(body) // 2) + 2)
    silent = Reply(body, hold_at=0)
    provider.replies = [held, silent]
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")

    async def read(seen: list[Any]) -> None:
        async for event in await api.call(client, "Which way?", stream=True):
            seen.append(event)

    async def ask(requests: int) -> None:
        seen: list[Any] = []
        task = asyncio.create_task(read(seen))
        while not seen and (requests == 1 or len(provider.requests) < requests):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_loop(ask(1))
    in_loop(ask(2))
    held.go_on.set()
    silent.go_on.set()
    wait_until(lambda: [turn["status"] for turn in session.turns()] == ["failed", "cancelled"])


@pytest.mark.parametrize("status", [429, 500])
def test_a_refusal_of_the_provider_fails_the_turn(
    status: int, api: Api, provider: Provider, session: filrouge.Session
) -> None:
    provider.replies = [Reply(ERRORS[api.format], status=status) for _ in range(2)]
    expected = api.events(api.client(provider.url), "Which way?", stream=True)
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    assert api.events(client, "Which way?", stream=True) == expected
    assert isinstance(expected[-1], tuple)
    (turn,) = session.turns()
    assert turn["status"] == "failed" and errors(session) == [CODES[api.format]]


@pytest.mark.parametrize("api", [api for api in APIS if api.format != "gemini"], ids=str)
def test_the_retries_of_the_client_are_turns_too(api: Api, provider: Provider, session: filrouge.Session) -> None:
    provider.replies = [
        Reply(ERRORS[api.format], status=429, headers={"retry-after-ms": "1"}),
        Reply(b"<html>bad gateway</html>", status=502, headers={"content-type": "text/html", "retry-after-ms": "1"}),
        Reply(body_of(api)),
    ]
    client = filrouge.record(api.client(provider.url, max_retries=2), session, on_failure="raise")
    api.events(client, "Which way?", stream=True)
    turns = list(session.turns())
    assert [turn["status"] for turn in turns] == ["failed", "failed", "finalized"]
    assert {turn["question_neutral"] for turn in turns} == {"Which way?"}
    assert errors(session) == [CODES[api.format], "stream_malformed"]


def test_a_provider_that_cannot_be_reached_fails_the_turn(api: Api, session: filrouge.Session) -> None:
    expected = api.events(api.client("http://127.0.0.1:1"), "Which way?", stream=False)
    client = filrouge.record(api.client("http://127.0.0.1:1"), session, on_failure="raise")
    assert api.events(client, "Which way?", stream=False) == expected
    (turn,) = session.turns()
    assert turn["status"] == "failed" and errors(session) == ["connect_error"]


def test_the_application_goes_on_without_filrouge(
    api: Api, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    body = body_of(api)
    provider.replies = [Reply(body) for _ in range(3)]
    expected = api.events(api.client(provider.url), "Which way?", stream=True)
    with filrouge.connect("http://127.0.0.1:1") as away:
        client = filrouge.record(api.client(provider.url), away.session("s"))
        with caplog.at_level(logging.WARNING, "filrouge"):
            assert api.events(client, "Which way?", stream=True) == expected
            assert api.events(client, "Which way?", stream=True) == expected
        found = filrouge.recorder(client)
        assert found.failures == 2 and isinstance(found.last_failure, filrouge.TransportError)
        assert [record.getMessage().partition(":")[0] for record in caplog.records if record.name == "filrouge"] == [
            "not recorded into session s",
            "not recorded into session s",
        ]


def test_a_server_that_was_away_is_left_alone_for_a_while(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    api = APIS[0]
    monkeypatch.setattr(recorder_module, "PAUSE_S", 3600.0)
    provider.replies = [Reply(body_of(api)) for _ in range(2)]
    with filrouge.connect("http://127.0.0.1:1") as away:
        client = filrouge.record(api.client(provider.url), away.session())
        api.events(client, "one?", stream=True)
        api.events(client, "two?", stream=True)
        found = filrouge.recorder(client)
        assert found.failures == 2
        assert isinstance(found.last_failure, filrouge.Unavailable) and found.last_failure.code == "paused"


def test_failures_can_be_raised(api: Api, provider: Provider) -> None:
    with filrouge.connect("http://127.0.0.1:1") as away:
        client = filrouge.record(api.client(provider.url), away.session(), on_failure="raise")
        with pytest.raises(Exception) as raised:
            answer = api.call(client, "Which way?", stream=False)
            if api.is_async:
                in_loop(waited(answer))
        causes = list(causes_of(raised.value))
        assert any(isinstance(cause, filrouge.TransportError) for cause in causes)
        assert provider.requests == [], "nothing is sent that would not be recorded"


async def waited(answer: Any) -> None:
    """Waits for a response."""
    await answer


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def killed_meanwhile(api: Api, client: Any, reply: Reply, server: Server) -> list[Any]:
    """What the application sees if filrouge is killed in the middle of the response."""
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.extend(api.events(client, "Which way?", stream=True)))
    thread.start()
    with filrouge.connect(server.url) as watching:
        wait_until(lambda: "open" in [turn["status"] for turn in turns_of(watching)])
    server.kill()
    reply.go_on.set()
    thread.join()
    return seen


def turns_of(ledger: filrouge.Ledger) -> list[Any]:
    """The turns of the session, if it exists."""
    try:
        return list(ledger.session("s").turns())
    except filrouge.NotFound:
        return []


def test_filrouge_may_be_killed_in_the_middle(api: Api, provider: Provider, server: Server) -> None:
    body = body_of(api)
    reply = Reply(body, hold_at=body.index(b"\n\n", len(body) // 2) + 2)
    provider.replies = [Reply(body), reply]
    expected = api.events(api.client(provider.url), "Which way?", stream=True)
    with filrouge.connect(server.url) as ledger:
        client = filrouge.record(api.client(provider.url), ledger.session("s"))
        assert killed_meanwhile(api, client, reply, server) == expected
        assert filrouge.recorder(client).failures == 1

        server.start()
        provider.replies = [Reply(body)]
        assert api.events(client, "And now?", stream=True) == expected
        assert filrouge.recorder(client).failures == 1
        expected = [("Which way?", "interrupted"), ("And now?", "finalized")]
        wait_until(lambda: [(turn["question_neutral"], turn["status"]) for turn in turns_of(ledger)] == expected)


def test_an_outage_is_made_up_for_by_the_next_request(provider: Provider, server: Server) -> None:
    api = APIS[0]
    with filrouge.connect(server.url) as ledger:
        client = filrouge.record(api.client(provider.url), ledger.session("s"))
        provider.replies = [Reply(body_of(api)) for _ in range(3)]
        messages: list[Any] = [{"role": "user", "content": "one?"}]
        for question in ("two?", "three?"):
            api.events(client, messages, stream=True)
            answer = 'The red thread 🧵 is "le fil rouge":\nder rote Faden, czerwona nić, 红线.'
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
            server.kill()
        server.start()
        api.events(client, messages, stream=True)
        turns = turns_of(ledger)
        assert [(turn["question_neutral"], turn["status"]) for turn in turns] == [
            ("one?", "finalized"),
            ("two?", "finalized"),
            ("three?", "finalized"),
        ]
        assert filrouge.recorder(client).failures == 1


def test_an_outage_buffer_keeps_requests_and_responses(api: Api, provider: Provider, server: Server) -> None:
    body = body_of(api)
    reply = Reply(body, hold_at=body.index(b"\n\n", len(body) // 2) + 2)
    provider.replies = [reply, Reply(body)]
    buffer = server.folder / "buffer.db"
    with filrouge.connect(server.url, on_outage="buffer", buffer=buffer) as ledger:
        client = filrouge.record(api.client(provider.url), ledger.session("s"), on_failure="raise")
        killed_meanwhile(api, client, reply, server)
        api.events(client, "And now?", stream=True)
        assert filrouge.recorder(client).failures == 0
        server.start()
        assert ledger.flush(60.0) and ledger.dead_letters() == []
        questions = [(turn["question_neutral"], turn["status"]) for turn in turns_of(ledger)]
        assert questions == [("Which way?", "finalized"), ("And now?", "finalized")]
