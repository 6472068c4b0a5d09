"""Compares checkpointers of LangGraph: checkpoints per second, bytes stored, and the cost in a long thread.

The same graph runs in 32 threads, each with a conversation of its own, over `SqliteSaver`, `PostgresSaver` and
`FilrougeSaver`. Without a PostgreSQL database, its two rows are left out. `memory` shows what LangGraph itself can do:
much of a run is its own work, in one thread at a time. `calls` is the rate of the checkpointers alone: the 32 threads
repeat the calls that one run has made.

    python bench/langgraph_bench.py --postgres postgres://localhost/bench --questions 100
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from uuid import uuid4

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from typing_extensions import TypedDict

import filrouge
from filrouge.langgraph import FilrougeSaver

WORDS = "the ship of Theseus sails to Knossos where a thread leads through the maze".split()  # noqa: SIM905


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def prose(number: int) -> str:
    """About 500 characters that differ for each number."""
    return " ".join(
        WORDS[(number * 31 + place * place * 7) % len(WORDS)] + str(number * place % 97) for place in range(80)
    )


def answer(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage(prose(len(state["messages"])))]}


@dataclass
class Store:
    """A checkpointer, and how many bytes its store has."""

    saver: BaseCheckpointSaver[Any]
    size: Callable[[], int]


@dataclass
class Figures:
    """What was measured."""

    seconds: float = 0
    checkpoints: int = 0
    bytes: int = 0
    early: list[float] = field(default_factory=list)
    """The seconds that each question of the first quarter took, and of the last."""
    late: list[float] = field(default_factory=list)
    lock: Any = field(default_factory=Lock)


@contextmanager
def memory(folder: Path, database: str) -> Generator[Store, None, None]:
    yield Store(InMemorySaver(), lambda: 0)


@contextmanager
def sqlite(folder: Path, database: str) -> Generator[Store, None, None]:
    file = folder / "checkpoints.db"
    with closing(sqlite3.connect(file, check_same_thread=False)) as connection:

        def size() -> int:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return file.stat().st_size

        yield Store(SqliteSaver(connection), size)


@contextmanager
def postgres(folder: Path, database: str) -> Generator[Store, None, None]:
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(database, min_size=32, max_size=32, kwargs=options) as pool:
        saver = PostgresSaver(pool)  # type: ignore[arg-type]
        saver.setup()
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")

        def size() -> int:
            with pool.connection() as connection:
                sizes = [connection.execute("SELECT pg_total_relation_size(%s) AS size", [name]) for name in tables]
                return sum(row["size"] for found in sizes for row in found)  # type: ignore[call-overload]

        with pool.connection() as connection:
            connection.execute("TRUNCATE checkpoints, checkpoint_blobs, checkpoint_writes")
        yield Store(saver, size)


@contextmanager
def filrouge_sqlite(folder: Path, database: str) -> Generator[Store, None, None]:
    file = folder / "filrouge.db"
    ledger = filrouge.open(str(file))

    def size() -> int:
        ledger.close()
        return sum(part.stat().st_size for part in folder.glob("filrouge.db*"))

    with ledger:
        yield Store(FilrougeSaver(ledger), size)


@contextmanager
def filrouge_postgres(folder: Path, database: str) -> Generator[Store, None, None]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS filrouge CASCADE")

        def size() -> int:
            tables = "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'filrouge'::regnamespace"
            row = connection.execute(f"SELECT sum(pg_total_relation_size(oid)) {tables}").fetchone()
            return int(row[0]) if row else 0

        with filrouge.open(database) as ledger:
            yield Store(FilrougeSaver(ledger), size)


def converse(saver: BaseCheckpointSaver[Any], questions: int, figures: Figures) -> None:
    """One conversation."""
    graph = StateGraph(State).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": uuid4().hex}}
    times: list[float] = []
    for number in range(questions):
        started = time.perf_counter()
        graph.invoke({"messages": [HumanMessage(prose(number))]}, config)
        times.append(time.perf_counter() - started)
    quarter = max(1, questions // 4)
    with figures.lock:
        figures.early += times[:quarter]
        figures.late += times[-quarter:]


class Recorder(InMemorySaver):
    """Notes the calls of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def get_tuple(self, config: Any) -> Any:
        self.calls.append(("get_tuple", (config,)))
        return super().get_tuple(config)

    def put(self, config: Any, *arguments: Any) -> Any:
        self.calls.append(("put", (config, *arguments)))
        return super().put(config, *arguments)

    def put_writes(self, config: Any, *arguments: Any) -> None:
        self.calls.append(("put_writes", (config, *arguments)))
        super().put_writes(config, *arguments)


def repeat(saver: BaseCheckpointSaver[Any], calls: list[tuple[str, tuple[Any, ...]]]) -> None:
    """Repeats the calls of a graph, in another thread."""
    thread_id = uuid4().hex
    for name, (config, *arguments) in calls:
        names = {**config["configurable"], "thread_id": thread_id}
        getattr(saver, name)({**config, "configurable": names}, *arguments)


def measure(kind: Callable[[Path, str], Any], database: str, threads: int, questions: int, *, calls: bool) -> Figures:
    """Runs all conversations over one checkpointer, or only the calls of their graph."""
    figures = Figures()
    recorder = Recorder()
    if calls:
        converse(recorder, questions, Figures())
    with tempfile.TemporaryDirectory() as folder, kind(Path(folder), database) as store:
        put = store.saver.put

        def counted(*arguments: Any) -> Any:
            stored = put(*arguments)
            with figures.lock:
                figures.checkpoints += 1
            return stored

        store.saver.put = counted
        work = (repeat, store.saver, recorder.calls) if calls else (converse, store.saver, questions, figures)
        started = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(*work) for _ in range(threads)]:
                done.result()
        figures.seconds = time.perf_counter() - started
        figures.bytes = store.size()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", default="", help="the URL of a database that may be overwritten")
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--questions", type=int, default=100, help="of each conversation")
    options = parser.parse_args()
    kinds: list[Callable[[Path, str], Any]] = [memory, sqlite, filrouge_sqlite]
    if options.postgres:
        kinds += [postgres, filrouge_postgres]
    for kind in kinds:
        graph, alone = (
            measure(kind, options.postgres, options.threads, options.questions, calls=calls) for calls in (False, True)
        )
        row = {
            "store": kind.__name__,
            "checkpoints_per_second": round(graph.checkpoints / graph.seconds),
            "calls": round(alone.checkpoints / alone.seconds),
            "bytes_per_checkpoint": round(graph.bytes / graph.checkpoints),
            "late_to_early": round(statistics.median(graph.late) / statistics.median(graph.early), 2),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
