"""What is left when a process is killed, forks, exits, or is not alone."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from servers import Server, wait_until

import filrouge

OPEN = """
import os, sys, time, filrouge
address, name = sys.argv[1:3]
open = filrouge.connect if address.startswith("http") else filrouge.open
buffer = {"on_outage": "buffer", "buffer": sys.argv[3]} if sys.argv[3:] else {}
session = open(address, **buffer).session(name)
"""
STREAM = """
def answer():
    for number in range(50):
        yield {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": f"{number} "}}]}
    time.sleep(2)  # a draft is written at most 250 ms after its text
    print("shown", flush=True)
    time.sleep(1000)

with session.turn("Count!", request_id="r1") as turn:
    turn.add_text("I count.")
    for event in turn.record(answer()):
        pass
"""
COUNTED = "".join(f"{number} " for number in range(50))
FORK = """
child = os.fork()
if child == 0:
    try:
        session.record_turn("of the child", "a")
    except filrouge.ForkError as error:
        with open(address) as own:
            own.session(name).record_turn("of the child", error.hint)
    os._exit(0)
os.waitpid(child, 0)
session.record_turn("of the parent", "a")
"""
EXIT = """
turn = session.turn("q", request_id="r1")
turn.start()
turn.add_text("t")
"""
WRITE = """
for number in range(25):
    session.record_turn(f"{os.getpid()} {number}", "a")
"""


def run(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Runs a program in another process."""
    return subprocess.Popen([sys.executable, "-c", OPEN + program, *arguments], stdout=subprocess.PIPE, text=True)


def until_shown(process: subprocess.Popen[str]) -> None:
    """Waits for a process's line, and kills it."""
    assert process.stdout is not None
    assert process.stdout.readline() == "shown\n"
    process.kill()
    process.communicate()


def opened(address: str) -> filrouge.Ledger:
    """The ledger of the test itself."""
    return filrouge.connect(address) if address.startswith("http") else filrouge.open(address)


def recorded(session: filrouge.Session) -> list[tuple[str, str]]:
    """The channel and the text of each item."""
    return [(item["channel"], item["parts"][0].get("text", "")) for item in session.items()]


def status(session: filrouge.Session) -> str:
    """The status of the session's turn."""
    return next(session.turns(request_id="r1"))["status"]


def test_a_killed_process_leaves_what_it_has_shown(address: str) -> None:
    name = str(uuid.uuid4())
    until_shown(run(STREAM, address, name))
    with opened(address) as ledger:
        session = ledger.session(name)
        wait_until(lambda: status(session) == "interrupted")
        kept = recorded(session)
        assert [entry for entry in kept if entry[1]] == [
            ("question", "Count!"),
            ("thought", "I count."),
            ("partial", COUNTED),
        ]
        with session.turn("Count!", request_id="r1") as turn:
            turn.finish("Fifty.")
        after = recorded(session)
        assert after[: len(kept)] == kept and after[-1] == ("final", "Fifty.")


def test_a_process_that_is_killed_in_an_outage_leaves_what_it_has_shown(server: Server, tmp_path: Path) -> None:
    server.kill()
    buffer = str(tmp_path / "outage.db")
    until_shown(run(STREAM, server.url, "s", buffer))
    server.start()
    with filrouge.connect(server.url, on_outage="buffer", buffer=buffer) as ledger:
        assert ledger.flush(60)
        texts = [entry for entry in recorded(ledger.session("s")) if entry[1]]
        assert texts == [("question", "Count!"), ("thought", "I count."), ("partial", COUNTED)]
        assert ledger.dead_letters() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_ledger_is_refused_after_a_fork(address: str) -> None:
    name = str(uuid.uuid4())
    process = run(FORK, address, name)
    process.communicate()
    assert process.returncode == 0
    with opened(address) as ledger:
        texts = recorded(ledger.session(name))
    assert sorted(texts) == sorted(
        [
            ("question", "of the child"),
            ("final", "open or connect it in the child"),
            ("question", "of the parent"),
            ("final", "a"),
        ]
    )


def test_a_turn_that_is_open_at_the_exit_is_continued(address: str) -> None:
    name = str(uuid.uuid4())
    process = run(EXIT, address, name)
    process.communicate()
    assert process.returncode == 0
    with opened(address) as ledger:
        session = ledger.session(name)
        with session.turn("q", request_id="r1") as turn:
            assert not turn.replayed
            turn.finish("a")
        assert recorded(session) == [("question", "q"), ("thought", "t"), ("final", "a")]


def test_two_processes_write_one_session(address: str) -> None:
    name = str(uuid.uuid4())
    processes = [run(WRITE, address, name) for _ in range(2)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    with opened(address) as ledger:
        asked = [turn["question_neutral"] for turn in ledger.session(name).turns()]
    expected = [f"{process.pid} {number}" for process in processes for number in range(25)]
    assert len(asked) == 50 and sorted(filter(None, asked)) == sorted(expected)
