"""Requests of OpenAI's Chat Completions, and of APIs that are compatible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from filrouge._record.entries import (
    Asked,
    Entry,
    Json,
    Speaker,
    call_part,
    file_part,
    is_list,
    is_object,
    media_part,
    objects,
    raw_part,
    result_part,
    split,
    text_part,
)

_SPEAKERS: dict[Any, Speaker] = {"user": "user", "assistant": "model", "system": "system", "developer": "system"}


def asked(body: Json) -> Asked:
    """What a request says."""
    entries = [entry for message in objects(body.get("messages")) for entry in _entries(message)]
    first = next((at for at, entry in enumerate(entries) if entry.speaker != "system"), len(entries))
    return Asked(entries[first:], "\n\n".join(entry.text for entry in entries[:first]))


def _entries(message: Json) -> Iterator[Entry]:
    role = message.get("role")
    if role in ("tool", "function"):
        name = message.get("name")
        yield Entry("tool", [result_part(message.get("tool_call_id") or "", _result(message.get("content")))], name)
        return
    parts = list(_parts(message.get("content")))
    if reasoning := message.get("reasoning_content"):
        parts.insert(0, {"type": "reasoning", "text": reasoning})
    if refusal := message.get("refusal"):
        parts.append({"type": "refusal", "refusal": refusal})
    calls = list(objects(message.get("tool_calls")))
    if is_object(function := message.get("function_call")):
        calls.append({"function": function})
    parts.extend(_call(call) for call in calls)
    yield from split(_SPEAKERS.get(role, "user"), parts)


def _result(content: Any) -> Any:
    return list(_parts(content)) if is_list(content) else content


def _parts(content: Any) -> Iterator[Json]:
    if isinstance(content, str):
        yield text_part(content)
    for part in objects(content):
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                yield text_part(text)
            case {"type": "refusal", "refusal": str()} | {"type": "image_url"}:
                yield part
            case {"type": "file", "file": file} if is_object(file):
                yield file_part(file.get("file_data"), file)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
                yield media_part(f"audio/{kind}", data=data)
            case _:
                yield raw_part(part)


def _call(call: Json) -> Json:
    function: Json = call.get("function") or call.get("custom") or {}
    given = function.get("arguments", function.get("input", ""))
    return call_part(call.get("id") or "", str(function.get("name")), arguments(given))


def arguments(given: Any) -> Any:
    """The arguments of a call: the object that a text contains, or the text."""
    try:
        found: Any = json.loads(given)
    except (TypeError, ValueError):
        return given
    return found if is_object(found) else given
