"""The extension module: one connection to a ledger, in this process or on a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers import PATIENCE_S, PROGRAM, wait_until

from filrouge import _native

JSON = [("content-type", "application/json")]
TURNS = "/api/v1/sessions/s/turns"
ITEMS = "/api/v1/sessions/s/items"
STREAM = [("content-type", "text/event-stream")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home folder: nothing of the machine's user is read or written."""
    for name in list(os.environ):
        if name.startswith(("FILROUGE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the program `filrouge`; ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE_S)


@pytest.fixture(params=["embedded", "remote"])
def connection(
    request: pytest.FixtureRequest, tmp_path: Path, program: Callable[..., subprocess.Popen[str]]
) -> Iterator[_native.Connection]:
    """A connection of either origin."""
    if request.param == "embedded":
        opened = _native.Connection.embedded(f"sqlite:{tmp_path}/app.db", {})
    else:
        output = program("serve", "--listen", "127.0.0.1:0").stdout
        assert output is not None
        url = output.readline().removeprefix("listening on ").strip()
        opened = _native.Connection.remote(url, 30.0)
    yield opened
    opened.close()


def record(connection: _native.Connection, request_id: str, **members: object) -> dict[str, Any]:
    body = json.dumps({"request_id": request_id, "question_neutral": "?", **members}).encode()
    response = connection.request("POST", TURNS, JSON, body)
    assert response.status in (200, 201), response.body
    return dict(json.loads(response.body))


def event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def items(connection: _native.Connection) -> list[dict[str, Any]]:
    response = connection.request("GET", ITEMS, [], b"")
    assert response.status == 200, response.body
    return list(json.loads(response.body)["data"])


def test_requests_are_answered(connection: _native.Connection) -> None:
    turn = record(connection, "r1", answer_neutral="!")
    assert turn["status"] == "finalized"
    assert record(connection, "r1", answer_neutral="!")["replayed"]
    assert [item["channel"] for item in items(connection)] == ["question", "final"]
    missing = connection.request("GET", "/api/v1/sessions/none", [], b"")
    assert missing.status == 404
    assert ("content-type", "application/problem+json") in missing.headers
    assert json.loads(missing.body)["code"] == "session_not_found"
    zoe, bob = [("filrouge-identity", "zoé")], [("filrouge-identity", "bob")]
    assert connection.request("POST", "/api/v1/sessions", [*JSON, *zoe], b'{"session_id": "hers"}').status == 201
    assert connection.request("GET", "/api/v1/sessions/hers", zoe, b"").status == 200
    assert connection.request("GET", "/api/v1/sessions/hers", bob, b"").status == 404


def test_ids_are_sent_unchanged(connection: _native.Connection) -> None:
    for session_id in ("..", ".", "a/b", "é"):
        body = json.dumps({"session_id": session_id}).encode()
        assert connection.request("POST", "/api/v1/sessions", JSON, body).status == 201
        target = "/api/v1/sessions/" + "".join(f"%{byte:02X}" for byte in session_id.encode())
        response = connection.request("GET", target, [], b"")
        assert json.loads(response.body)["session_id"] == session_id


def test_what_is_no_request_is_refused(connection: _native.Connection) -> None:
    for method, target, headers in (
        ("GET", "no-path", []),
        ("GET", "/a b", []),
        ("G T", "/", []),
        ("GET", "/", [("a b", "c")]),
        ("GET", "/", [("a", "b\nc")]),
    ):
        with pytest.raises(ValueError):
            connection.request(method, target, headers, b"")


def test_threads_share_a_connection(connection: _native.Connection) -> None:
    threads = [threading.Thread(target=record, args=(connection, f"r{n}")) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(items(connection)) == 20


def test_event_loops_await_requests(connection: _native.Connection) -> None:
    async def ask(n: int) -> int:
        body = json.dumps({"request_id": f"r{n}", "question_neutral": "?"}).encode()
        return (await connection.request_async("POST", TURNS, JSON, body)).status

    async def ask_all() -> list[int]:
        return await asyncio.gather(*(ask(n) for n in range(50)))

    assert asyncio.run(ask_all()) == [201] * 50
    assert len(items(connection)) == 50
    with pytest.raises(RuntimeError, match="no running event loop"):
        connection.request_async("GET", ITEMS, [], b"")


def test_a_cancelled_request_ends(connection: _native.Connection) -> None:
    async def cancel() -> None:
        tail = await asyncio.to_thread(connection.download, "GET", ITEMS, [("accept", "text/event-stream")], b"")
        assert await tail.read_async() == b"retry: 1000\n\n"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(tail.read_async(), 0.05)
        tail.close()

    record(connection, "r1")
    asyncio.run(cancel())


def test_a_stream_is_recorded_piece_by_piece(connection: _native.Connection) -> None:
    turn = record(connection, "r1")["turn_id"]
    upload = connection.upload("POST", f"{TURNS}/{turn}/stream?format=openai-chat", STREAM)
    upload.send(event({"content": "Do"}))
    upload.send(event({"content": "ne"}))
    upload.send(event({}, "stop"))
    upload.send(b"data: [DONE]\n\n")
    response = upload.finish()
    assert response.status == 200, response.body
    assert json.loads(response.body)["answer_neutral"] == "Done"
    for ended in (upload.finish, lambda: upload.send(b"")):
        with pytest.raises(_native.ClosedError):
            ended()
    upload.abort()


@pytest.mark.parametrize("how", ["abort", "drop"])
def test_a_stream_that_is_broken_off_interrupts_its_turn(connection: _native.Connection, how: str) -> None:
    turn = record(connection, "r1")["turn_id"]
    upload = connection.upload("POST", f"{TURNS}/{turn}/stream?format=openai-chat", STREAM)
    upload.send(event({"content": "So f"}))
    if how == "abort":
        upload.abort()
    del upload

    def status() -> str:
        return str(json.loads(connection.request("GET", f"{TURNS}/{turn}", [], b"").body)["status"])

    wait_until(lambda: status() != "open")  # the server learns of it a moment later
    assert status() == "interrupted"
    assert "So f" in json.dumps(items(connection))


def test_a_tail_is_read_while_others_write(connection: _native.Connection) -> None:
    record(connection, "r1")
    tail = connection.download("GET", f"{ITEMS}?after=0", [("accept", "text/event-stream")], b"")
    assert tail.status == 200
    assert ("content-type", "text/event-stream") in tail.headers
    received = tail.read()
    while b'"seq":1' not in received:
        received += tail.read()
    writer = threading.Thread(target=record, args=(connection, "r2"))
    writer.start()
    while b'"seq":2' not in received:
        received += tail.read()
    writer.join()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(tail.read)
        tail.close()
        with pytest.raises(_native.ClosedError):
            reading.result(PATIENCE_S)


def test_a_waiting_thread_handles_signals(connection: _native.Connection) -> None:
    class Alarm(Exception):
        pass

    def raise_alarm(*_: object) -> None:
        raise Alarm

    record(connection, "r1")
    tail = connection.download("GET", ITEMS, [("accept", "text/event-stream")], b"")
    tail.read()
    before = signal.signal(signal.SIGALRM, raise_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(Alarm):
            tail.read()
    finally:
        signal.signal(signal.SIGALRM, before)
        tail.close()


def test_a_closed_connection_is_refused(connection: _native.Connection) -> None:
    turn = record(connection, "r1")["turn_id"]
    connection.close()
    connection.close()
    for use in (
        lambda: connection.request("GET", ITEMS, [], b""),
        lambda: connection.upload("POST", f"{TURNS}/{turn}/stream", []),
        lambda: connection.download("GET", ITEMS, [], b""),
    ):
        with pytest.raises(_native.ClosedError):
            use()


def test_a_forked_process_opens_its_own(connection: _native.Connection, tmp_path: Path) -> None:
    record(connection, "r1")
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            with pytest.raises(_native.ForkError, match="open one in this process"):
                connection.request("GET", ITEMS, [], b"")
            own = _native.Connection.embedded(f"sqlite:{tmp_path}/child.db", {})
            record(own, "c1")
            outcome = 0 if len(items(own)) == 1 else 2
            own.close()
        finally:
            os._exit(outcome)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(items(connection)) == 1


def test_what_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    script = f"""
import os, signal
from filrouge import _native
connection = _native.Connection.embedded("sqlite:{tmp_path}/app.db", {{}})
body = b'{{"request_id": "r1", "question_neutral": "?"}}'
assert connection.request("POST", "{TURNS}", {JSON!r}, body).status == 201
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False, timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    connection = _native.Connection.embedded(f"sqlite:{tmp_path}/app.db", {})
    assert len(items(connection)) == 1
    connection.close()


def test_two_processes_write_to_one_file(tmp_path: Path) -> None:
    connection = _native.Connection.embedded(f"sqlite:{tmp_path}/app.db", {})
    script = f"""
from filrouge import _native
connection = _native.Connection.embedded("sqlite:{tmp_path}/app.db", {{}})
for n in range(20):
    body = b'{{"request_id": "other-%d", "question_neutral": "?"}}' % n
    assert connection.request("POST", "{TURNS}", {JSON!r}, body).status == 201
connection.close()
"""
    other = subprocess.Popen([sys.executable, "-c", script])
    for n in range(20):
        record(connection, f"own-{n}")
    assert other.wait(PATIENCE_S) == 0
    assert len(items(connection)) == 40
    connection.close()


def test_a_ledger_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    for store, settings, code in (
        ("mysql://host", {}, "usage"),
        (f"sqlite:{tmp_path}/a.db", {"owner": "x"}, "usage"),
        (f"sqlite:{tmp_path}/none/a.db/b.db", {}, "store_unavailable"),
    ):
        if code == "store_unavailable":
            (tmp_path / "none").write_text("")
        with pytest.raises(_native.OpenError) as refused:
            _native.Connection.embedded(store, settings)
        assert refused.value.code == code, refused.value
        assert refused.value.detail in str(refused.value)


def test_a_server_that_does_not_answer_is_a_transport_error() -> None:
    connection = _native.Connection.remote("http://127.0.0.1:9", 5.0)
    with pytest.raises(_native.TransportError, match="refused"):
        connection.request("GET", ITEMS, [], b"")
    for url in ("127.0.0.1:9", "ftp://host", "http://ann:pw@host", "http://host/path"):
        with pytest.raises(ValueError):
            _native.Connection.remote(url, 5.0)


def test_the_program_runs(program: Callable[..., subprocess.Popen[str]]) -> None:
    version = program("--version")
    assert version.communicate(timeout=PATIENCE_S)[0] == f"filrouge {_native.version()}\n"
    assert version.returncode == 0
    wrong = program("no-such-command")
    wrong.communicate(timeout=PATIENCE_S)
    assert wrong.returncode == 2


def test_a_value_is_a_difference_to_another_one() -> None:
    base = os.urandom(100_000)
    value = base[:50_000] + b"changed" + base[50_000:]
    for known in (base, b"", value):
        frame = _native.delta(known, value)
        assert _native.undelta(known, frame) == value
    assert len(_native.delta(base, value)) < 1_000
    assert _native.undelta(b"", _native.delta(b"", b"")) == b""
    for known, frame in ((base[1:], _native.delta(base, value)), (b"", b"no frame"), (base, b"")):
        with pytest.raises(ValueError):
            _native.undelta(known, frame)


def test_large_values_are_differences_too() -> None:
    base = os.urandom(5 << 20)
    frame = _native.delta(base, b"x" + base)
    assert len(frame) < 10_000
    assert _native.undelta(base, frame) == b"x" + base
