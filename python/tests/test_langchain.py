"""Message histories of LangChain."""

from __future__ import annotations

from typing import Any

import pytest

import filrouge

pytest.importorskip("langchain_core")

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from filrouge.langchain import FilrougeChatMessageHistory

CALL = {"name": "look", "args": {"where": "left"}, "id": "c1", "type": "tool_call"}
MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief.", id="s1"),
    HumanMessage([{"type": "text", "text": "Where does this thread lead to?"}], additional_kwargs={"a": [1.0, None]}),
    AIMessage("", tool_calls=[CALL], name="guide", response_metadata={"model_name": "m-1"}),
    ToolMessage("a wall", tool_call_id="c1", status="error", artifact={"pixels": 3}),
    AIMessage("To the right.", usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}),
]


def test_messages_keep_their_form(ledger: filrouge.Ledger) -> None:
    history = FilrougeChatMessageHistory("langchain-s1", ledger)
    assert isinstance(history, BaseChatMessageHistory)
    history.add_messages(MESSAGES)
    assert history.messages == MESSAGES
    for message in MESSAGES:
        history.add_message(message)
    assert FilrougeChatMessageHistory("langchain-s1", ledger).messages == [*MESSAGES, *MESSAGES]
    assert FilrougeChatMessageHistory("langchain-s1", ledger, limit=2).messages == MESSAGES[-2:]


async def test_the_same_for_asyncio(async_ledger: filrouge.AsyncLedger) -> None:
    history = FilrougeChatMessageHistory("langchain-s1-async", async_ledger)
    await history.aadd_messages(MESSAGES)
    assert await history.aget_messages() == MESSAGES
    await history.aclear()
    assert await history.aget_messages() == []


def test_clear_hides_and_destroys_nothing(ledger: filrouge.Ledger) -> None:
    history = FilrougeChatMessageHistory("langchain-cleared", ledger)
    history.add_user_message("Hello?")
    history.add_ai_message("Hello.")
    history.clear()
    assert history.messages == []
    assert str(history) == ""
    history.add_user_message("Again?")
    assert str(history) == "Human: Again?"
    history.messages = MESSAGES[:2]
    assert history.messages == MESSAGES[:2]
    assert "Hello." in [part.get("text") for item in history.session.items() for part in item["parts"]]


def test_a_question_and_its_answer_are_a_turn_that_other_readers_understand(ledger: filrouge.Ledger) -> None:
    history = FilrougeChatMessageHistory("langchain-turns", ledger)
    for message in MESSAGES[1:]:
        history.add_message(message)
    (turn,) = history.session.turns()
    assert (turn["status"], turn["answer_neutral"]) == ("finalized", "To the right.")
    messages = history.session.context("openai-chat")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    stats = history.session.stats()["own"]
    assert (stats["tokens"]["input"], stats["agents"], stats["models"]) == (5, ["guide"], ["m-1"])


def test_a_chain_with_a_history(ledger: filrouge.Ledger) -> None:
    def answer(messages: list[BaseMessage]) -> BaseMessage:
        return AIMessage(f"{len(messages)} messages")

    chain = RunnableWithMessageHistory(
        RunnableLambda(answer),
        lambda session_id: FilrougeChatMessageHistory(session_id, ledger),
    )
    config: Any = {"configurable": {"session_id": "langchain-chain"}}
    assert chain.invoke([HumanMessage("One?")], config).content == "1 messages"
    assert chain.invoke([HumanMessage("Two?")], config).content == "3 messages"
    assert [message.content for message in FilrougeChatMessageHistory("langchain-chain", ledger).messages] == [
        *("One?", "1 messages", "Two?", "3 messages"),
    ]
