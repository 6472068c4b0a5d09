"""The callback of LiteLLM."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from record.provider import Provider, Reply, stream
from servers import wait_until

import filrouge

litellm: Any = pytest.importorskip("litellm")

from filrouge.litellm import FilrougeLogger  # noqa: E402

QUESTION = [{"role": "user", "content": "Which way?"}]
ERROR = b'{"error":{"message":"slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}}'


@pytest.fixture(autouse=True)
def callbacks() -> Iterator[None]:
    """No callback of another test."""
    lists = ["callbacks", "success_callback", "failure_callback", "_async_success_callback", "_async_failure_callback"]
    kept = {name: list(getattr(litellm, name)) for name in lists}
    yield
    for name, value in kept.items():
        setattr(litellm, name, value)


def turns(session: filrouge.Session) -> list[tuple[str | None, str]]:
    """The questions of a session, and what became of them."""
    try:
        return [(turn["question_neutral"], turn["status"]) for turn in session.turns()]
    except filrouge.NotFound:
        return []


def options(provider: Provider) -> dict[str, Any]:
    """The arguments of a call."""
    return {"model": "openai/m", "api_base": f"{provider.url}/v1", "api_key": "k", "max_retries": 0}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_completions_are_recorded(streamed: bool, is_async: bool, provider: Provider, ledger: filrouge.Ledger) -> None:
    session = ledger.session()
    logger = FilrougeLogger()
    litellm.callbacks = [logger]
    name = "openai_text.sse" if streamed else "whole_answer.json"
    provider.replies = [Reply(stream("openai-chat", name)), Reply(ERROR, status=429)]
    given = {**options(provider), "messages": QUESTION, "stream": streamed}

    async def ask_async() -> None:
        answer = await litellm.acompletion(**given)
        if streamed:
            async for _ in answer:
                pass
        with pytest.raises(litellm.RateLimitError):
            await litellm.acompletion(**given)
        while len(turns(session)) < 2:
            await asyncio.sleep(0.05)

    with filrouge.current_session(session):
        if is_async:
            asyncio.run(ask_async())
        else:
            answer = litellm.completion(**given)
            if streamed:
                list(answer)
            wait_until(lambda: turns(session) == [("Which way?", "finalized")])
            with pytest.raises(litellm.RateLimitError):
                litellm.completion(**given)
    wait_until(lambda: turns(session) == [("Which way?", "finalized"), ("Which way?", "failed")])
    assert logger.recorder.failures == 0
    errors = [item["parts"][0]["code"] for item in session.items() if item["channel"] == "error"]
    assert errors == ["rate_limit_error"]


def test_tool_results_continue_the_turn(provider: Provider, remote: filrouge.Ledger) -> None:
    session = remote.session()
    litellm.callbacks = [FilrougeLogger(ledger=remote)]
    provider.replies = [
        Reply(stream("openai-chat", "whole_calls.json")),
        Reply(stream("openai-chat", "whole_answer.json")),
    ]
    given = {**options(provider), "metadata": {"session_id": session.session_id}}
    said = litellm.completion(messages=QUESTION, **given).choices[0].message
    wait_until(lambda: turns(session) == [("Which way?", "open")])
    results = [{"role": "tool", "tool_call_id": call.id, "content": "a wall"} for call in said.tool_calls]
    litellm.completion(messages=[*QUESTION, said, *results], **given)
    wait_until(lambda: turns(session) == [("Which way?", "finalized")])
    assert [item["channel"] for item in session.items()].count("tool_result") == len(results)


def test_other_apis_are_recorded_as_far_as_they_answer_questions(provider: Provider, remote: filrouge.Ledger) -> None:
    session = remote.session()
    litellm.callbacks = [FilrougeLogger(session)]
    provider.replies = [
        Reply(b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}'),
        Reply(stream("openai-responses", "whole.json")),
        Reply(stream("anthropic", "whole_message.json")),
    ]
    litellm.embedding(input=["text"], **options(provider))
    litellm.responses(input="One?", instructions="Be brief.", **options(provider))
    wait_until(lambda: len(turns(session)) == 1)

    async def ask() -> None:
        given = {**options(provider), "model": "anthropic/m", "api_base": provider.url}
        await litellm.anthropic.messages.acreate(messages=QUESTION, max_tokens=9, system="Be long.", **given)
        while len(turns(session)) < 2:
            await asyncio.sleep(0.05)

    asyncio.run(ask())
    wait_until(lambda: turns(session) == [("One?", "finalized"), ("Which way?", "open")])
    told = [item["parts"][0]["text"] for item in session.items() if item["channel"] == "instructions"]
    assert told == ["Be brief.", "Be long."]
