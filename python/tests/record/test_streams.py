"""Every recorded response of the providers, through their own clients: nothing changes for the application, and the
ledger holds what it would hold if the bytes had been sent to it."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import httpx
import httpx2
import pytest
from record.apis import APIS, Api, in_loop, raw_bytes
from record.provider import STREAMS, Provider, Reply, stream

import filrouge


def recorded(session: filrouge.Session) -> list[Any]:
    """The items of a session, without what differs each time."""
    items = [
        {
            **{name: item[name] for name in ("role", "channel", "parts", "model", "usage")},
            "metadata": {name: value for name, value in (item["metadata"] or {}).items() if name != "latency_ms"},
        }
        for item in session.items()
    ]
    found: list[Any] = json.loads(re.sub(r'"st_[0-9a-f]{16}"', '"st_"', json.dumps(items)))
    return found


def test_the_application_and_the_ledger_see_the_same_bytes(
    api: Api, provider: Provider, remote: filrouge.Ledger
) -> None:
    plain, client = api.client(provider.url), filrouge.record(api.client(provider.url), on_failure="raise")
    names = sorted(path.name for path in (STREAMS / api.format).iterdir() if path.suffix in (".sse", ".json"))
    assert len(names) > 10
    for name in names:
        body = stream(api.format, name)
        is_stream = name.endswith(".sse") or name == "array.json"
        provider.replies = [Reply(body), Reply(body)]
        expected = api.events(plain, "Which way?", stream=is_stream)
        session, control = remote.session(), remote.session()
        with filrouge.current_session(session):
            assert api.events(client, "Which way?", stream=is_stream) == expected, name
        assert provider.requests[-1] == provider.requests[-2]

        turn = control.turn("Which way?")
        turn.start()
        turn.record_response(body, api.format)
        assert recorded(session) == recorded(control), name
        assert [found["status"] for found in session.turns()] == [turn.status], name
    assert filrouge.recorder(client).failures == 0


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_compressed_bytes_arrive_as_they_were_sent(module: Any, provider: Provider, remote: filrouge.Ledger) -> None:
    body = gzip.compress(stream("openai-chat", "openai_text.sse"))
    provider.replies = [Reply(body, headers={"content-encoding": "gzip"}, piece=10)]
    session = remote.session()
    client = filrouge.record(module.Client(), session, on_failure="raise")
    ask = {"model": "m", "messages": [{"role": "user", "content": "Which way?"}]}
    pieces = list(raw_bytes(client, f"{provider.url}/v1/chat/completions", ask))
    assert b"".join(pieces) == body and len(pieces) > 1
    (turn,) = session.turns()
    assert (turn["status"], turn["answer_neutral"]) == ("finalized", 'Łódź, 你好 🧵 and\nthe "exit".')


@pytest.mark.parametrize("module", [httpx, httpx2])
def test_a_transport_for_tests_is_recorded(module: Any, remote: filrouge.Ledger) -> None:
    body = stream("openai-chat", "whole_answer.json")
    session = remote.session()
    ask = {"model": "m", "messages": [{"role": "user", "content": "Which way?"}]}
    transport = module.MockTransport(lambda request: module.Response(200, content=body))
    client = filrouge.record(module.Client(transport=transport), session, on_failure="raise")
    assert client.post("http://provider/v1/chat/completions", json=ask).content == body

    async def ask_async() -> None:
        async_client = filrouge.record(module.AsyncClient(transport=transport), session, on_failure="raise")
        assert (await async_client.post("http://provider/v1/chat/completions", json=ask)).content == body

    in_loop(ask_async())
    assert [turn["status"] for turn in session.turns()] == ["finalized", "finalized"]


def test_other_requests_are_not_recorded(provider: Provider, remote: filrouge.Ledger) -> None:
    provider.replies = [Reply(b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}')]
    session = remote.session()
    api = APIS[0]
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    assert client.embeddings.create(model="m", input="text").data == []
    with pytest.raises(filrouge.NotFound):
        session.get()
