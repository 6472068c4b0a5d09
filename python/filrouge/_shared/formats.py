"""Items, and the formats in which providers stream their responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from filrouge import types
from filrouge.errors import Invalid

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "ag-ui")
_BY_MODULE = {
    "openai.types.chat": "openai-chat",
    "openai.types.completion": "openai-chat",
    "openai.types.responses": "openai-responses",
    "anthropic.": "anthropic",
    "google.genai.": "gemini",
    "ag_ui.": "ag-ui",
}


def text_item(text: str, channel: str, members: Mapping[str, Any]) -> types.NewItem:
    """A text of the assistant."""
    return _item("assistant", channel, {"type": "text", "text": text}, members)


def call_item(name: str, args: Any, call_id: str, members: Mapping[str, Any]) -> types.NewItem:
    """A tool call."""
    part = {"type": "tool_call", "call_id": call_id, "name": name, "args": args}
    return _item("assistant", "tool_call", part, members)


def result_item(call_id: str, content: Any, ok: bool, members: Mapping[str, Any]) -> types.NewItem:
    """The result of a tool call."""
    part = {"type": "tool_result", "call_id": call_id, "ok": ok, "content": content}
    return _item("tool", "tool_result", part, members)


def _item(role: types.Role, channel: str, part: types.Part, members: Mapping[str, Any]) -> types.NewItem:
    return cast("types.NewItem", {"role": role, "channel": channel, "parts": [part], **members})


def known(format: str | None) -> str:
    """A format; an error without one."""
    if format is None:
        raise Invalid("the format of the stream is not known", hint=f"give `format`: {', '.join(FORMATS)}")
    return format


def format_of(event: Any) -> str | None:
    """The format of an event or a response, by its class or its members.

    >>> format_of({"choices": [], "object": "chat.completion.chunk"}), format_of({"type": "response.created"})
    ('openai-chat', 'openai-responses')
    """
    for kind in type(event).__mro__:
        for module, format in _BY_MODULE.items():
            if f"{kind.__module__}.".startswith(module):
                return format
    return _format_of_members(cast("Mapping[str, Any]", event)) if isinstance(event, Mapping) else None


def _format_of_members(event: Mapping[str, Any]) -> str | None:
    kind = event.get("type")
    if "choices" in event:
        return "openai-chat"
    if "candidates" in event:
        return "gemini"
    if event.get("object") == "response" or (isinstance(kind, str) and kind.startswith("response.")):
        return "openai-responses"
    if kind in ("message_start", "message", "ping", "content_block_start"):
        return "anthropic"
    return "ag-ui" if isinstance(kind, str) and kind.isupper() else None


def text_of(event: Any) -> bytes:
    """An event or a response as the provider's JSON."""
    if isinstance(event, (bytes, bytearray)):
        return bytes(event)
    if isinstance(event, str):
        return event.encode()
    if isinstance(event, Mapping):
        return json.dumps(event, ensure_ascii=False).encode()
    for method, options in (
        ("to_json", {"indent": None}),
        ("model_dump_json", {"by_alias": True, "exclude_none": True}),
    ):
        if hasattr(event, method):
            return str(getattr(event, method)(**options)).encode()
    raise Invalid(f"{type(event).__name__} is no event of a stream", hint="pass bytes, dicts or the provider's events")


def piece_of(event: Any) -> bytes:
    """An event as a piece of a response's body: bytes as they are, all else as a server-sent event.

    >>> piece_of({"type": "ping"})
    b'event: ping\\ndata: {"type": "ping"}\\n\\n'
    """
    if isinstance(event, (bytes, bytearray)):
        return bytes(event)
    text = text_of(event)
    kind = cast("Mapping[str, Any]", event).get("type") if isinstance(event, Mapping) else getattr(event, "type", None)
    head = f"event: {kind}\n".encode() if isinstance(kind, str) else b""
    return head + b"data: " + b"\ndata: ".join(text.split(b"\n")) + b"\n\n"


def last_piece(format: str) -> bytes:
    """What ends a stream of events whose client removes the end."""
    return b"data: [DONE]\n\n" if format == "openai-chat" else b""


def whole(response: Any) -> tuple[bytes, str | None]:
    """A complete response: its body, and its format."""
    return text_of(response), format_of(response)
