"""Keeps the sessions of Google's Agent Development Kit (`pip install filrouge[adk]`).

>>> import asyncio, filrouge
>>> from google.adk.events import Event
>>> from filrouge.adk import FilrougeSessionService
>>> async def main():
...     async with filrouge.open_async("app.db") as ledger:
...         service = FilrougeSessionService(ledger)
...         session = await service.create_session(app_name="guide", user_id="ada", state={"user:language": "fr"})
...         await service.append_event(session, Event(author="user", message="Which way?"))
...         again = await service.get_session(app_name="guide", user_id="ada", session_id=session.id)
...         return again.events[0].content.parts[0].text, again.state
>>> asyncio.run(main())
('Which way?', {'user:language': 'fr'})
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from pydantic_core import to_jsonable_python

from filrouge._async.history import AsyncHistory
from filrouge._both import for_asyncio
from filrouge._shared.keys import new_key
from filrouge._shared.messages import FINAL, QUESTION, Message
from filrouge.errors import Conflict, Gone, NotFound, SeqConflict

if TYPE_CHECKING:
    from filrouge import AsyncLedger, AsyncSession, Ledger, types

try:
    from google.adk.errors._stale_session_error import StaleSessionError
except ImportError:  # an older ADK
    StaleSessionError = ValueError  # type: ignore[assignment, misc]

__all__ = ["FilrougeSessionService", "StaleSessionError"]

KIND = "adk"
STATE = "@adk"
"""Ends the names of members of metadata with state, so that none looks like the name of a credential or an address."""
VERSION, CREATED, PLACE = "@adk.version", "@adk.created", "@adk.place"
CHANGES_MAX = 500
CLOCKS_DIFFER = timedelta(hours=1)
STALE = "The session has been modified in storage since it was loaded. Please reload the session."


@dataclass(frozen=True)
class Known:
    """What a copy of a session knows of the stored one."""

    seq: int
    version: int
    """The number of changes of its state."""
    turn_id: str = ""
    """The open turn that takes the next events."""

    def text(self) -> str:
        """The form in which ADK's session keeps it."""
        return f"{self.seq}:{self.version}:{self.turn_id}"

    @staticmethod
    def of(session: Session) -> Known | None:
        """What this copy knows; None if this service did not make it."""
        marker: str | None = getattr(session, "_storage_update_marker", None)
        if not marker:
            return None
        seq, version, turn_id = marker.split(":")
        return Known(int(seq), int(version), turn_id)


class FilrougeSessionService(BaseSessionService):
    """A session service of ADK. `ledger` is what `filrouge.open`, `connect` or their asyncio forms return.

    A session belongs to its user, and is one session of the ledger; an event is an item. The states of an app and of a
    user are in sessions of their own. `delete_session` erases the session; its id is not used again.
    """

    def __init__(self, ledger: Ledger | AsyncLedger) -> None:
        self._ledger = for_asyncio(ledger)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Creates a session with its first state."""
        session_id = (session_id or "").strip() or new_key()
        app, user, own = _scopes(state or {})
        created = new_key()
        place = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
        metadata = {**_packed(own), VERSION: 0, CREATED: created, PLACE: place}
        filed = self._session(app_name, user_id, session_id, project_id=app_name, metadata=metadata)
        try:
            row = await filed.create()
        except Conflict:
            row = None
        if row is None or (row["metadata"] or {}).get(CREATED) != created:
            raise AlreadyExistsError(f"Session with id {session_id} already exists.")
        app_state = await self._changed(self._shared(app_name), app_name, app)
        user_state = await self._changed(self._shared(app_name, user_id), app_name, user)
        state = _merged(app_state, user_state, _unpacked(row))
        return _session(row, state, [], Known(row["last_seq"], 0))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session with its events: all, the newest, or those since a time."""
        filed = self._session(app_name, user_id, session_id.strip())
        try:
            row = await filed.get()
        except (NotFound, Gone):
            return None
        if PLACE not in (row["metadata"] or {}):
            return None
        history = AsyncHistory(filed, KIND)
        events, known, state = await self._events(history, row, config or GetSessionConfig())
        app_state = await self._state(self._shared(app_name))
        user_state = await self._state(self._shared(app_name, user_id))
        return _session(row, _merged(app_state, user_state, state), events, known)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of a user, or of all users, with their states and without events; the newest is the last."""
        app_state = await self._state(self._shared(app_name))
        found: list[Session] = []
        for user in [user_id] if user_id is not None else await self._users(app_name):
            user_state = await self._state(self._shared(app_name, user))
            async for row in self._ledger.with_identity(user).sessions(project_id=app_name, order="created"):
                place = (row["metadata"] or {}).get(PLACE, {})
                if (place.get("app_name"), place.get("user_id")) == (app_name, user):
                    state = _merged(app_state, user_state, _unpacked(row))
                    found.append(_session(row, state, [], None))
        found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=found)

    async def _users(self, app_name: str) -> list[str]:
        """The users of an app. No list has the sessions of all users, but the change feed names them."""
        users: dict[str, None] = {}
        after: str | None = None
        while True:
            page = await self._ledger.changes(after, limit=CHANGES_MAX)
            if not page["data"]:
                return list(users)
            after = page["next_cursor"]
            for change in page["data"]:
                app, *rest = change["session_id"].split("/")
                if change["kind"] == "created" and len(rest) == 2 and unquote(app) == app_name:
                    users[unquote(rest[0])] = None

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erases the session. What is gone already is no error."""
        try:
            await self._session(app_name, user_id, session_id.strip()).erase()
        except (NotFound, Gone):
            return

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user in an app, without the prefix `user:`."""
        return await self._state(self._shared(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Records an event, and applies its changes of state.

        Raises `StaleSessionError` if the stored session has events that this copy lacks."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        filed = self._session(session.app_name, session.user_id, session.id)
        known = Known.of(session) or await self._known(AsyncHistory(filed, KIND), session)
        history = AsyncHistory(filed, KIND, known.turn_id)
        app, user, own = _scopes(event.actions.state_delta)
        version = known.version + 1 if own else known.version
        try:
            seq = await history.add([_message(event, version)], expected_seq=known.seq)
        except SeqConflict as error:
            raise StaleSessionError(STALE) from error
        except (NotFound, Gone) as error:
            raise SessionNotFoundError(f"Session {session.id} not found.") from error
        session._storage_update_marker = Known(seq, version, history.turn_id or "").text()  # pyright: ignore[reportPrivateUsage]
        await self._changed(self._shared(session.app_name), session.app_name, app)
        await self._changed(self._shared(session.app_name, session.user_id), session.app_name, user)
        if own:
            await filed.update(metadata={**_packed(own), VERSION: version})
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    async def _known(self, history: AsyncHistory, session: Session) -> Known:
        """What a copy that this service did not make knows: everything, if it ends with the newest event."""
        newest = await history.newest(1)
        if not newest.last_seq and not session.events:
            try:
                await history.session.get()
            except (NotFound, Gone) as error:
                raise SessionNotFoundError(f"Session {session.id} not found.") from error
        last = newest.found[0] if newest.found else None
        if (last.original["id"] if last else None) != (session.events[-1].id if session.events else None):
            raise StaleSessionError(STALE)
        return Known(newest.last_seq, last.metadata.get(VERSION, 0) if last else 0)

    async def _events(
        self, history: AsyncHistory, row: types.Session, config: GetSessionConfig
    ) -> tuple[list[Event], Known, dict[str, Any]]:
        """The events that are asked for, and the session's state.

        The state is in the session's metadata. If a process died between an event and its change of the metadata, the
        change is made here; the events have the numbers of the changes."""
        state, version = _unpacked(row), int((row["metadata"] or {}).get(VERSION, 0))
        after, limit = config.after_timestamp, config.num_recent_events
        since = (datetime.fromtimestamp(after, timezone.utc) - CLOCKS_DIFFER).isoformat() if after else ""

        def wanted(original: dict[str, Any]) -> bool:
            return not after or original["timestamp"] >= after

        newest = await history.newest(max(limit, 1) if limit is not None and not after else limit, wanted, since)
        found = newest.found
        last = found[0] if found and not after else next(iter((await history.newest(1)).found), None)
        newest_version = last.metadata.get(VERSION, 0) if last else 0
        if newest_version > version:
            missing = await history.newest(None, lambda original: bool(original["actions"].get("state_delta")))
            changes: dict[str, Any] = {}
            for stored in reversed(missing.found):
                if stored.metadata.get(VERSION, 0) > version:
                    changes.update(_scopes(stored.original["actions"]["state_delta"])[2])
            state.update(changes)
            await history.session.update(metadata={**_packed(changes), VERSION: newest_version})
        events = [Event.model_validate(stored.original) for stored in reversed(found[:limit])]
        return events, Known(newest.last_seq or row["last_seq"], newest_version), state

    def _session(self, app_name: str, user_id: str, session_id: str, **create: Any) -> AsyncSession:
        place = "/".join(quote(name, safe="") for name in (app_name, user_id, session_id))
        return self._ledger.with_identity(user_id).session(place, **create)

    def _shared(self, app_name: str, user_id: str | None = None) -> AsyncSession:
        """The session that holds the state of an app, or of a user in it."""
        names = [app_name] if user_id is None else [app_name, user_id]
        ledger = self._ledger if user_id is None else self._ledger.with_identity(user_id)
        return ledger.session("/".join(quote(name, safe="") for name in names), project_id=app_name)

    async def _state(self, filed: AsyncSession) -> dict[str, Any]:
        try:
            return _unpacked(await filed.get())
        except NotFound:
            return {}

    async def _changed(self, filed: AsyncSession, app_name: str, delta: Mapping[str, Any]) -> dict[str, Any]:
        """The state after a change, which concurrent changes of other keys survive."""
        if not delta:
            return await self._state(filed)
        try:
            return _unpacked(await filed.update(metadata=_packed(delta)))
        except NotFound:
            await filed.create()
            return _unpacked(await filed.update(metadata=_packed(delta)))


def _scopes(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The state of the app, of the user and of the session, without prefixes. `temp:` is not kept."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in state.items():
        if name.startswith(State.APP_PREFIX):
            app[name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            user[name.removeprefix(State.USER_PREFIX)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            own[name] = value
    return app, user, own


def _packed(state: Mapping[str, Any]) -> dict[str, str]:
    """State as members of metadata. A value is JSON in a string, because a merge removes `null` and merges objects."""
    plain = to_jsonable_python(dict(state), fallback=repr)
    return {f"{name}{STATE}": json.dumps(value) for name, value in plain.items()}


def _unpacked(row: types.Session) -> dict[str, Any]:
    """The state in a session's metadata."""
    members = (row["metadata"] or {}).items()
    return {name.removesuffix(STATE): json.loads(text) for name, text in members if name.endswith(STATE)}


def _merged(app: Mapping[str, Any], user: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a session, with that of its app and its user."""
    return {
        **{f"{State.APP_PREFIX}{name}": value for name, value in app.items()},
        **{f"{State.USER_PREFIX}{name}": value for name, value in user.items()},
        **own,
    }


def _session(row: types.Session, state: dict[str, Any], events: list[Event], known: Known | None) -> Session:
    """The session of ADK."""
    place = (row["metadata"] or {})[PLACE]
    updated = datetime.fromisoformat(row["updated_at"].replace("Z", "+00:00")).timestamp()
    session = Session(
        id=place["session_id"],
        app_name=place["app_name"],
        user_id=place["user_id"],
        state=state,
        events=events,
        last_update_time=events[-1].timestamp if events else updated,
    )
    session._storage_update_marker = known.text() if known else None  # pyright: ignore[reportPrivateUsage]
    return session


def _message(event: Event, version: int) -> Message:
    """An event, with the parts that filrouge reads."""
    original = event.model_dump(mode="json", exclude_none=True)
    parts = [part for piece in (event.content.parts or [] if event.content else []) for part in _part(piece)]
    labels = {"agent": event.author, "metadata": {VERSION: version}}
    kinds = {part["type"] for part in parts}
    if event.author == "user":
        if kinds == {"tool_result"}:
            return Message(original, "tool", "tool_result", parts, labels)
        return Message(original, "user", QUESTION, parts, labels)
    if "tool_result" in kinds:
        return Message(original, "tool", "tool_result", parts, labels)
    if "tool_call" in kinds:
        return Message(original, "assistant", "tool_call", parts, labels)
    is_answer = bool(parts) and event.is_final_response()
    return Message(original, "assistant", FINAL if is_answer else "observation", parts, labels)


def _part(piece: Any) -> list[dict[str, Any]]:
    """A part of an event's content as a part of filrouge; none if filrouge has no such part."""
    if piece.function_call:
        call = piece.function_call
        return [{"type": "tool_call", "call_id": call.id or "", "name": call.name, "args": call.args or {}}]
    if piece.function_response:
        result = piece.function_response
        content = json.dumps(to_jsonable_python(result.response, fallback=repr), ensure_ascii=False)
        return [{"type": "tool_result", "call_id": result.id or "", "ok": True, "content": content}]
    if piece.text:
        return [{"type": "reasoning" if piece.thought else "text", "text": piece.text}]
    return []
