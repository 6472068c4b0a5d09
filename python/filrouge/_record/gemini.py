"""Requests of Gemini's `generateContent` and `streamGenerateContent`."""

from __future__ import annotations

from collections.abc import Iterator

from filrouge._record.entries import (
    Asked,
    Entry,
    Json,
    Speaker,
    call_part,
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
    contents = body.get("contents")
    messages = [contents] if is_object(contents) else objects(contents)
    entries = [entry for message in messages for entry in _entries(message)]
    system: Json = body.get("systemInstruction") or body.get("system_instruction") or {}
    texts = [str(part["text"]) for part in objects(system.get("parts")) if "text" in part]
    return Asked(entries, "\n\n".join(texts))


def _entries(message: Json) -> Iterator[Entry]:
    speaker: Speaker = "model" if message.get("role") == "model" else "user"
    parts = message.get("parts")
    given = [parts] if is_object(parts) else list(objects(parts))
    others: list[Json] = []
    for part in given:
        response = part.get("functionResponse", part.get("function_response"))
        if is_object(response):
            yield from split(speaker, others)
            others = []
            yield _result(response)
        else:
            others.append(_part(part))
    yield from split(speaker, others)


def _result(response: Json) -> Entry:
    content = response.get("response")
    ok = not (is_object(content) and set(content) == {"error"})
    return Entry("tool", [result_part(response.get("id") or "", content, ok)], response.get("name"))


def _part(part: Json) -> Json:
    signature = part.get("thoughtSignature", part.get("thought_signature"))
    signed = {"provider": "google", "signature": signature} if signature else {}
    match part:
        case {"text": str(text), "thought": True}:
            return {"type": "reasoning", "text": text, "provider": "google", **signed}
        case {"text": str(text)}:
            return {**text_part(text), **signed}
        case {"functionCall": call} | {"function_call": call} if is_object(call):
            return call_part(call.get("id") or "", str(call.get("name")), call.get("args") or {}, **signed)
        case {"inlineData": blob} | {"inline_data": blob} if is_object(blob):
            return media_part(_mime(blob), data=blob.get("data"))
        case {"fileData": file} | {"file_data": file} if is_object(file):
            return media_part(_mime(file), url=file.get("fileUri", file.get("file_uri")))
        case _:
            return raw_part(part)


def _mime(media: Json) -> str:
    return str(media.get("mimeType", media.get("mime_type", "application/octet-stream")))
