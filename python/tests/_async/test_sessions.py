"""Everything that a session and a ledger can be asked."""

from __future__ import annotations

import json
import uuid

import pytest

from filrouge import AsyncLedger, Conflict, Gone, Invalid, NotFound
from filrouge.errors import from_problem


async def test_the_first_turn_creates_a_session_with_its_members(async_ledger: AsyncLedger) -> None:
    parent = await async_ledger.session().create()
    session = async_ledger.session(
        "été/" + str(uuid.uuid4()),
        title="A trip",
        project_id="travel",
        parent_session_id=parent["session_id"],
        metadata={"budget": 900},
    )
    with pytest.raises(NotFound):
        await session.get()
    await session.record_turn("Far?", "A while.")
    found = await session.get()
    assert (found["title"], found["project_id"], found["metadata"]) == ("A trip", "travel", {"budget": 900})
    assert session.durability == "flushed"
    assert (await session.lineage())["parents"][0]["session_id"] == parent["session_id"]
    children = async_ledger.sessions(parent_session_id=parent["session_id"])
    assert [row["session_id"] async for row in children] == [session.session_id]


async def test_a_session_is_changed_and_closed(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.create()
    changed = await session.update(title="Knossos", state="BOOKING", metadata={"nights": 3})
    assert (changed["title"], changed["state"], changed["metadata"]) == ("Knossos", "BOOKING", {"nights": 3})
    with pytest.raises(Conflict) as conflict:
        await session.update(title="Other", if_match='"old"')
    assert conflict.value.status == 412
    assert (await session.close("booked"))["status"] == "closed"
    with pytest.raises(Conflict):
        await session.record_turn("And the ferry?", "No.")


async def test_a_context_goes_into_the_next_request(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    for number in range(3):
        await session.record_turn(f"q{number}", f"a{number}")
    context = await session.context("openai-chat", last_turns=2)
    assert [message["content"] for message in context["messages"]] == ["q1", "a1", "q2", "a2"]
    assert context["report"]["window"]["cut"] is True
    with pytest.raises(Invalid):
        await session.context("morse")


async def test_checkpoints_and_events(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.record_turn("q", "a")
    assert (await session.checkpoint({"slots": [1]}, label="WAIT"))["seq"] == 2
    assert (await session.latest_checkpoint())["state"] == {"slots": [1]}
    assert [found["seq"] for found in await session.checkpoints()] == [2]
    first = await session.add_event("call_started", {"from": "web"}, key="e1")
    assert await session.add_event("call_started", {"from": "web"}, key="e1") == first
    assert [event["key"] async for event in session.events()] == ["e1"]


async def test_pages_are_read_to_their_end(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    for number in range(7):
        await session.record_turn(f"q{number}", f"a{number}", request_id=f"r{number}")
    assert [row["ordinal"] async for row in session.turns(limit=2)] == [1, 2, 3, 4, 5, 6, 7]
    assert [item["seq"] async for item in session.items(after=3, limit=2)] == list(range(4, 15))
    assert [row["ordinal"] for row in await session.last_turns(2)] == [6, 7]
    assert [row["ordinal"] async for row in session.turns(request_id="r3")] == [4]


async def test_a_turn_is_replaced_and_redacted(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    turn = await session.record_turn("Which way?", "Left.")
    assert turn.turn_id is not None
    newer = await session.replace_turn(turn.turn_id, "Which way?", "Right, sorry.")
    assert (newer["ordinal"], newer["record_version"]) == (1, 2)
    assert (await session.redact_turn(newer["turn_id"], "names a person"))["answer_neutral"] is None


async def test_a_session_is_verified_exported_counted_and_erased(async_ledger: AsyncLedger) -> None:
    session = async_ledger.session()
    await session.record_turn("Which way?", "Left.")
    assert (await session.verify())["status"] == "intact"
    assert b"Which way?" in await session.export("md")
    assert json.loads(await session.export())["session"]["session_id"] == session.session_id
    assert (await session.stats())["own"]["turns"] == 1
    assert (await session.erase())["turns"] == 1
    with pytest.raises(Gone):
        await session.get()


async def test_an_identity_sees_its_own_sessions(async_ledger: AsyncLedger) -> None:
    name = str(uuid.uuid4())
    ada, bob = async_ledger.with_identity(f"ada-{name}"), async_ledger.with_identity(f"bob-{name}")
    session = ada.session()
    await session.record_turn("Mine?", "Yours.")
    with pytest.raises(NotFound):
        await bob.session(session.session_id).get()
    assert [row["session_id"] async for row in ada.sessions()] == [session.session_id]
    assert [row["question_neutral"] async for row in ada.turns(f"ada-{name}")] == ["Mine?"]
    open_to_all = async_ledger.session()
    await open_to_all.create()
    assert (await ada.session(open_to_all.session_id).link(f"ada-{name}"))["identity_id"] == f"ada-{name}"


async def test_the_ledger_is_searched_and_followed(async_ledger: AsyncLedger) -> None:
    word = "w" + uuid.uuid4().hex
    session = async_ledger.session()
    await session.record_turn(f"Where is {word}?", "Here.")
    found = await async_ledger.search(word)
    assert [hit["session_id"] for hit in found["data"]] == [session.session_id]
    page = await async_ledger.changes(limit=500)
    assert page["next_cursor"]
    assert (await async_ledger.info())["name"] == "filrouge"
    assert await async_ledger.request("GET", "/healthz") == {"status": "ok"}
    with pytest.raises(NotFound) as missing:
        await async_ledger.request("GET", "/api/v1/nowhere")
    assert missing.value.code == "route_not_found"


def test_every_code_has_the_class_of_its_status() -> None:
    for status, code in [(404, "turn_not_found"), (409, "final_exists"), (410, "session_erased"), (422, "invalid")]:
        error = from_problem({"status": status, "code": code, "title": "t", "detail": "d", "hint": None})
        assert type(error).__name__ in ("NotFound", "Conflict", "Gone", "Invalid")
        assert (error.code, error.status, error.retryable) == (code, status, False)
