"""Requests of Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from filrouge._record.entries import (
    Asked,
    Entry,
    Json,
    Speaker,
    call_part,
    is_list,
    is_object,
    media_part,
    objects,
    raw_part,
    result_part,
    split,
    text_part,
)


def asked(body: Json) -> Asked:
    """What a request says."""
    entries = [entry for message in objects(body.get("messages")) for entry in _entries(message)]
    system = body.get("system")
    texts = [system] if isinstance(system, str) else [str(block.get("text")) for block in objects(system)]
    return Asked(entries, "\n\n".join(texts))


def _entries(message: Json) -> Iterator[Entry]:
    content = message.get("content")
    is_model = message.get("role") == "assistant"
    speaker: Speaker = "model" if is_model else "system" if message.get("role") == "system" else "user"
    parts = [text_part(content)] if isinstance(content, str) else [_part(block) for block in objects(content)]
    for entry in split(speaker, parts):
        own = not is_model and entry.parts[0]["type"] == "tool_result"
        yield Entry("tool", entry.parts) if own else entry


def _part(block: Json) -> Json:  # noqa: PLR0911
    match block:
        case {"type": "text", "text": str(text)}:
            return text_part(text)
        case {"type": "thinking", "thinking": str(text)}:
            signature = {"signature": block["signature"]} if block.get("signature") else {}
            return {"type": "reasoning", "text": text, "provider": "anthropic", **signature}
        case {"type": "redacted_thinking", "data": str(data)}:
            return {"type": "reasoning", "provider": "anthropic", "redacted": data}
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            return call_part(call_id, name, block.get("input"))
        case {"type": "server_tool_use" | "mcp_tool_use", "id": str(call_id), "name": str(name)}:
            return call_part(call_id, name, block.get("input"), call_type=block["type"])
        case {"type": "tool_result", "tool_use_id": str(call_id)}:
            return result_part(call_id, _result(block.get("content")), block.get("is_error") is not True)
        case {"type": str(kind), "tool_use_id": str(call_id)}:
            return {**result_part(call_id, block.get("content")), "result_type": kind}
        case {"type": "image" | "document", "source": source} if is_object(source):
            return _media(block, source)
        case _:
            return raw_part(block)


def _result(content: Any) -> Any:
    return [_part(block) for block in objects(content)] if is_list(content) else content


def _media(block: Json, source: Json) -> Json:
    mime = source.get("media_type") or ("image/*" if block["type"] == "image" else "application/pdf")
    name = {"filename": block["title"]} if block.get("title") else {}
    match source:
        case {"type": "base64", "data": str(data)}:
            return media_part(mime, data=data, **name)
        case {"type": "url", "url": str(url)}:
            return media_part(mime, url=url, **name)
        case {"type": "file", "file_id": str(file_id)}:
            return media_part(mime, file_id=file_id, **name)
        case {"type": "text", "data": str(text)}:
            return text_part(text)
        case _:
            return raw_part(block)
