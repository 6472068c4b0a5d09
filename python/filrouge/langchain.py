"""Keeps the messages of LangChain chains (`pip install filrouge[langchain]`).

>>> import filrouge
>>> from filrouge.langchain import FilrougeChatMessageHistory
>>> with filrouge.open("app.db") as ledger:
...     history = FilrougeChatMessageHistory("conversation-1", ledger)
...     history.add_user_message("Which way?")
...     history.add_ai_message("To the left.")
...     print([message.content for message in history.messages])
['Which way?', 'To the left.']
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from filrouge._async.history import AsyncHistory
from filrouge._both import for_asyncio, for_threads
from filrouge._shared.messages import FINAL, QUESTION, Message
from filrouge._sync.history import History

if TYPE_CHECKING:
    from filrouge import AsyncLedger, Ledger, Session

__all__ = ["FilrougeChatMessageHistory"]

KIND = "langchain"

# LangChain declares `messages` as an attribute, and expects a property.
# pyright: reportIncompatibleVariableOverride=false


class FilrougeChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session, for `RunnableWithMessageHistory` and other users of LangChain's histories.

    `ledger` is what `filrouge.open`, `connect` or their asyncio forms return. `limit` is the number of the newest
    messages that are read; by default all are. `clear` hides messages; they stay in the ledger until they are erased.
    """

    def __init__(self, session_id: str, ledger: Ledger | AsyncLedger, *, limit: int | None = None) -> None:
        super().__init__()
        self.session_id, self.limit = session_id, limit
        self._history = History(for_threads(ledger).session(session_id), KIND)
        self._async_history = AsyncHistory(for_asyncio(ledger).session(session_id), KIND)

    @property
    def session(self) -> Session:
        """The session in the ledger, for its turns, context, lease, export and erasure."""
        return self._history.session

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, the oldest first."""
        return messages_from_dict(self._history.read(self.limit))

    @messages.setter
    def messages(self, messages: list[BaseMessage]) -> None:
        """Hides the messages of the session, and adds these."""
        self.clear()
        self.add_messages(messages)

    async def aget_messages(self) -> list[BaseMessage]:
        """The messages, the oldest first."""
        return messages_from_dict(await self._async_history.read(self.limit))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Adds messages: all, or none."""
        self._history.add([message_of(message) for message in messages])

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Adds messages: all, or none."""
        await self._async_history.add([message_of(message) for message in messages])

    def clear(self) -> None:
        """Hides all messages."""
        self._history.clear()

    async def aclear(self) -> None:
        """Hides all messages."""
        await self._async_history.clear()


def message_of(message: BaseMessage) -> Message:
    """A message of LangChain, with the parts that filrouge reads."""
    original = message_to_dict(message)
    parts = _content(message.content)
    if isinstance(message, HumanMessage):
        return Message(original, "user", QUESTION, parts)
    if isinstance(message, AIMessage):
        calls = [_call(cast("dict[str, Any]", call)) for call in message.tool_calls]
        channel = "tool_call" if calls else FINAL if parts else KIND
        return Message(original, "assistant", channel, [*parts, *calls], _labels(message))
    if isinstance(message, ToolMessage):
        content = message.content if isinstance(message.content, str) else json.dumps(message.content)
        ok = message.status != "error"
        result = {"type": "tool_result", "call_id": message.tool_call_id, "ok": ok, "content": content}
        return Message(original, "tool", "tool_result", [result])
    if message.type in ("system", "developer"):
        return Message(original, "system", "system_note", parts)
    return Message(original, "assistant", KIND, parts)


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "call_id": call["id"], "name": call["name"], "args": call["args"]}


def _content(content: str | list[Any]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [{"type": "text", "text": text} for piece in content if isinstance(text := _text(piece), str)]


def _text(piece: Any) -> Any:
    return cast("dict[str, Any]", piece).get("text") if isinstance(piece, dict) else piece


def _labels(message: AIMessage) -> dict[str, Any]:
    model = message.response_metadata.get("model_name") or message.response_metadata.get("model")
    labels = {"model": model if isinstance(model, str) else None, "agent": message.name}
    usage = {"usage": dict(message.usage_metadata)} if message.usage_metadata else {}
    return {**{name: value for name, value in labels.items() if value}, **usage}
