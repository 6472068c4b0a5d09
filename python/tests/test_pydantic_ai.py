"""Message histories of Pydantic AI."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

import filrouge

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from filrouge.pydantic_ai import FilrougeMessages

AT = datetime(2026, 1, 2, 3, 4, 5, 678, timezone.utc)
PICTURE = BinaryContent(data=b"\x89PNG\x00\xff", media_type="image/png")
MADE: list[ModelMessage] = [
    ModelRequest(
        [
            SystemPromptPart("Be brief.", timestamp=AT),
            UserPromptPart(["What is in this picture?", PICTURE], timestamp=AT),
        ],
        instructions="Answer.",
        timestamp=AT,
    ),
    ModelResponse(
        [
            ThinkingPart("A labyrinth?", signature="c2ln", provider_name="anthropic"),
            ToolCallPart("look", {"x": 1.0}, "c1"),
        ],
        model_name="m-1",
        usage=RequestUsage(input_tokens=5, output_tokens=2),
        timestamp=AT,
    ),
    ModelRequest([ToolReturnPart("look", {"seen": ["a wall"]}, "c1", timestamp=AT)], timestamp=AT),
    ModelResponse([ToolCallPart("look", '{"x": "?"}', "c2")], timestamp=AT),
    ModelRequest([ToolReturnPart("look", "x is a number", "c2", outcome="retried", timestamp=AT)], timestamp=AT),
    ModelResponse([TextPart("The exit is on the left of it.")], model_name="m-1", timestamp=AT),
]

MESSAGES = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(MADE))
"""The messages as Pydantic AI itself restores them: with the special class for pictures."""


def test_messages_keep_their_form(ledger: filrouge.Ledger) -> None:
    history = FilrougeMessages("pydantic", ledger)
    assert history.load() == []
    history.add(MESSAGES)
    assert history.load() == MESSAGES
    history.add(MESSAGES[:1])
    assert history.load(2) == [MESSAGES[-1], MESSAGES[0]]


async def test_the_same_for_asyncio(async_ledger: filrouge.AsyncLedger) -> None:
    history = FilrougeMessages("pydantic-async", async_ledger)
    await history.aadd(MESSAGES)
    assert await history.aload() == MESSAGES
    await history.asave(MESSAGES[:2])
    assert await history.aload() == MESSAGES[:2]
    await history.aclear()
    assert await history.aload() == []


def test_save_writes_only_what_differs(ledger: filrouge.Ledger) -> None:
    history = FilrougeMessages("pydantic-saved", ledger)
    history.save(MESSAGES[:2])
    before = history.session.get()["last_seq"]
    history.save(MESSAGES[:2])
    assert history.session.get()["last_seq"] == before
    history.save(MESSAGES)
    assert history.load() == MESSAGES
    history.save([MESSAGES[0], MESSAGES[5]])
    assert history.load() == [MESSAGES[0], MESSAGES[5]]
    recorded = [part for item in history.session.items() for part in item["parts"]]
    assert len([part for part in recorded if "original" in part]) == 7
    history.clear()
    assert history.load() == []


def test_a_run_is_a_turn_that_other_readers_understand(ledger: filrouge.Ledger) -> None:
    history = FilrougeMessages("pydantic-turns", ledger)
    history.add(MESSAGES)
    (turn,) = history.session.turns()
    assert (turn["status"], turn["answer_neutral"]) == ("finalized", "The exit is on the left of it.")
    messages = history.session.context("anthropic", unanswered="error")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert history.session.stats()["own"]["tokens"]["input"] == 5


def test_an_agent_continues_its_conversation(ledger: filrouge.Ledger) -> None:
    seen: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(len(messages))
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("look", {"where": "left"}, "c1")])
        return ModelResponse([TextPart(f"answer {len(messages)}")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    def look(where: str) -> str:
        return f"a wall on the {where}"

    history = FilrougeMessages("pydantic-agent", ledger)
    for question in ("Which way?", "And then?"):
        result = agent.run_sync(question, message_history=history.load())
        history.add(result.new_messages())
    assert seen == [1, 3, 5]
    assert history.load() == result.all_messages()
    assert [turn["answer_neutral"] for turn in history.session.turns()] == ["answer 3", "answer 5"]
