"""Growing conversations, tool calls, and the choice of the session."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from record.apis import APIS, Api, in_loop
from record.provider import Provider, Reply, stream

import filrouge

TEXT = {
    "openai-chat": "openai_text.sse",
    "openai-responses": "text.sse",
    "anthropic": "text.sse",
    "gemini": "text.sse",
}
CALLS = {
    "openai-chat": "openai_parallel_calls.sse",
    "openai-responses": "calls.sse",
    "anthropic": "thinking_and_calls.sse",
    "gemini": "calls.sse",
}
Json = dict[str, Any]


def calls_of(api: Api) -> Reply:
    """A response with tool calls."""
    body = stream(api.format, CALLS[api.format])
    return Reply(body.replace(b"CpABAdHtim+example/signature==", b"QUFBQQ=="))  # Google's client decodes it


def channels(session: filrouge.Session) -> list[str]:
    """The kinds of the items of a session."""
    return [item["channel"] for item in session.items()]


def context(session: filrouge.Session, api: Api, question: str) -> Any:
    """The messages of the next request, as filrouge restores them, and a new question."""
    messages = session.context(api.format)["messages"]
    if api.format == "gemini":
        return [*messages, {"role": "user", "parts": [{"text": question}]}]
    return [*messages, {"role": "user", "content": question}]


def results(session: filrouge.Session, api: Api) -> list[Any]:
    """What an application adds to its messages after the tool calls of the newest turn."""
    calls = [item["parts"][0] for item in session.items() if item["channel"] == "tool_call"]
    match api.format:
        case "openai-chat":
            made = [
                {
                    "id": c["call_id"],
                    "type": "function",
                    "function": {"name": c["name"], "arguments": json.dumps(c["args"])},
                }
                for c in calls
            ]
            answers = [{"role": "tool", "tool_call_id": c["call_id"], "content": "sunny"} for c in calls]
            return [{"role": "assistant", "content": None, "tool_calls": made}, *answers]
        case "openai-responses":
            given = [
                {
                    "type": "function_call",
                    "call_id": c["call_id"],
                    "name": c["name"],
                    "arguments": json.dumps(c["args"]),
                }
                for c in calls
            ]
            return [
                *given,
                *({"type": "function_call_output", "call_id": c["call_id"], "output": "sunny"} for c in calls),
            ]
        case "anthropic":
            uses = [{"type": "tool_use", "id": c["call_id"], "name": c["name"], "input": c["args"]} for c in calls]
            blocks = [{"type": "tool_result", "tool_use_id": c["call_id"], "content": "sunny"} for c in calls]
            return [{"role": "assistant", "content": uses}, {"role": "user", "content": blocks}]
        case _:
            made = [{"functionCall": {"name": c["name"], "args": c["args"]}} for c in calls]
            told = [{"functionResponse": {"name": c["name"], "response": {"result": "sunny"}}} for c in calls]
            return [{"role": "model", "parts": made}, {"role": "user", "parts": told}]


def first(api: Api, question: str) -> list[Any]:
    """A list with the first message."""
    if api.format == "gemini":
        return [{"role": "user", "parts": [{"text": question}]}]
    return [{"role": "user", "content": question}]


def test_a_growing_conversation_is_recorded_once(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    session = ledger.session()
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    messages: Any = first(api, "one?")
    for number in range(3):
        provider.replies = [Reply(stream(api.format, TEXT[api.format]))]
        api.events(client, messages, stream=True)
        messages = context(session, api, f"{number}?")
        if number == 1:  # another process goes on
            client = filrouge.record(api.client(provider.url), ledger.session(session.session_id), on_failure="raise")
    turns = list(session.turns())
    assert [turn["question_neutral"] for turn in turns] == ["one?", "0?", "1?"]
    assert {turn["status"] for turn in turns} == {"finalized"}
    assert channels(session).count("question") == channels(session).count("final") == 3


def test_tool_results_continue_the_turn(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    session = ledger.session()
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    messages = first(api, "Is it warm?")
    provider.replies = [calls_of(api), Reply(stream(api.format, TEXT[api.format]))]
    api.events(client, messages, stream=True)
    (turn,) = session.turns()
    assert turn["status"] == "open"
    messages += results(session, api)
    api.events(client, messages, stream=True)
    (turn,) = session.turns()
    assert turn["status"] == "finalized" and turn["question_neutral"] == "Is it warm?"
    called = [item["parts"][0]["call_id"] for item in session.items() if item["channel"] == "tool_call"]
    answered = [item["parts"][0]["call_id"] for item in session.items() if item["channel"] == "tool_result"]
    assert called == answered and len(called) > 1
    report = session.context(api.format)["report"]
    reasons = {gap["reason"] for gap in report["dropped"]}
    assert reasons <= {"bookkeeping", "reasoning_not_in_format", "reasoning_unsigned"}


def test_a_retry_after_the_tools_says_the_turn_again(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    session = ledger.session()
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    messages = first(api, "Is it warm?")
    provider.replies = [
        calls_of(api),
        Reply(b'{"error":{"message":"busy","type":"server_error","code":503}}', status=503),
        Reply(stream(api.format, TEXT[api.format])),
    ]
    api.events(client, messages, stream=True)
    messages += results(session, api)
    called = [item for item in session.items() if item["channel"] == "tool_call"]
    api.events(client, messages, stream=True)
    api.events(client, messages, stream=True)
    assert [turn["status"] for turn in session.turns()] == ["failed", "finalized"]
    assert [turn["question_neutral"] for turn in session.turns()] == ["Is it warm?", "Is it warm?"]
    assert channels(session).count("tool_result") == 2 * len(called)


def test_an_interrupted_turn_goes_on(provider: Provider, remote: filrouge.Ledger) -> None:
    """A human approved the tool call after the turn had been given up."""
    api, session = APIS[0], remote.session()
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    messages = first(api, "Is it warm?")
    provider.replies = [calls_of(api), Reply(stream(api.format, TEXT[api.format]))]
    api.events(client, messages, stream=True)
    (turn,) = session.turns()
    abandon(remote, session.session_id, turn["turn_id"])
    messages += results(session, api)
    api.events(client, messages, stream=True)
    (turn,) = session.turns()
    assert turn["status"] == "finalized"


def abandon(ledger: filrouge.Ledger, session_id: str, turn_id: str) -> None:
    """Leaves a recording of the turn in the middle, which interrupts it."""
    session = ledger.session(session_id)
    (found,) = session.turns()
    turn = session.turn(found["question_neutral"], request_id=found["request_id"])
    turn.start()
    body = turn.stream_body("openai-chat", None, True)
    body.send(b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hm"}}]}\n\n')
    body.abort()
    assert turn.wait(30)["status"] == "interrupted" and turn.turn_id == turn_id


def test_one_client_serves_many_sessions(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    client = filrouge.record(api.client(provider.url), on_failure="raise")
    sessions = [ledger.session() for _ in range(4)]
    provider.replies = [Reply(stream(api.format, TEXT[api.format])) for _ in range(9)]

    def ask(session: filrouge.Session) -> None:
        with filrouge.current_session(session):
            api.events(client, "one?", stream=True)
            with filrouge.current_session(None):
                api.events(client, "a title?", stream=True)

    threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    api.events(client, "to nobody?", stream=True)
    assert filrouge.recorder(client).failures == 0
    for session in sessions:
        (turn,) = session.turns()
        assert (turn["question_neutral"], turn["status"]) == ("one?", "finalized")


@pytest.mark.parametrize("api", [api for api in APIS if api.is_async], ids=str)
def test_tasks_choose_their_sessions(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    client = filrouge.record(api.client(provider.url), on_failure="raise")
    sessions = [ledger.session() for _ in range(8)]
    provider.replies = [Reply(stream(api.format, TEXT[api.format])) for _ in range(16)]

    async def ask(session: filrouge.Session) -> None:
        with filrouge.current_session(session):
            await api.events_async(client, "one?", stream=True)

    async def all() -> None:
        await asyncio.gather(*(ask(session) for session in sessions))

    in_loop(all())
    in_loop(all())
    for session in sessions:
        assert [turn["question_neutral"] for turn in session.turns()] == ["one?", "one?"]


def test_requests_at_once_are_turns_of_one_session(api: Api, provider: Provider, ledger: filrouge.Ledger) -> None:
    session = ledger.session()
    client = filrouge.record(api.client(provider.url), session, on_failure="raise")
    provider.replies = [Reply(stream(api.format, TEXT[api.format])) for _ in range(6)]
    questions = [f"{number}?" for number in range(6)]
    threads = [threading.Thread(target=api.events, args=(client, q), kwargs={"stream": True}) for q in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turn["question_neutral"] or "" for turn in session.turns()) == questions
    assert {turn["status"] for turn in session.turns()} == {"finalized"}


def test_only_known_clients_can_be_recorded(remote: filrouge.Ledger) -> None:
    with pytest.raises(filrouge.Invalid, match="cannot be recorded"):
        filrouge.record(object(), remote.session())
    with pytest.raises(filrouge.Invalid, match="is not recorded"):
        filrouge.recorder(APIS[0].client("http://127.0.0.1:1"))
    with pytest.raises(filrouge.Invalid, match="on_failure"):
        filrouge.record(APIS[0].client("http://127.0.0.1:1"), on_failure="ignore")  # type: ignore[arg-type]
