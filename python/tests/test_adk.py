"""The session service for Google's ADK: what ADK documents of `BaseSessionService`, and what its own services do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

import filrouge

pytest.importorskip("google.adk")

from google.adk.agents import BaseAgent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from filrouge.adk import FilrougeSessionService, StaleSessionError

USER = "ada"


@pytest.fixture
def service(async_ledger: filrouge.AsyncLedger) -> FilrougeSessionService:
    """A service."""
    return FilrougeSessionService(async_ledger)


@pytest.fixture
def app(request: pytest.FixtureRequest) -> str:
    """The name of an app of the test's own, because many tests share a server."""
    name: str = request.node.name
    return name


def event(text: str | None = None, author: str = "user", **members: Any) -> Event:
    """An event."""
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)]) if text is not None else None
    return Event(author=author, invocation_id="i1", content=content, **members)


def delta(**state: Any) -> EventActions:
    """Actions that change state; `__` in a name stands for `:`."""
    return EventActions(state_delta={name.replace("__", ":"): value for name, value in state.items()})


def text_of(event: Event) -> str:
    """The first text of an event."""
    assert event.content is not None
    assert event.content.parts is not None
    return event.content.parts[0].text or ""


async def got(service: BaseSessionService, session: Session, **config: Any) -> Session:
    """The stored session."""
    found = await service.get_session(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        config=GetSessionConfig(**config) if config else None,
    )
    assert found is not None
    return found


async def test_create_and_get(service: FilrougeSessionService, app: str) -> None:
    made = await service.create_session(app_name=app, user_id=USER, state={"a": 1, "temp:x": 2})
    assert (made.app_name, made.user_id, made.state, made.events) == (app, USER, {"a": 1}, [])
    assert made.id
    assert made.last_update_time > 0
    found = await got(service, made)
    assert found.model_dump() == made.model_dump()
    named = await service.create_session(app_name=app, user_id=USER, session_id=" named ")
    assert named.id == "named"
    assert await service.get_session(app_name=app, user_id=USER, session_id="nobody") is None
    assert await service.get_session(app_name=app, user_id="bob", session_id="named") is None
    assert await service.get_session(app_name="other", user_id=USER, session_id="named") is None


async def test_an_id_is_used_once_for_each_user(service: FilrougeSessionService, app: str) -> None:
    await service.create_session(app_name=app, user_id=USER, session_id="s1")
    with pytest.raises(AlreadyExistsError):
        await service.create_session(app_name=app, user_id=USER, session_id="s1")
    other = await service.create_session(app_name=app, user_id="bob", session_id="s1")
    assert other.user_id == "bob"


async def test_events_keep_their_form(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER)
    call = types.FunctionCall(id="c1", name="look", args={"where": "left"})
    response = types.FunctionResponse(id="c1", name="look", response={"seen": ["a wall"]})
    events = [
        event("Where does the red thread lead?"),
        Event(
            author="guide",
            branch="root.guide",
            long_running_tool_ids={"c1"},
            content=types.Content(
                role="model",
                parts=[
                    types.Part(text="Hm.", thought=True, thought_signature=b"\x00\xff"),
                    types.Part(function_call=call),
                ],
            ),
        ),
        Event(author="guide", content=types.Content(role="user", parts=[types.Part(function_response=response)])),
        event(
            "To the exit, which is on the left.",
            "guide",
            custom_metadata={"score": 1.0},
            actions=delta(a=[None, {"b": 1}]),
        ),
        event(None, "guide", error_code="500", error_message="too tired", actions=EventActions(escalate=True)),
    ]
    for one in events:
        await service.append_event(session, one)
    found = await got(service, session)
    assert [one.model_dump() for one in found.events] == [one.model_dump() for one in events]
    assert [one.model_dump() for one in session.events] == [one.model_dump() for one in events]
    assert found.state == session.state == {"a": [None, {"b": 1}]}


async def test_the_scopes_of_state(service: FilrougeSessionService, app: str) -> None:
    state = {"app:color": "red", "user:language": "fr", "step": 1, "temp:draft": "x"}
    first = await service.create_session(app_name=app, user_id=USER, session_id="first", state=state)
    assert first.state == {"app:color": "red", "user:language": "fr", "step": 1}
    second = await service.create_session(app_name=app, user_id=USER, session_id="second")
    other = await service.create_session(app_name=app, user_id="bob", session_id="third")
    assert second.state == {"app:color": "red", "user:language": "fr"}
    assert other.state == {"app:color": "red"}
    actions = delta(app__color="blue", user__language=None, step={"n": 2}, api_token="t", temp__draft="y")
    appended = await service.append_event(first, event("Go.", actions=actions))
    assert "temp:draft" not in appended.actions.state_delta
    assert first.state["temp:draft"] == "y"
    stored = {"app:color": "blue", "user:language": None, "step": {"n": 2}, "api_token": "t"}
    assert (await got(service, first)).state == stored
    assert (await got(service, second)).state == {"app:color": "blue", "user:language": None}
    assert (await got(service, other)).state == {"app:color": "blue"}
    assert await service.get_user_state(app_name=app, user_id=USER) == {"language": None}
    assert await service.get_user_state(app_name=app, user_id="nobody") == {}
    await service.append_event(first, event("Again.", actions=delta(step={"m": 3})))
    assert (await got(service, first)).state["step"] == {"m": 3}


async def test_temporary_state_reaches_no_item(
    service: FilrougeSessionService, app: str, async_ledger: filrouge.AsyncLedger
) -> None:
    session = await service.create_session(app_name=app, user_id=USER, state={"temp:a": "ephemeral-1"})
    await service.append_event(session, event("Go.", actions=delta(temp__b="ephemeral-2")))
    ada = async_ledger.with_identity(USER)
    found = [row["session_id"] async for row in ada.sessions(project_id=app) if row["session_id"].endswith(session.id)]
    exported = (await ada.session(found[0]).export("json")).decode()
    assert "Go." in exported
    assert "ephemeral" not in exported


async def test_partial_events_are_not_recorded(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER)
    await service.append_event(session, event("To the", "guide", partial=True))
    assert session.events == []
    assert (await got(service, session)).events == []


async def test_the_config_of_get(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER)
    for number in range(1, 6):
        await service.append_event(session, event(f"{number}", timestamp=float(number), actions=delta(n=number)))

    async def texts(**config: Any) -> list[str]:
        found = await got(service, session, **config)
        assert found.state == {"n": 5}
        return [text_of(one) for one in found.events]

    assert await texts() == ["1", "2", "3", "4", "5"]
    assert await texts(num_recent_events=2) == ["4", "5"]
    assert await texts(num_recent_events=0) == []
    assert await texts(num_recent_events=9) == ["1", "2", "3", "4", "5"]
    assert await texts(after_timestamp=4.0) == ["4", "5"]
    assert await texts(after_timestamp=2.0, num_recent_events=2) == ["4", "5"]
    assert await texts(after_timestamp=9.0) == []
    recent = await got(service, session, num_recent_events=0)
    await service.append_event(recent, event("6"))


async def test_a_stale_writer_is_refused_and_changes_nothing(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER)
    await service.append_event(session, event("Hello?"))
    one, two = await got(service, session), await got(service, session)
    await service.append_event(one, event("From one.", actions=delta(writer="one")))
    with pytest.raises(StaleSessionError):
        await service.append_event(two, event("From two.", actions=delta(writer="two", app__writer="two")))
    with pytest.raises(StaleSessionError):
        await service.append_event(session, event("An answer.", "guide"))
    found = await got(service, session)
    assert [text_of(one) for one in found.events] == ["Hello?", "From one."]
    assert found.state == {"writer": "one"}
    await service.append_event(found, event("An answer.", "guide"))
    await service.append_event(found, event("After a reload."))
    assert len((await got(service, session)).events) == 4


async def test_a_session_that_was_copied_by_hand(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER)
    await service.append_event(session, event("Hello?"))
    copy = Session(**(await got(service, session)).model_dump())
    await service.append_event(copy, event("Hello.", "guide"))
    old = Session(**session.model_dump())
    with pytest.raises(StaleSessionError):
        await service.append_event(old, event("And now?"))


async def test_list(service: FilrougeSessionService, app: str) -> None:
    assert (await service.list_sessions(app_name=app)).sessions == []
    made = [
        await service.create_session(app_name=app, user_id=user, session_id=name, state={"user:of": user, "n": name})
        for user, name in ((USER, "s1"), (USER, "s2"), ("bob", "s3"))
    ]
    await service.append_event(made[0], event("Hello?"))
    mine = (await service.list_sessions(app_name=app, user_id=USER)).sessions
    assert [session.id for session in mine] == ["s2", "s1"]
    assert [session.events for session in mine] == [[], []]
    assert mine[1].state == {"user:of": USER, "n": "s1"}
    every = (await service.list_sessions(app_name=app)).sessions
    assert sorted(session.id for session in every) == ["s1", "s2", "s3"]
    assert (await service.list_sessions(app_name=app, user_id="nobody")).sessions == []


async def test_delete(service: FilrougeSessionService, app: str) -> None:
    session = await service.create_session(app_name=app, user_id=USER, session_id="s1", state={"user:kept": 1})
    await service.append_event(session, event("Hello?"))
    await service.delete_session(app_name=app, user_id="bob", session_id="s1")
    assert len((await got(service, session)).events) == 1
    await service.delete_session(app_name=app, user_id=USER, session_id="s1")
    await service.delete_session(app_name=app, user_id=USER, session_id="s1")
    assert await service.get_session(app_name=app, user_id=USER, session_id="s1") is None
    assert (await service.list_sessions(app_name=app)).sessions == []
    assert await service.get_user_state(app_name=app, user_id=USER) == {"kept": 1}
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, event("Anybody?"))
    unknown = Session(id="unknown", app_name=app, user_id=USER)
    with pytest.raises(SessionNotFoundError):
        await service.append_event(unknown, event("Anybody?"))


async def test_concurrent_changes_of_the_state_of_an_app_are_all_kept(
    service: FilrougeSessionService, app: str
) -> None:
    sessions = [await service.create_session(app_name=app, user_id=f"u{number}") for number in range(8)]
    await asyncio.gather(
        *[
            service.append_event(session, event("Hi.", actions=EventActions(state_delta={f"app:{session.user_id}": 1})))
            for session in sessions
        ]
    )
    assert (await got(service, sessions[0])).state == {f"app:u{number}": 1 for number in range(8)}


async def test_state_is_complete_after_a_crash_between_an_event_and_its_state(
    service: FilrougeSessionService, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await service.create_session(app_name=app, user_id=USER, state={"n": 0, "kept": True})
    await service.append_event(session, event("One.", actions=delta(n=1)))

    async def crash(*_arguments: Any, **_options: Any) -> None:
        raise filrouge.TransportError("the process died")

    with monkeypatch.context() as patch:
        patch.setattr(filrouge.AsyncSession, "update", crash)
        with pytest.raises(filrouge.TransportError):
            await service.append_event(session, event("Two.", actions=delta(n=2, m=[2])))
    for config in ({"num_recent_events": 0}, {}):
        assert (await got(service, session, **config)).state == {"n": 2, "kept": True, "m": [2]}


async def test_an_invocation_is_a_turn_that_other_readers_understand(
    service: FilrougeSessionService, app: str, async_ledger: filrouge.AsyncLedger
) -> None:
    class Guide(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            asked = ctx.session.events[-1].content.parts[0].text
            yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=delta(temp__x=1, asked=asked))
            text = f"You asked {asked!r}."
            yield Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                content=types.Content(role="model", parts=[types.Part(text=text)]),
            )

    runner = Runner(app_name="run", agent=Guide(name="guide"), session_service=service)
    session = await service.create_session(app_name="run", user_id=app)
    for text in ("Which way?", "And then?"):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id=app, session_id=session.id, new_message=message):
            pass
    found = await got(service, session)
    assert found.state == {"asked": "And then?"}
    assert [one.author for one in found.events] == ["user", "guide", "guide"] * 2
    filed = next(
        iter([row async for row in async_ledger.with_identity(app).sessions(project_id="run", status="active")])
    )
    turns = [turn async for turn in async_ledger.with_identity(app).session(filed["session_id"]).turns()]
    assert [turn["answer_neutral"] for turn in turns] == ["You asked 'Which way?'.", "You asked 'And then?'."]


WRITER = """
import asyncio, sys, filrouge
from google.adk.events import Event
from filrouge.adk import FilrougeSessionService, StaleSessionError

async def main(path, name):
    async with filrouge.open_async(path) as ledger:
        service = FilrougeSessionService(ledger)
        written = 0
        while written < 15:
            session = await service.get_session(app_name="shared", user_id="ada", session_id="s1")
            try:
                await service.append_event(session, Event(author="user", message=f"{name} {written}"))
            except StaleSessionError:
                continue
            written += 1

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_that_reload_when_stale_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with filrouge.open_async(path) as ledger:
        session = await FilrougeSessionService(ledger).create_session(app_name="shared", user_id="ada", session_id="s1")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "ab"]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    async with filrouge.open_async(path) as ledger:
        found = await got(FilrougeSessionService(ledger), session)
    texts = [text_of(one) for one in found.events]
    assert sorted(texts) == sorted(f"{name} {number}" for name in "ab" for number in range(15))
