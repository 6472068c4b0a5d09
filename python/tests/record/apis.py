"""The providers' own clients, and how a test asks with them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

import anthropic
import httpx2
import openai
from google import genai
from google.genai import types as genai_types

Json = dict[str, Any]
T = TypeVar("T")
LOOP = asyncio.new_event_loop()
"""The event loop of the tests. It keeps running, because clients keep their connections."""
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Does work for asyncio."""
    context = contextvars.copy_context()

    async def begun() -> T:
        return await LOOP.create_task(work, context=context)

    return asyncio.run_coroutine_threadsafe(begun(), LOOP).result()


class Api:
    """One API of a provider, with the client for threads or for asyncio."""

    def __init__(self, format: str, *, is_async: bool) -> None:
        self.format, self.is_async = format, is_async

    def __str__(self) -> str:
        return f"{self.format}-{'async' if self.is_async else 'sync'}"

    def client(self, url: str, **options: Any) -> Any:
        """The provider's client."""
        if self.format == "gemini":
            client = genai.Client(api_key="k", http_options=genai_types.HttpOptions(base_url=url))
            client._api_client._use_aiohttp = lambda: False  # as a client that is recorded
            return client
        if self.format == "anthropic":
            kind = anthropic.AsyncAnthropic if self.is_async else anthropic.Anthropic
            return kind(base_url=url, api_key="k", **{"max_retries": 0, **options})
        openai_kind = openai.AsyncOpenAI if self.is_async else openai.OpenAI
        return openai_kind(base_url=f"{url}/v1", api_key="k", **{"max_retries": 0, **options})

    def call(self, client: Any, given: Any, *, stream: bool, **options: Any) -> Any:
        """Calls the method that asks; `given` is a question, or the list of messages that the API has."""
        model: Json = {"model": "m", **options}
        match self.format:
            case "openai-chat":
                messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
                return client.chat.completions.create(messages=messages, stream=stream, **model)
            case "openai-responses":
                return client.responses.create(input=given, stream=stream, **model)
            case "anthropic":
                messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
                return client.messages.create(messages=messages, max_tokens=64, stream=stream, **model)
            case _:
                models = client.aio.models if self.is_async else client.models
                method = models.generate_content_stream if stream else models.generate_content
                return method(contents=given, **model)

    def events(self, client: Any, given: Any, *, stream: bool, most: int | None = None, **options: Any) -> list[Any]:
        """What the application sees: the events of the response, and the error with which it ends."""
        if self.is_async:
            return in_loop(self.events_async(client, given, stream=stream, most=most, **options))
        seen: list[Any] = []
        try:
            answer = self.call(client, given, stream=stream, **options)
            for event in answer if stream else [answer]:
                seen.append(plain(event))
                if len(seen) == most:
                    break
            if hasattr(answer, "close"):
                answer.close()
        except Exception as error:
            seen.append(told(error))
        return seen

    async def events_async(
        self, client: Any, given: Any, *, stream: bool, most: int | None = None, **options: Any
    ) -> list[Any]:
        """The same with asyncio."""
        seen: list[Any] = []
        try:
            answer = await self.call(client, given, stream=stream, **options)
            async for event in answer if stream else one(answer):
                seen.append(plain(event))
                if len(seen) == most:
                    break
            close = getattr(answer, "close", None) or getattr(answer, "aclose", None)
            if close is not None:
                await close()
        except Exception as error:
            seen.append(told(error))
        return seen


async def one(answer: Any) -> AsyncIterator[Any]:
    """A complete response as a stream of one."""
    yield answer


def plain(event: Any) -> Any:
    """An event without what the client adds, such as headers with the time."""
    dumped = event.model_dump(mode="json", warnings=False)
    dumped.pop("sdk_http_response", None)
    return dumped


def told(error: Exception) -> tuple[str, str]:
    """What an error says."""
    return type(error).__name__, str(error)


APIS = [
    Api(format, is_async=is_async)
    for format in ("openai-chat", "openai-responses", "anthropic", "gemini")
    for is_async in (False, True)
]


def raw_bytes(client: httpx2.Client, url: str, body: Json) -> Iterator[bytes]:
    """The bytes of a response as they are on the wire."""
    with client.stream("POST", url, json=body) as response:
        yield from response.iter_raw()
