"""Turns a second of `FilrougeSession`, beside `SQLiteSession` of the OpenAI Agents SDK, in one process with 32 tasks.

A turn is what the SDK does for it: read the newest 20 items, add the question, add the answer. Each task has a session
of its own; all use one file. Both flush every write to disk before it is acknowledged: filrouge's default durability is
`flushed`; SQLiteSession gets `PRAGMA synchronous=FULL` beside its write-ahead log, which is SQLite's default.

    python bench/openai_agents.py [--seconds 10] [--tasks 32] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents

import filrouge
from filrouge.openai_agents import FilrougeSession

QUESTION = "Where does the red thread of this story lead, and who holds its other end? " * 4
ANSWER = "It leads through the labyrinth, past the third door, and back to where it began. " * 12


async def talk(session: Any, end: float) -> int:
    """Holds a conversation until a time. Returns its number of turns."""
    turns = 0
    while time.monotonic() < end:
        await session.get_items(limit=20)
        await session.add_items([{"role": "user", "content": f"{turns} {QUESTION}"}])
        await session.add_items([{"role": "assistant", "content": f"{turns} {ANSWER}"}])
        turns += 1
    return turns


async def rate(session: Callable[[str], Any], tasks: int, seconds: float) -> float:
    """The turns of all tasks in a second."""
    sessions = [session(f"conversation-{number}") for number in range(tasks)]
    for one in sessions:
        await one.add_items([{"role": "user", "content": "Hello?"}])
    start = time.monotonic()
    turns = await asyncio.gather(*[talk(one, start + seconds) for one in sessions])
    return sum(turns) / (time.monotonic() - start)


def of_filrouge(folder: Path, tasks: int, seconds: float) -> float:
    """filrouge, embedded."""
    with filrouge.open(folder / "filrouge.db") as ledger:
        assert ledger.info()["durability"] == "flushed"
        return asyncio.run(rate(lambda name: FilrougeSession(name, ledger), tasks, seconds))


class FullSQLiteSession(agents.SQLiteSession):
    """The SDK's session, with the durability that is compared made explicit."""

    @staticmethod
    def _configure_connection(connection: Any) -> None:
        agents.SQLiteSession._configure_connection(connection)
        connection.execute("PRAGMA synchronous=FULL")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def of_sdk(folder: Path, tasks: int, seconds: float) -> float:
    """The SDK's SQLiteSession."""
    return asyncio.run(rate(lambda name: FullSQLiteSession(name, folder / "sdk.db"), tasks, seconds))


def main() -> None:
    """Measures both in turns, so that other load on the machine concerns both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[float]] = {"filrouge": [], "SQLiteSession": []}
    for _ in range(given.rounds):
        for name, measure in (("filrouge", of_filrouge), ("SQLiteSession", of_sdk)):
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(measure(Path(folder), given.tasks, given.seconds))
    medians = {name: round(statistics.median(rates)) for name, rates in found.items()}
    ratio = round(medians["filrouge"] / medians["SQLiteSession"], 2)
    print(json.dumps({"tasks": given.tasks, "durability": "flushed", "turns_per_second": medians, "ratio": ratio}))


if __name__ == "__main__":
    main()
