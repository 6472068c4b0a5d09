"""LangGraph's own suite, and graphs that run over the checkpointers."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import operator
import pkgutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from test_examples import SHOWN, Console
from typing_extensions import TypedDict

import filrouge
import filrouge.langgraph
from filrouge.langgraph import AsyncFilrougeSaver, FilrougeSaver, acopy_checkpoints, copy_checkpoints


def new_prefix() -> str:
    """The prefix of the sessions of one test: tests share a server."""
    return f"t{uuid4().hex}:"


def conformance(make: Callable[[], BaseCheckpointSaver[Any]]) -> tuple[int, int, list[str]]:
    """Runs LangGraph's suite: how many tests passed, with how many capabilities, and what failed."""

    @checkpointer_test(name="filrouge")
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        yield make()

    results = asyncio.run(validate(saver)).results.values()
    failures = [failure for result in results for failure in result.failures]
    return sum(result.tests_passed for result in results), sum(result.detected for result in results), failures


def test_the_checkpointer_passes_the_suite_of_langgraph(ledger: filrouge.Ledger) -> None:
    assert conformance(lambda: FilrougeSaver(ledger, prefix=new_prefix())) == (81, 8, [])


def test_the_checkpointer_for_asyncio_passes_the_suite_of_langgraph(async_ledger: filrouge.AsyncLedger) -> None:
    assert conformance(lambda: AsyncFilrougeSaver(async_ledger, prefix=new_prefix())) == (81, 8, [])


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    results: Annotated[list[str], operator.add]


def answer(state: State) -> dict[str, Any]:
    number = len(state["messages"])
    return {"messages": [AIMessage(f"answer {number} " * 20, id=f"a{number}")]}


def fan_out(state: State) -> list[Send]:
    return [Send("work", {"part": part}) for part in "abc"]


def work(state: dict[str, str]) -> dict[str, Any]:
    return {"results": [state["part"]]}


def ask(state: State) -> dict[str, Any]:
    return {"results": [interrupt("go on?")]}


def build() -> StateGraph[State]:
    """A graph with messages, parallel tasks, a subgraph and an interrupt."""
    inner = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile()
    graph = StateGraph(State).add_node("answer", answer).add_node("work", work).add_node("inner", inner)
    return graph.add_edge(START, "answer").add_conditional_edges("answer", fan_out, ["work"]).add_edge("work", "inner")


def simple() -> StateGraph[Any]:
    """The graph of the examples."""

    class Texts(TypedDict):
        messages: Annotated[list[str], operator.add]

    graph = StateGraph(Texts).add_node("answer", lambda state: {"messages": ["To the left."]})
    return graph.add_edge(START, "answer")


RESULTS = [*"abc", *"abc", "yes"]
"""Those of the tasks, and those that the subgraph returns."""


def question(number: int) -> Any:
    return {"messages": [HumanMessage(f"question {number}", id=f"q{number}")]}


def in_thread(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def converse(saver: BaseCheckpointSaver[Any], thread_id: str = "1") -> list[tuple[Any, ...]]:
    """Runs the graph, forks it, and returns its history."""
    graph = build().compile(checkpointer=saver)
    config = in_thread(thread_id)
    for number in range(3):
        graph.invoke(question(number), config)
        graph.invoke(Command(resume=f"yes {number}"), config)
    earlier = [state for state in graph.get_state_history(config) if state.next == ("answer",)][1]
    graph.update_state(earlier.config, {"results": ["changed"]})
    graph.invoke(None, config)
    return history(graph.get_state_history(config))


def history(states: Iterator[Any]) -> list[tuple[Any, ...]]:
    """What two checkpointers must have in common."""
    shown = ("source", "step")
    return [
        (
            state.values,
            state.next,
            {name: (state.metadata or {}).get(name) for name in shown},
            [(task.name, task.interrupts and task.interrupts[0].value, task.result) for task in state.tasks],
            state.parent_config is None,
        )
        for state in states
    ]


def test_a_graph_has_the_same_history_as_in_memory(ledger: filrouge.Ledger) -> None:
    expected = converse(InMemorySaver())
    assert len(expected) > 15
    prefix = new_prefix()
    assert converse(FilrougeSaver(ledger, prefix=prefix)) == expected
    cold = build().compile(checkpointer=FilrougeSaver(ledger, prefix=prefix))
    assert history(cold.get_state_history(in_thread("1"))) == expected


async def test_a_graph_runs_in_an_event_loop(async_ledger: filrouge.AsyncLedger) -> None:
    saver = AsyncFilrougeSaver(async_ledger, prefix=new_prefix())
    graph = build().compile(checkpointer=saver)
    config = in_thread("1")
    await graph.ainvoke(question(1), config)
    state = await graph.aget_state(config, subgraphs=True)
    assert state.next == ("inner",)
    await graph.ainvoke(Command(resume="yes"), config)
    assert (await graph.aget_state(config)).values["results"] == RESULTS
    assert len([found async for found in saver.alist(config)]) == 8
    with pytest.raises(RuntimeError, match="aget_tuple"):
        saver.get_tuple(config)
    other_thread = await asyncio.to_thread(saver.get_tuple, config)
    assert other_thread == await saver.aget_tuple(config)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_of_langgraph_keeps_the_result(ledger: filrouge.Ledger, durability: Any) -> None:
    prefix = new_prefix()
    graph = build().compile(checkpointer=FilrougeSaver(ledger, prefix=prefix))
    graph.invoke(question(1), in_thread("1"), durability=durability)
    cold = build().compile(checkpointer=FilrougeSaver(ledger, prefix=prefix))
    result = cold.invoke(Command(resume="yes"), in_thread("1"), durability=durability)
    assert result["results"] == RESULTS


def test_a_channel_that_keeps_only_its_changes_is_rebuilt(ledger: filrouge.Ledger) -> None:
    class Logged(TypedDict):
        log: Annotated[list[str], DeltaChannel(lambda log, new: log + [line for part in new for line in part])]

    def write(state: Logged) -> dict[str, Any]:
        return {"log": [f"line {len(state['log'])}"]}

    prefix = new_prefix()
    for number in range(5):
        saver = FilrougeSaver(ledger, prefix=prefix)
        graph = StateGraph(Logged).add_node("write", write).add_edge(START, "write").compile(checkpointer=saver)
        log = graph.invoke({"log": [f"input {number}"]}, in_thread("1"))["log"]
    assert log == [line for number in range(5) for line in (f"input {number}", f"line {2 * number + 1}")]
    found = saver.get_tuple(in_thread("1"))
    assert found
    expected = BaseCheckpointSaver.get_delta_channel_history(saver, config=found.config, channels=["log"])
    for config in (found.config, in_thread("1")):
        assert saver.get_delta_channel_history(config=config, channels=["log"]) == expected
    saver.prune(["1"])
    cold = StateGraph(Logged).add_node("write", write).add_edge(START, "write")
    kept = cold.compile(checkpointer=FilrougeSaver(ledger, prefix=prefix)).get_state(in_thread("1"))
    assert kept.values["log"] == log


def test_the_checkpoints_of_another_checkpointer_are_copied(ledger: filrouge.Ledger) -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        source = SqliteSaver(connection)
        expected = converse(source)
        source.put_writes(next(source.list(in_thread("1"))).config, [("results", ["pending"])], "task")
        prefix = new_prefix()
        target = FilrougeSaver(ledger, prefix=prefix)
        copied = copy_checkpoints(source, target)
        assert copied == len(list(source.list(None))) == len(list(target.list(None)))
        assert copy_checkpoints(source, target) == copied
        cold = FilrougeSaver(ledger, prefix=prefix)
        assert list(cold.list(in_thread("1"))) == list(source.list(in_thread("1")))
        assert len(expected) == len(list(cold.list({"configurable": {"thread_id": "1", "checkpoint_ns": ""}})))


async def test_checkpoints_are_copied_in_an_event_loop(async_ledger: filrouge.AsyncLedger) -> None:
    source = InMemorySaver()
    await build().compile(checkpointer=source).ainvoke(question(1), in_thread("1"))
    target = AsyncFilrougeSaver(async_ledger, prefix=new_prefix())
    assert await acopy_checkpoints(source, target) == len(list(source.list(None)))
    expected, copied = await source.aget_tuple(in_thread("1")), await target.aget_tuple(in_thread("1"))
    assert expected and copied
    assert copied.checkpoint == expected.checkpoint
    assert copied.pending_writes == expected.pending_writes


def examples() -> dict[str, str]:
    """The docstrings with examples, by the names of what they describe."""
    modules = [module.name for module in pkgutil.iter_modules(filrouge.langgraph.__path__, "filrouge.langgraph.")]
    found = (test for name in modules for test in doctest.DocTestFinder().find(importlib.import_module(name)))
    return {test.name: test.docstring or "" for test in found if test.examples}


@pytest.mark.parametrize("name", examples())
def test_the_examples_of_a_docstring_of_langgraph(name: str) -> None:
    module = importlib.import_module(".".join(name.split(".")[:3]))
    names = {"filrouge": filrouge, "FilrougeSaver": FilrougeSaver, "AsyncFilrougeSaver": AsyncFilrougeSaver}
    console = Console({**vars(module), **names, "builder": simple()})
    for example in doctest.DocTestParser().get_examples(examples()[name]):
        console.check(example.source, "single", example.want, example.exc_msg)
    console.loop.close()


def test_the_examples_of_the_page_about_langgraph() -> None:
    console = Console({"__name__": "__main__"})
    page = Path(__file__).resolve().parents[2] / "docs" / "python-langgraph.md"
    for source, want in SHOWN.findall(page.read_text()):
        console.check(source, "exec", want)
    console.loop.close()
