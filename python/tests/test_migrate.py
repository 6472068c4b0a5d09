"""Imports of the stores of Python frameworks: real stores, made by the frameworks."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Any

import postgres
import pytest

import filrouge
from filrouge.migrate._program import main

agents = pytest.importorskip("agents", reason="needs openai-agents")
pytest.importorskip("langchain_community", reason="needs langchain-community")

from langchain_community.chat_message_histories import SQLChatMessageHistory  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402

from filrouge.langchain import FilrougeChatMessageHistory  # noqa: E402
from filrouge.openai_agents import FilrougeSession  # noqa: E402

ITEMS: list[Any] = [
    {"role": "user", "content": "Which way?"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"where":"left"}', "id": "__fake_id__"},
    {"type": "function_call_output", "call_id": "c1", "output": "a wall"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "To the right.", "annotations": []}]},
    {"role": "user", "content": "And then?"},
    {"role": "assistant", "content": "Then left."},
]
MESSAGES = [
    SystemMessage("You are a guide."),
    HumanMessage("Which way?", id="h1"),
    AIMessage("", tool_calls=[{"name": "look", "args": {"where": "left"}, "id": "c1"}]),
    ToolMessage("a wall", tool_call_id="c1"),
    AIMessage("To the right.", response_metadata={"model_name": "m-1"}),
    HumanMessage("And then?"),
]


@pytest.fixture(scope="module")
def postgres_url() -> Generator[str, None, None]:
    """An empty database."""
    with postgres.server() as url:
        yield url


def imported(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The counts of an import."""
    assert main([*arguments, "--json"]) == code
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def openai_store(path: Path, *, items: int = len(ITEMS)) -> str:
    async def add() -> None:
        for name in ("c-1", "c-2"):
            session = agents.SQLiteSession(name, path)
            await session.add_items(ITEMS[:items])
            session.close()

    asyncio.run(add())
    return str(path)


def openai_items(ledger: str, session_id: str) -> Any:
    with filrouge.open(ledger) as opened:
        return asyncio.run(FilrougeSession(session_id, opened).get_items())


def test_sessions_of_openai_agents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, ledger = openai_store(tmp_path / "old.db"), str(tmp_path / "app.db")
    before = (tmp_path / "old.db").read_bytes()
    command = ["openai-agents-sqlite", source, "--store", ledger]
    assert imported(capsys, *command, "--dry-run")["added"] == 12
    counts = imported(capsys, *command)
    assert (counts["conversations"], counts["entries"], counts["added"], counts["skipped"]) == (2, 12, 12, [])
    assert openai_items(ledger, "c-1") == ITEMS and openai_items(ledger, "c-2") == ITEMS
    counts = imported(capsys, *command)
    assert (counts["unchanged"], counts["added"]) == (2, 0)
    assert (tmp_path / "old.db").read_bytes() == before
    with filrouge.open(ledger) as opened:
        turns = list(opened.session("c-1").turns())
        assert [turn["status"] for turn in turns] == ["finalized", "finalized"]
        assert opened.session("c-1").verify()["status"] == "intact"


def test_an_import_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, ledger = tmp_path / "old.db", str(tmp_path / "app.db")
    command = ["openai-agents-sqlite", openai_store(path, items=4), "--store", ledger]
    assert imported(capsys, *command, "--only", "c-1")["added"] == 4
    with sqlite3.connect(path) as file:
        for item in ITEMS[4:]:
            file.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('c-1', ?)", [json.dumps(item)])
    assert imported(capsys, *command, "--dry-run")["added"] == 6
    assert imported(capsys, *command)["added"] == 6
    assert openai_items(ledger, "c-1") == ITEMS and openai_items(ledger, "c-2") == ITEMS[:4]


def test_what_is_not_imported_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, ledger = tmp_path / "old.db", str(tmp_path / "app.db")
    command = ["openai-agents-sqlite", openai_store(path), "--store", ledger, "--identity", "ada", "--prefix", "old:"]
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('c-2', '{torn')")
    with filrouge.open(ledger, identity="ada") as opened:
        asyncio.run(FilrougeSession("old:c-1", opened).add_items(ITEMS[4:]))
    counts = imported(capsys, *command, code=1)
    assert (counts["incomplete"], counts["added"]) == (2, 6)
    differs, torn = counts["skipped"]
    assert differs.startswith("c-1: the ledger has other messages") and torn.startswith("c-2: row 13 is not JSON")
    with filrouge.open(ledger, identity="ada") as opened:
        assert opened.session("old:c-2").get()["identity_id"] == "ada"


def test_errors_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(tmp_path / "app.db")
    for source in (str(tmp_path / "absent.db"), openai_store(tmp_path / "old.db")):
        assert main(["openai-agents-sqlite", source, "--store", ledger, "--table", "nothing"]) == 1
        assert "error: OperationalError" in capsys.readouterr().err
    assert not (tmp_path / "absent.db").exists()
    assert main(["openai-agents-sqlite", str(tmp_path / "old.db"), "--store", ledger, "--only", "c-9"]) == 1
    assert "no conversation c-9" in capsys.readouterr().err
    with pytest.raises(SystemExit) as wrong:
        main(["openai-agents-sqlite", "old.db"])
    assert wrong.value.code == 2


def check_langchain(capsys: pytest.CaptureFixture[str], ledger: str, command: list[str], sessions: list[str]) -> None:
    counts = imported(capsys, *command)
    assert (counts["conversations"], counts["added"]) == (2, 12)
    assert imported(capsys, *command)["unchanged"] == 2
    with filrouge.open(ledger) as opened:
        for name in sessions:
            assert FilrougeChatMessageHistory(name, opened).messages == MESSAGES


def test_tables_of_langchain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, ledger = f"sqlite:///{tmp_path}/history.db", str(tmp_path / "app.db")
    for name in ("c-1", "c-2"):
        SQLChatMessageHistory(name, connection=url).add_messages(MESSAGES)
    check_langchain(capsys, ledger, ["langchain-sql", url, "--store", ledger], ["c-1", "c-2"])
    assert main(["langchain-sql", "sqlite:///absent.db", "--store", ledger]) == 1
    assert not Path("absent.db").exists()


def test_tables_of_langchain_in_postgresql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres_url: str
) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg")
    histories = pytest.importorskip("langchain_postgres", reason="needs langchain-postgres")
    ledger, names = str(tmp_path / "app.db"), [f"{number}0000000-0000-4000-8000-000000000000" for number in (1, 2)]
    with psycopg.connect(postgres_url) as connection:
        histories.PostgresChatMessageHistory.create_tables(connection, "chat_history")
        for name in names:
            histories.PostgresChatMessageHistory("chat_history", name, sync_connection=connection).add_messages(
                MESSAGES
            )
    command = ["langchain-postgres", postgres_url, "--table", "chat_history", "--store", ledger]
    check_langchain(capsys, ledger, command, names)
