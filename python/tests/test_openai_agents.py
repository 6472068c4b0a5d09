"""Sessions of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import filrouge

pytest.importorskip("agents")

from agents import Agent, Runner, function_tool
from agents.memory import Session
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from filrouge.openai_agents import FilrougeSession

QUESTION: dict[str, Any] = {"role": "user", "content": "Where does the red thread of this story lead?"}
FAKE_ID = "__fake_id__"
EXOTIC: list[dict[str, Any]] = [
    {"content": "Key order, \u0000, \x7f and \ud800 stay.", "role": "user"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
    {"role": "user", "content": [{"type": "input_file", "filename": "a.txt", "file_data": "YQ=="}]},
    {"role": "system", "content": "Be brief."},
    {
        "id": FAKE_ID,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Left?"}],
        "encrypted_content": "x",
    },
    {"id": FAKE_ID, "type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"where": "left"}'},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a wall"}]},
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "exit"}},
    {"type": "compaction", "encrypted_content": "y", "numbers": [1.0, 1e300, 9007199254740993, True, None]},
    {"original": {"kind": "openai_agents"}, "type": "unheard_of"},
    {
        "id": FAKE_ID,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "The thread leads to the exit, on the left.",
                "annotations": [],
                "logprobs": [],
            },
            {"type": "output_text", "text": "The thread leads to the exit, on the left.", "annotations": [{"a": None}]},
            {"type": "refusal", "refusal": "No further."},
        ],
    },
]


def session(ledger: filrouge.Ledger | filrouge.AsyncLedger, name: str = "s1", **options: Any) -> Any:
    """A session, untyped, because items of tests are plain dictionaries."""
    return FilrougeSession(name, ledger, **options)


def dumped(items: list[Any]) -> str:
    """Items with the order of their members."""
    return repr(items)


async def test_items_keep_their_form(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger)
    await agents.add_items(EXOTIC)
    assert dumped(await agents.get_items()) == dumped(EXOTIC)
    for item in EXOTIC:
        await agents.add_items([item])
    assert dumped(await session(async_ledger).get_items()) == dumped([*EXOTIC, *EXOTIC])
    assert dumped(await agents.get_items(3)) == dumped(EXOTIC[-3:])


async def test_a_ledger_for_threads_works_too(ledger: filrouge.Ledger) -> None:
    assert isinstance(FilrougeSession("s1", ledger), Session)
    agents = session(ledger, "threads")
    await agents.add_items([QUESTION])
    assert await agents.get_items() == [QUESTION]


async def test_a_run_is_a_turn_that_other_readers_understand(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger, "run")
    await agents.add_items([QUESTION])
    await agents.add_items(EXOTIC[5:7])
    await agents.add_items([{"role": "assistant", "content": "To the exit, which is on the left."}])
    (turn,) = [turn async for turn in agents.session.turns()]
    assert turn["status"] == "finalized"
    assert turn["answer_neutral"] == "To the exit, which is on the left."
    context = await agents.session.context("openai-chat")
    assert [message["role"] for message in context["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert context["messages"][0]["content"] == QUESTION["content"]
    assert (await agents.session.verify())["status"] == "intact"


async def test_pop_and_clear_hide_and_destroy_nothing(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger, "marks")
    items = [{"role": "user", "content": f"{number}"} for number in range(6)]
    for item in items:
        await agents.add_items([item])
    assert await agents.pop_item() == items[5]
    assert await agents.pop_item() == items[4]
    assert await agents.get_items() == items[:4]
    assert await agents.get_items(2) == items[2:4]
    await agents.add_items([items[5]])
    assert await agents.get_items(2) == [items[3], items[5]]
    await agents.clear_session()
    assert await agents.get_items() == []
    assert await agents.pop_item() is None
    await agents.clear_session()
    await agents.add_items([items[0]])
    assert await agents.get_items() == [items[0]]
    texts = [part["text"] async for item in agents.session.items() for part in item["parts"] if part.get("text")]
    assert texts == ["0", "1", "2", "3", "4", "5", "5", "0"]
    assert (await agents.session.verify())["status"] == "intact"


async def test_what_is_hidden_is_after_an_answer_and_in_an_interrupted_turn(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "Left."}
    async with filrouge.open_async(tmp_path / "app.db", turn_timeout_s=1) as ledger:
        agents = session(ledger)
        await agents.add_items([QUESTION])
        await agents.add_items([answer])
        assert await agents.pop_item() == answer
        await agents.add_items([{"role": "user", "content": "And now?"}])
    await asyncio.sleep(1.5)
    async with filrouge.open_async(tmp_path / "app.db", turn_timeout_s=1) as ledger:
        agents = session(ledger)
        assert await agents.pop_item() == {"role": "user", "content": "And now?"}
        assert await agents.get_items() == [QUESTION]


async def test_limits(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger, "limits", session_settings={"limit": 2})
    items = [{"role": "user", "content": f"{number}"} for number in range(4)]
    await agents.add_items(items)
    assert await agents.get_items() == items[2:]
    assert await agents.get_items(0) == []
    assert await agents.get_items(-1) == items
    assert await agents.get_items(100) == items
    assert await session(async_ledger, "nobody").get_items() == []


async def test_answers_without_a_question_and_the_same_session_in_a_new_object(
    async_ledger: filrouge.AsyncLedger,
) -> None:
    answer = {"role": "assistant", "content": "Left."}
    await session(async_ledger, "odd").add_items([answer])
    await session(async_ledger, "odd").add_items([answer])
    await session(async_ledger, "odd").add_items([QUESTION])
    await session(async_ledger, "odd").add_items(EXOTIC[5:7])
    await session(async_ledger, "odd").add_items([answer])
    assert await session(async_ledger, "odd").get_items() == [answer, answer, QUESTION, *EXOTIC[5:7], answer]
    turns = [turn async for turn in async_ledger.session("odd").turns()]
    assert [turn["status"] for turn in turns] == ["finalized"] * 3


async def test_reading_the_newest_reads_no_more(
    async_ledger: filrouge.AsyncLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = session(async_ledger, "long")
    for number in range(30):
        await agents.add_items([{"role": "user", "content": f"{number}.{index}"} for index in range(50)])
    rows = 0
    newest = filrouge.AsyncSession.newest_items

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal rows
        page = await newest(*arguments, **options)
        rows += len(page)
        return page

    monkeypatch.setattr(filrouge.AsyncSession, "newest_items", counted)
    assert len(await agents.get_items(20)) == 20
    assert rows <= 30
    assert await agents.pop_item() is not None
    rows = 0
    assert len(await agents.get_items(20)) == 20
    assert rows <= 30


async def test_tasks_that_pop_get_different_items(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger, "pops")
    items = [{"role": "user", "content": f"{number}"} for number in range(12)]
    await agents.add_items(items)
    popped = await asyncio.gather(*[session(async_ledger, "pops").pop_item() for _ in range(12)])
    assert sorted(item["content"] for item in popped) == sorted(item["content"] for item in items)
    assert await agents.get_items() == []


async def test_a_cancelled_write_is_made_or_not_before_the_cancellation(async_ledger: filrouge.AsyncLedger) -> None:
    agents = session(async_ledger, "cancelled")
    task = asyncio.create_task(agents.add_items([QUESTION]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await agents.get_items() in ([], [QUESTION])
    before = await agents.get_items()
    await asyncio.sleep(0.2)
    assert await agents.get_items() == before


async def test_an_agent_with_tools_continues_its_conversation(async_ledger: filrouge.AsyncLedger) -> None:
    @function_tool
    def look(where: str) -> str:
        """Looks."""
        return f"a wall on the {where}"

    model = ScriptedModel()
    agent = Agent(name="guide", model=model, tools=[look])
    model.enqueue([answer_of("Ask me.")])
    await Runner.run(agent, "Hello?", session=session(async_ledger, "agent"))
    model.enqueue([call_of("look", '{"where": "left"}')])
    model.enqueue([answer_of("To the right.")])
    result = await Runner.run(agent, "Which way?", session=session(async_ledger, "agent"))
    assert result.final_output == "To the right."
    stored = await session(async_ledger, "agent").get_items()
    assert [item.get("type", item.get("role")) for item in stored] == [
        *("user", "message", "user", "function_call", "function_call_output", "message"),
    ]
    turns = [turn async for turn in async_ledger.session("agent").turns()]
    assert [turn["answer_neutral"] for turn in turns] == ["Ask me.", "To the right."]


def answer_of(text: str) -> Any:
    """An answer of a model."""
    content: Any = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="m1", type="message", role="assistant", content=content, status="completed")


def call_of(name: str, arguments: str) -> Any:
    """A tool call of a model."""
    return ResponseFunctionToolCall(id="f1", call_id="c1", type="function_call", name=name, arguments=arguments)


WRITER = """
import asyncio, sys, filrouge
from filrouge.openai_agents import FilrougeSession

async def main(path, name):
    async with filrouge.open_async(path) as ledger:
        session = FilrougeSession("shared", ledger)
        for number in range(25):
            await session.add_items([{"role": "user", "content": f"{name} {number}"}])
            await session.add_items([{"role": "assistant", "content": f"answer to {name} {number}"}])

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_on_one_session_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    names = ("a", "b")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in names]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    async with filrouge.open_async(path) as ledger:
        stored = [item["content"] for item in await session(ledger, "shared").get_items()]
        assert (await ledger.session("shared").verify())["status"] == "intact"
    for name in names:
        own = [text for text in stored if text.split()[-2] == name]
        wanted = [text for number in range(25) for text in (f"{name} {number}", f"answer to {name} {number}")]
        assert own == wanted
    assert len(stored) == 100
