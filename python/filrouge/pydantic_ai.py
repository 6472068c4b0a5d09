"""Keeps the message history of Pydantic AI agents (`pip install filrouge[pydantic-ai]`).

>>> import filrouge
>>> from pydantic_ai import Agent
>>> from pydantic_ai.models.test import TestModel
>>> from filrouge.pydantic_ai import FilrougeMessages
>>> agent = Agent(TestModel(custom_output_text="To the left."))
>>> with filrouge.open("app.db") as ledger:
...     history = FilrougeMessages("conversation-1", ledger)
...     result = agent.run_sync("Which way?", message_history=history.load())
...     history.add(result.new_messages())
...     [message.kind for message in history.load()]
['request', 'response']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse

from filrouge._async.history import AsyncHistory
from filrouge._both import for_asyncio, for_threads
from filrouge._shared.messages import FINAL, QUESTION, Message
from filrouge._sync.history import History

if TYPE_CHECKING:
    from filrouge import AsyncLedger, Ledger, Session

__all__ = ["FilrougeMessages"]

KIND = "pydantic_ai"


class FilrougeMessages:
    """The messages of one session: `load` them before a run, and `add` the new ones after it.

    `ledger` is what `filrouge.open`, `connect` or their asyncio forms return; `aload`, `aadd`, `asave` and `aclear` are
    for asyncio. `clear` hides messages; they stay in the ledger until they are erased.
    """

    def __init__(self, session_id: str, ledger: Ledger | AsyncLedger) -> None:
        self.session_id = session_id
        self._history = History(for_threads(ledger).session(session_id), KIND)
        self._async_history = AsyncHistory(for_asyncio(ledger).session(session_id), KIND)

    @property
    def session(self) -> Session:
        """The session in the ledger, for its turns, context, lease, export and erasure."""
        return self._history.session

    def load(self, limit: int | None = None) -> list[ModelMessage]:
        """The newest messages, the oldest of them first; without a limit, all."""
        return ModelMessagesTypeAdapter.validate_python(self._history.read(limit))

    async def aload(self, limit: int | None = None) -> list[ModelMessage]:
        """The newest messages, the oldest of them first; without a limit, all."""
        return ModelMessagesTypeAdapter.validate_python(await self._async_history.read(limit))

    def add(self, messages: Sequence[ModelMessage]) -> None:
        """Adds the messages of a run, `result.new_messages()`: all, or none."""
        self._history.add(messages_of(messages))

    async def aadd(self, messages: Sequence[ModelMessage]) -> None:
        """Adds the messages of a run, `result.new_messages()`: all, or none."""
        await self._async_history.add(messages_of(messages))

    def save(self, messages: Sequence[ModelMessage]) -> None:
        """Makes the history equal to `result.all_messages()`. Writes only what differs; reads the complete history."""
        new = messages_of(messages)
        kept, hidden = _common(self._history.read(), new)
        if hidden:
            self._history.hide(hidden)
        self._history.add(new[kept:])

    async def asave(self, messages: Sequence[ModelMessage]) -> None:
        """Makes the history equal to `result.all_messages()`. Writes only what differs; reads the complete history."""
        new = messages_of(messages)
        kept, hidden = _common(await self._async_history.read(), new)
        if hidden:
            await self._async_history.hide(hidden)
        await self._async_history.add(new[kept:])

    def clear(self) -> None:
        """Hides all messages."""
        self._history.clear()

    async def aclear(self) -> None:
        """Hides all messages."""
        await self._async_history.clear()


def messages_of(messages: Sequence[ModelMessage]) -> list[Message]:
    """Messages of Pydantic AI, with the parts that filrouge reads."""
    originals = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return [_message(message, original) for message, original in zip(messages, originals, strict=True)]


def _common(stored: Sequence[Any], new: Sequence[Message]) -> tuple[int, int]:
    """How many stored messages stay, and how many at the end are replaced."""
    pairs = zip(stored, new, strict=False)
    kept = next((index for index, (old, message) in enumerate(pairs) if old != message.original), None)
    kept = min(len(stored), len(new)) if kept is None else kept
    return kept, len(stored) - kept


def _message(message: ModelMessage, original: Any) -> Message:
    parts = [part for piece in message.parts for part in _part(piece)]
    if isinstance(message, ModelRequest):
        kinds = {part.part_kind for part in message.parts}
        if "user-prompt" in kinds:
            return Message(original, "user", QUESTION, parts)
        if any(part["type"] == "tool_result" for part in parts):
            return Message(original, "tool", "tool_result", parts)
        return Message(original, "system" if kinds <= {"system-prompt"} else "user", "observation", parts)
    has_calls = any(part["type"] == "tool_call" for part in parts)
    channel = "tool_call" if has_calls else FINAL if any(part["type"] == "text" for part in parts) else KIND
    return Message(original, "assistant", channel, parts, _labels(message))


def _labels(message: ModelResponse) -> dict[str, Any]:
    usage = message.usage
    labels: dict[str, Any] = {"model": message.model_name} if message.model_name else {}
    if usage.input_tokens or usage.output_tokens:
        labels["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return labels


def _part(piece: Any) -> list[dict[str, Any]]:
    """A part of a message as parts of filrouge; none if filrouge has no such part."""
    match piece.part_kind:
        case "text" | "user-prompt" | "system-prompt":
            content = [piece.content] if isinstance(piece.content, str) else piece.content
            return [{"type": "text", "text": text} for text in content if isinstance(text, str)]
        case "thinking" if piece.content:
            return [{"type": "reasoning", "text": piece.content, **_signature(piece)}]
        case "tool-call":
            call = {"call_id": piece.tool_call_id, "name": piece.tool_name, "args": piece.args_as_json_str()}
            return [{"type": "tool_call", **call}]
        case "tool-return":
            return _result(piece, piece.outcome == "success", piece.model_response_str())
        case "retry-prompt" | "retry-feedback":
            text = piece.model_response()
            return (
                _result(piece, False, text) if getattr(piece, "tool_name", None) else [{"type": "text", "text": text}]
            )
        case _:
            return []


def _result(piece: Any, ok: bool, content: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "call_id": piece.tool_call_id, "ok": ok, "content": content}]


def _signature(piece: Any) -> dict[str, str]:
    """The signature of a thought, which only its provider accepts."""
    if piece.signature and piece.provider_name in ("anthropic", "google"):
        return {"provider": piece.provider_name, "signature": piece.signature}
    return {}
