"""Imports of LangGraph's savers: real stores, made by a graph."""

from __future__ import annotations

import operator
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import postgres
import pytest

import filrouge
from filrouge.migrate._program import main

pytest.importorskip("langgraph", reason="needs langgraph")
sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="needs langgraph-checkpoint-sqlite")

from langgraph.checkpoint.base import BaseCheckpointSaver  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.types import Command, Send, interrupt  # noqa: E402

from filrouge.langgraph import FilrougeSaver  # noqa: E402


@pytest.fixture(scope="module")
def postgres_url() -> Generator[str, None, None]:
    """An empty database."""
    with postgres.server() as url:
        yield url


class State(TypedDict):
    """The channels of the graph."""

    log: Annotated[list[Any], operator.add]


def ask(state: State) -> dict[str, Any]:
    return {"log": [("answer", interrupt("Which way?"))]}


def look(state: State) -> dict[str, Any]:
    return {"log": [{"seen": state["log"][-1]}]}


def fan(state: State) -> list[Send]:
    return [Send("look", {"log": [number]}) for number in range(3)]


def compiled(saver: BaseCheckpointSaver[Any]) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("look", look)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", fan, ["look"])
    builder.add_edge("look", END)
    return builder.compile(checkpointer=saver)


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def run(saver: BaseCheckpointSaver[Any]) -> None:
    """Two threads: one is complete, one waits for its human."""
    graph = compiled(saver)
    for thread in ("done", "waits"):
        graph.invoke({"log": ["begin", {"bytes": b"\x00\xff", "tuple": (1, 2)}]}, config(thread))
    graph.invoke(Command(resume="left"), config("done"))


def shown(saver: BaseCheckpointSaver[Any], thread: str) -> list[Any]:
    """All that a saver tells of a thread, except its own name of the thread."""
    return [
        (
            found.config["configurable"]["checkpoint_id"],
            (found.parent_config or config(""))["configurable"].get("checkpoint_id"),
            found.checkpoint,
            {name: value for name, value in found.metadata.items() if name != "thread_id"},
            sorted((task, channel, repr(value)) for task, channel, value in found.pending_writes or ()),
        )
        for found in saver.list(config(thread))
    ]


def check(saver: BaseCheckpointSaver[Any], command: list[str], ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {thread: shown(saver, thread) for thread in ("done", "waits")}
    count = sum(map(len, expected.values()))
    command = [*command, "--store", ledger]
    for added in (count, 0):
        assert main(command) == 0
        assert capsys.readouterr().out.endswith(f" {count} entries, {added} added\n")
    with filrouge.open(ledger) as opened:
        for thread, rows in expected.items():
            assert shown(FilrougeSaver(opened), thread) == rows
        graph = compiled(FilrougeSaver(opened))
        assert graph.get_state(config("waits")).next == ("ask",)
        final = graph.invoke(Command(resume="right"), config("waits"))
        assert final["log"][2] == ("answer", "right") and len(final["log"]) == 6


def test_the_file_of_sqlite_saver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as saver:
        run(saver)
        check(saver, ["langgraph-sqlite", str(tmp_path / "old.db")], str(tmp_path / "app.db"), capsys)


def test_an_import_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["langgraph-sqlite", str(tmp_path / "old.db"), "--store", str(tmp_path / "app.db")]
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "old.db")) as saver:
        graph = compiled(saver)
        graph.invoke({"log": ["begin"]}, config("later"))
        assert main(command) == 0
        graph.invoke(Command(resume="left"), config("later"))
        assert main(command) == 0
        with filrouge.open(tmp_path / "app.db") as opened:
            assert shown(FilrougeSaver(opened), "later") == shown(saver, "later")


def test_the_database_of_postgres_saver(tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres_url: str) -> None:
    savers = pytest.importorskip("langgraph.checkpoint.postgres", reason="needs langgraph-checkpoint-postgres")
    with savers.PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        run(saver)
        check(saver, ["langgraph-postgres", postgres_url], str(tmp_path / "app.db"), capsys)


def test_the_keys_of_redis_saver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The saver over a stand-in of Redis, which has JSON and no indexes for searches: the import needs none."""
    savers = pytest.importorskip("langgraph.checkpoint.redis", reason="needs langgraph-checkpoint-redis")
    fakeredis = pytest.importorskip("fakeredis", reason="needs fakeredis[json]")
    client = fakeredis.FakeRedis()
    monkeypatch.setattr("redisvl.index.SearchIndex.create", lambda *_, **__: None)
    monkeypatch.setattr("redis.Redis.from_url", lambda *_: client)
    saver = savers.RedisSaver(redis_client=client)
    saver.setup()
    run(saver)
    keys = {thread: [key for key, in_thread in scanned(client) if in_thread == thread] for thread in ("done", "waits")}
    monkeypatch.setattr(saver, "list", lambda of: (
        saver.get_tuple({"configurable": {**of["configurable"], "checkpoint_ns": "", "checkpoint_id": key}})
        for key in sorted(keys[of["configurable"]["thread_id"]], reverse=True)
    ))  # fmt: skip
    check(saver, ["langgraph-redis", "redis://localhost"], str(tmp_path / "app.db"), capsys)


def scanned(client: Any) -> list[tuple[str, str]]:
    """The ids of all checkpoints, and their threads."""
    rows = [client.json().get(key) for key in client.scan_iter(match="checkpoint:*")]
    return [(row["checkpoint_id"], row["thread_id"]) for row in rows]
