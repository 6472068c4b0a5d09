"""Which requests are recorded: those that ask a model for an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from filrouge._record import anthropic, gemini, openai_chat, openai_responses
from filrouge._record.entries import Asked, is_object


@dataclass(frozen=True)
class Wire:
    """A provider's API."""

    format: str
    """The name of its responses' format, as `POST …/stream` has it."""
    asked: Callable[[dict[str, Any]], Asked]


CHAT = Wire("openai-chat", openai_chat.asked)
RESPONSES = Wire("openai-responses", openai_responses.asked)
ANTHROPIC = Wire("anthropic", anthropic.asked)
GEMINI = Wire("gemini", gemini.asked)


def wire_of(method: str, path: str) -> Wire | None:
    """The API of a request by its path; None for a request that is not recorded.

    >>> wire_of("POST", "/v1/chat/completions").format, wire_of("POST", "/v1beta/models/g:generateContent").format
    ('openai-chat', 'gemini')
    >>> wire_of("POST", "/v1/messages/count_tokens"), wire_of("GET", "/v1/responses/resp_1")
    (None, None)
    """
    if method != "POST":
        return None
    path = path.rstrip("/")
    name = path.rpartition("/")[2]
    if path.endswith("/chat/completions"):
        return CHAT
    if name == "responses":
        return RESPONSES
    if name == "messages" or ("/publishers/anthropic/" in path and name.endswith(("rawPredict", "RawPredict"))):
        return ANTHROPIC
    return GEMINI if name.endswith((":generateContent", ":streamGenerateContent")) else None


def read_request(wire: Wire, body: bytes) -> Asked:
    """What a request says. Raises ValueError if its body is no JSON object."""
    found: Any = json.loads(body)
    if not is_object(found):
        raise ValueError("the request to the model is no JSON object")
    return wire.asked(found)
