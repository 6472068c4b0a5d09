"""Finds the HTTP clients inside the clients of providers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from filrouge._record.recorder import AnySession, OnFailure, Recorder
from filrouge._record.transport import RecordedAsyncTransport, RecordedTransport, wrap
from filrouge.errors import Invalid

C = TypeVar("C")
KNOWN = "the clients of openai, anthropic and google.genai, and those of httpx and httpx2"


def record(
    client: C, session: AnySession | None = None, *, agent: str | None = None, on_failure: OnFailure = "log"
) -> C:
    """Records what a client asks a model, and the responses. Returns the client.

    The client is an `openai.OpenAI`, `anthropic.Anthropic`, their async forms, a `google.genai.Client`, or a client of
    httpx. The application sees the same bytes and errors as before. Each request is a turn of `session`, or of the
    `current_session`. `agent` names who speaks. A failure of the recording is counted and logged; `on_failure="raise"`
    raises it instead."""
    recorder = Recorder(session, agent=agent, on_failure=on_failure)
    found = list(_http_clients(client))
    if not found:
        raise Invalid(f"{type(client).__name__} cannot be recorded", hint=f"known: {KNOWN}")
    for http_client in found:
        wrap(http_client, recorder)
    _record_later_clients(client, recorder)
    return client


def recorder(client: Any) -> Recorder:
    """The recorder of a client, which counts the failures.

    >>> filrouge.recorder(filrouge.record(httpx2.Client(), session)).failures
    0
    """
    for http_client in _http_clients(client):
        transport = http_client._transport
        if isinstance(transport, RecordedTransport | RecordedAsyncTransport):
            return transport.recorder
    raise Invalid(f"this {type(client).__name__} is not recorded", hint="call filrouge.record first")


def _http_clients(client: Any) -> Iterator[Any]:
    """The httpx clients through which a client sends its requests."""
    gemini = getattr(client, "_api_client", None)
    inner = [client, getattr(client, "_client", None)]
    inner += [getattr(gemini, "_httpx_client", None), getattr(gemini, "_async_httpx_client", None)]
    for candidate in inner:
        if hasattr(candidate, "_transport") and hasattr(candidate, "_mounts"):
            yield candidate
            yield from getattr(candidate, "_loop_clients", {}).values()


def _record_later_clients(client: Any, recorder: Recorder) -> None:
    """google.genai makes an httpx client for each event loop, and prefers aiohttp if it is there."""
    gemini = getattr(client, "_api_client", None)
    outer = getattr(gemini, "_async_httpx_client", None)
    if gemini is None or outer is None:
        return
    gemini._use_aiohttp = lambda: False
    make = getattr(outer, "_inner_client_cls", None)
    if make is None:
        return

    def made(**options: Any) -> Any:
        inner = make(**options)
        wrap(inner, recorder)
        return inner

    outer._inner_client_cls = made
