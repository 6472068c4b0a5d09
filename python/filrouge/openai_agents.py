"""Keeps the history of agents of the OpenAI Agents SDK (`pip install filrouge[openai-agents]`).

>>> import asyncio, filrouge
>>> from filrouge.openai_agents import FilrougeSession
>>> async def main():
...     with filrouge.open("app.db") as ledger:
...         session = FilrougeSession("conversation-1", ledger)
...         await session.add_items([{"role": "user", "content": "Which way?"}])
...         await session.add_items([{"role": "assistant", "content": "To the left."}])
...         return await session.get_items()
>>> asyncio.run(main())
[{'role': 'user', 'content': 'Which way?'}, {'role': 'assistant', 'content': 'To the left.'}]
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agents import SessionSettings
from agents.memory import SessionABC
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from filrouge._async.history import AsyncHistory
from filrouge._both import for_asyncio
from filrouge._shared.messages import FINAL, QUESTION, Message

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory.session import _CompactionSnapshot  # pyright: ignore[reportPrivateUsage]

    from filrouge import AsyncLedger, AsyncSession, Ledger

__all__ = ["FilrougeSession"]

KIND = "openai_agents"
T = TypeVar("T")


class FilrougeSession(SessionABC):
    """A session of the OpenAI Agents SDK. Pass it to `Runner.run(…, session=…)`.

    `ledger` is what `filrouge.open`, `connect` or their asyncio forms return. Several processes may use one session.
    `pop_item` and `clear_session` hide items; they stay in the ledger until they are erased.
    """

    def __init__(
        self,
        session_id: str,
        ledger: Ledger | AsyncLedger,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        )
        self._history = AsyncHistory(for_asyncio(ledger).session(session_id), KIND)

    @property
    def session(self) -> AsyncSession:
        """The session in the ledger, for its turns, context, lease, export and erasure."""
        return self._history.session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, the oldest of them first; without a limit here and in the settings, all."""
        limit = resolve_session_limit(limit, self.session_settings)
        return await self._history.read(None if limit is not None and limit < 0 else limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items, all or none, exactly as they are."""
        messages = [message_of(cast("Mapping[str, Any]", item)) for item in items]
        await _settled(self._history.add(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Hides the newest item, and returns it."""
        _, item = await _settled(self._history.pop())
        return cast("TResponseInputItem | None", item)

    async def clear_session(self) -> None:
        """Hides all items."""
        await _settled(self._history.clear())

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> _CompactionSnapshot | None:
        """What the SDK's compaction replaces at once: the newest items, unless others were added in the meantime.

        The items before them that `prune_prefix` selects are hidden too, as far as they were read here."""
        from agents.memory.session import _CompactionSnapshot  # noqa: PLC0415  # pyright: ignore[reportPrivateUsage]

        newest = await self._history.newest(limit + 1)
        stored = newest.found[limit - 1 :: -1] if limit else []

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            if not stored[start:]:
                return False
            before = itertools.takewhile(
                lambda one: prune_prefix is not None and prune_prefix(one.original), stored[:start]
            )
            messages = [message_of(cast("Mapping[str, Any]", item)) for item in output]
            hidden = [*before, *stored[start:]]
            return await _settled(self._history.replace(hidden, messages, newest.last_seq))

        return _CompactionSnapshot([one.original for one in stored], len(newest.found) <= limit, replace_suffix)


async def _settled(write: Coroutine[Any, Any, T]) -> T:
    """Awaits a write to its end even if the caller is cancelled, as the SDK expects; then raises the cancellation."""
    task = asyncio.ensure_future(write)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        await asyncio.gather(task, return_exceptions=True)  # the caller is told of the cancellation alone
        raise cancelled
    return task.result()


def message_of(item: Mapping[str, Any]) -> Message:
    """An item of the SDK, with the parts that filrouge reads: for search, pages, and other providers' contexts."""
    kind = item.get("type", "message")
    if kind == "message":
        return _text_message(item)
    if kind == "function_call":
        call = {"call_id": item.get("call_id"), "name": item.get("name"), "args": item.get("arguments")}
        return Message(item, "assistant", "tool_call", [{"type": "tool_call", **call}])
    if kind == "function_call_output":
        output = item.get("output")
        content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        result = {"call_id": item.get("call_id"), "ok": True, "content": content}
        return Message(item, "tool", "tool_result", [{"type": "tool_result", **result}])
    if kind == "reasoning":
        members = {name: item[name] for name in ("id", "summary", "encrypted_content") if item.get(name)}
        return Message(item, "assistant", "thought", [{"type": "reasoning", "provider": "openai", **members}])
    return Message(item, "assistant", KIND)


def _text_message(item: Mapping[str, Any]) -> Message:
    content = item.get("content")
    pieces: list[Any] = [{"text": content}] if isinstance(content, str) else content or []
    parts = [part for piece in pieces if isinstance(piece, dict) for part in _part(cast("dict[str, Any]", piece))]
    role = item.get("role")
    if role == "user":
        return Message(item, "user", QUESTION, parts)
    if role == "assistant":
        return Message(item, "assistant", FINAL if parts else KIND, parts)
    return Message(item, "system", "system_note", parts)


def _part(piece: dict[str, Any]) -> list[dict[str, Any]]:
    """A piece of content as a part; none if filrouge has no such part."""
    kind = piece.get("type", "text")
    if isinstance(piece.get("text"), str):
        return [{"type": "text", "text": piece["text"]}]
    if kind == "refusal" and isinstance(piece.get("refusal"), str):
        return [{"type": "refusal", "refusal": piece["refusal"]}]
    if kind == "input_image":
        url, file_id = piece.get("image_url"), piece.get("file_id")
        return [{"type": "image_url", **({"image_url": {"url": url}} if url else {"file_id": file_id})}]
    if kind == "input_file":
        names = {"file_url": "url", "file_data": "data", "file_id": "file_id", "filename": "filename"}
        return [{"type": "file", **{names[name]: piece[name] for name in names if piece.get(name)}}]
    return []
