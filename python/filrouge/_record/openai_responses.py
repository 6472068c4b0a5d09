"""Requests of OpenAI's Responses."""

from __future__ import annotations

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
    objects,
    raw_part,
    result_part,
    split,
    text_part,
)
from filrouge._record.openai_chat import arguments

_SPEAKERS: dict[Any, Speaker] = {"user": "user", "assistant": "model", "system": "system", "developer": "system"}


def asked(body: Json) -> Asked:
    """What a request says."""
    given = body.get("input")
    entries = [Entry("user", [text_part(given)])] if isinstance(given, str) else []
    entries.extend(entry for item in objects(given) for entry in _entries(item))
    first = next((at for at, entry in enumerate(entries) if entry.speaker != "system"), len(entries))
    notes = [entry.text for entry in entries[:first]]
    instructions = body.get("instructions")
    return Asked(entries[first:], "\n\n".join([instructions, *notes] if isinstance(instructions, str) else notes))


def _entries(item: Json) -> Iterator[Entry]:
    match item:
        case {"type": "function_call" | "custom_tool_call", "name": str(name)}:
            given = item.get("arguments", item.get("input"))
            yield Entry("model", [call_part(item.get("call_id") or "", name, arguments(given))])
        case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(call_id)}:
            output = item.get("output")
            content = list(_parts(output)) if is_list(output) else output
            yield Entry("tool", [result_part(call_id, content)])
        case {"type": "reasoning"}:
            yield Entry("model", [_reasoning(item)])
        case {"role": role, "content": content}:
            yield from split(_SPEAKERS.get(role, "user"), list(_parts(content)))
        case {"type": "item_reference"}:
            return  # what the provider keeps was recorded when it was said
        case {"type": str(kind)} if kind.endswith(("_output", "_response")):
            yield Entry("tool", [result_part(item.get("call_id") or "", [raw_part(item)])])
        case _:
            yield Entry("model", [raw_part(item)])


def _reasoning(item: Json) -> Json:
    summary = list(objects(item.get("summary")))
    texts = [part["text"] for part in summary if isinstance(part.get("text"), str)]
    kept = {name: item[name] for name in ("id", "encrypted_content") if item.get(name)}
    return {"type": "reasoning", "text": "\n\n".join(texts), "provider": "openai", "summary": summary, **kept}


def _parts(content: Any) -> Iterator[Json]:
    if isinstance(content, str):
        yield text_part(content)
    for part in objects(content):
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                yield text_part(text)
            case {"type": "refusal", "refusal": str()}:
                yield part
            case {"type": "input_image", "image_url": str(url)}:
                yield {"type": "image_url", "image_url": {"url": url}}
            case {"type": "input_image", "file_id": str(file_id)}:
                yield {"type": "image_url", "file_id": file_id}
            case {"type": "input_file"}:
                yield file_part(part.get("file_data") or part.get("file_url"), part)
            case _:
                yield raw_part(part)
