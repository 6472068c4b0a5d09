"""What a request to a model says: its messages, as a session records them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from filrouge import types

Speaker = Literal["user", "model", "tool", "system"]
Json = dict[str, Any]
_ITEMS: Mapping[Speaker, tuple[types.Role, str]] = {
    "user": ("user", "observation"),
    "model": ("assistant", "observation"),
    "tool": ("tool", "tool_result"),
    "system": ("system", "system_note"),
}
_CHANNELS = {"tool_call": "tool_call", "reasoning": "thought", "tool_result": "tool_result"}


@dataclass(frozen=True)
class Entry:
    """A message of a request, or one kind of its contents."""

    speaker: Speaker
    parts: Sequence[Json]
    tool: str | None = None
    """The tool of a result that names no call."""

    @property
    def text(self) -> str:
        """Its text."""
        return "\n".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def is_result(self) -> bool:
        """Whether it is the result of a tool of the application."""
        return self.speaker == "tool"

    def keys(self) -> set[str]:
        """What it is compared by; of a call with an id, only this."""
        found = set(keys(self.parts))
        return {key for key in found if key.startswith("call:")} or found

    def item(self) -> types.NewItem:
        """The item that records it inside a turn."""
        role, channel = _ITEMS[self.speaker]
        channel = _CHANNELS.get(self.parts[0]["type"], channel)
        if channel == "tool_result":
            role = "tool"
        return {"role": role, "channel": channel, "parts": list(self.parts)}


@dataclass(frozen=True)
class Asked:
    """A request to a model."""

    entries: Sequence[Entry]
    """The conversation, the oldest message first."""
    instructions: str
    """What stands before the conversation: the system prompt."""


def text_part(text: str) -> Json:
    """A text."""
    return {"type": "text", "text": text}


def call_part(call_id: str, name: str, args: Any, **members: Any) -> Json:
    """A tool call."""
    return {"type": "tool_call", "call_id": call_id, "name": name, "args": args, **members}


def result_part(call_id: str, content: Any, ok: bool = True) -> Json:
    """The result of a tool call."""
    return {"type": "tool_result", "call_id": call_id, "ok": ok, "content": content}


def raw_part(part: Any) -> Json:
    """A part of which filrouge knows nothing, as it was sent."""
    return {"type": "raw_event", "event": json.dumps(part, ensure_ascii=False)}


def media_part(mime: str, **members: Any) -> Json:
    """An image or a file."""
    return {"type": "image_url" if mime.startswith("image/") else "file", "mime": mime, **members}


def file_part(url: Any, file: Json) -> Json:
    """A file in OpenAI's form."""
    members = {"url": url, "file_id": file.get("file_id"), "filename": file.get("filename")}
    return {"type": "file", **{name: value for name, value in members.items() if value}}


def is_object(value: Any) -> TypeGuard[Json]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)


def objects(value: Any) -> Iterator[Json]:
    """The objects of a list; nothing for any other value."""
    if is_list(value):
        yield from filter(is_object, value)


def split(speaker: Speaker, parts: Sequence[Json]) -> Iterator[Entry]:
    """The parts of a message as entries: each call, result and thought on its own, texts that stand together in one."""
    together: list[Json] = []
    for part in parts:
        if part == text_part(""):
            continue
        if part["type"] in _CHANNELS:
            if together:
                yield Entry(speaker, together)
            together = []
            yield Entry(speaker, [part])
        else:
            together.append(part)
    if together:
        yield Entry(speaker, together)


def keys(parts: Sequence[Json]) -> Iterator[str]:
    """What the parts of an item are compared by: texts, and of a call its id, and its name with the arguments."""
    texts: list[str] = []
    for part in parts:
        kind = part.get("type")
        text = part.get("refusal" if kind == "refusal" else "text")
        if kind in ("text", "refusal") and isinstance(text, str) and text.strip():
            texts.append(text)
            yield _digest("text", text.strip())
        elif kind == "tool_call":
            if part.get("call_id"):
                yield f"call:{part['call_id']}"
            yield _digest(f"{part.get('name')}", _canonical(part.get("args")))
    if len(texts) > 1:
        yield _digest("text", "".join(texts).strip())


def _canonical(args: Any) -> str:
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return str(args)
    return json.dumps(args, sort_keys=True)


def _digest(kind: str, text: str) -> str:
    return f"{kind}:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:32]}"
