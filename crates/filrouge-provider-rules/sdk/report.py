"""The content that an SDK has read from an answer, in the same form for all SDKs."""

import json

import anthropic
import httpx2
import openai
from google import genai

BROKEN = (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.TransportError)
TOLD = (openai.APIError, anthropic.APIError, genai.errors.APIError)
UNREADABLE = (json.JSONDecodeError, genai.errors.UnknownApiResponseError)


class StreamReport:
    """The content that an SDK has read so far."""

    def __init__(self):
        self.texts, self.refusals, self.thoughts, self.calls, self.others = {}, {}, {}, {}, {}
        # For a response with several answers: the finish reason of each, or None while it is unknown.
        self.finishes = {}
        self.finish = self.usage = self.model = self.counts = self.error = None

    def thought(self, key):
        return self.thoughts.setdefault(key, {"text": "", "signature": None, "sealed": None})

    def call(self, key):
        return self.calls.setdefault(key, {"id": None, "name": "", "arguments": "", "signature": None})

    def ordered(self, pieces):
        return [piece for _, piece in sorted(pieces.items(), key=lambda item: item[0])]

    def as_json(self):
        return {
            "text": whole("".join(self.ordered(self.texts))),
            "refusal": whole("".join(self.ordered(self.refusals))),
            "thoughts": [
                {"text": whole(each["text"]), "signature": each["signature"], "sealed": each["sealed"]}
                for each in self.ordered(self.thoughts)
            ],
            "calls": self.ordered(self.calls),
            "others": {index: whole(text) for index, text in self.others.items()},
            "finish": self.finish,
            "usage": self.usage,
            "counts": self.counts,
            "model": self.model,
            "error": self.error,
        }


def whole(text):
    """Joins the halves of characters that arrived in two escapes; a single half becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def add(pieces, key, text):
    pieces[key] = pieces.get(key, "") + (text or "")


def dumped(value):
    return value.model_dump(mode="json", exclude_unset=True, by_alias=True)


def described(error):
    """Converts an exception to JSON. An exception that no answer can cause is a bug in this script, and ends it."""
    if isinstance(error, BROKEN):
        kind = "broken"
    elif isinstance(error, UNREADABLE):
        kind = "unreadable"
    elif isinstance(error, TOLD):
        kind = "report"
    else:
        raise error
    body = getattr(error, "body", None) or getattr(error, "details", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    members = inner if isinstance(inner, dict) else {}
    codes = [getattr(error, name, None) for name in ("status", "code", "type")]
    return failed(kind, type(error).__name__, codes, members.get("message"), inner)


def failed(kind, name, codes, message, body):
    codes = [str(code) for code in codes if code is not None]
    return {"kind": kind, "class": name, "codes": codes, "message": message, "body": body}
