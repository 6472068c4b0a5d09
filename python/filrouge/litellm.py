"""Records what LiteLLM asks models, with a callback of LiteLLM."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filrouge._async.exchange import AsyncExchange
from filrouge._async.ledger import AsyncLedger
from filrouge._record import anthropic
from filrouge._record.recorder import AnySession, Recorder
from filrouge._record.wires import CHAT, RESPONSES, Wire
from filrouge._sync.exchange import Exchange
from filrouge._sync.ledger import Ledger

if TYPE_CHECKING:

    class CustomLogger:
        """What LiteLLM calls."""

        def __init__(self, **options: Any) -> None: ...
else:
    from litellm.integrations.custom_logger import CustomLogger

Call = dict[str, Any]
_WIRES = {
    "completion": CHAT,
    "acompletion": CHAT,
    "responses": RESPONSES,
    "aresponses": RESPONSES,
    "anthropic_messages": replace(CHAT, asked=anthropic.asked),  # LiteLLM translates the response
}
_CALLS_MAX = 10_000


class FilrougeLogger(CustomLogger):
    """Records completions, and requests of the Responses and Messages APIs, each when it has ended.

    The session is the `current_session`; else, with a ledger, the one that `metadata={"session_id": …}` of the call
    names; else `session`. `recorder.failures` counts what was not recorded.

    >>> litellm.callbacks = [FilrougeLogger(session)]
    >>> litellm.completion("gpt-4o", [{"role": "user", "content": "Which way?"}], mock_response="To the left.").id != ""
    True
    """

    def __init__(
        self,
        session: AnySession | None = None,
        *,
        ledger: Ledger | AsyncLedger | None = None,
        agent: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.recorder = Recorder(session, agent=agent)
        self._ledger = ledger
        self._lock = threading.Lock()
        self._chosen: OrderedDict[str, AnySession | None] = OrderedDict()

    def log_pre_api_call(self, model: str, messages: Any, kwargs: Call) -> None:
        """Chooses the session. Only this callback runs in the caller's context."""
        with self._lock:
            self._chosen[kwargs["litellm_call_id"]] = self._session_of(kwargs)
            if len(self._chosen) > _CALLS_MAX:
                self._chosen.popitem(last=False)

    def log_success_event(self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Records a request and its response."""
        wire, session = self._found(kwargs)
        if wire is not None and session is not None:
            exchange = self.recorder.exchange_of(wire, session)
            exchange.ask(_asked(kwargs))
            exchange.open(bytes)
            exchange.piece(_body(response_obj))
            exchange.end()

    def log_failure_event(self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Records a request that failed."""
        wire, session = self._found(kwargs)
        if wire is not None and session is not None:
            exchange: Exchange = self.recorder.exchange_of(wire, session)
            exchange.ask(_asked(kwargs))
            exchange.fail(kwargs["exception"])

    async def async_log_success_event(self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """The same for asyncio."""
        wire, session = self._found(kwargs)
        if wire is not None and session is not None:
            exchange = self.recorder.async_exchange_of(wire, session)
            await exchange.ask(_asked(kwargs))
            await exchange.open(bytes)
            await exchange.piece(_body(response_obj))
            await exchange.end()

    async def async_log_failure_event(self, kwargs: Call, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """The same for asyncio."""
        wire, session = self._found(kwargs)
        if wire is not None and session is not None:
            exchange: AsyncExchange = self.recorder.async_exchange_of(wire, session)
            await exchange.ask(_asked(kwargs))
            await exchange.fail(kwargs["exception"])

    def _found(self, kwargs: Call) -> tuple[Wire | None, AnySession | None]:
        wire, call = _WIRES.get(kwargs.get("call_type", "")), kwargs["litellm_call_id"]
        with self._lock:
            chosen = self._chosen.pop(call) if call in self._chosen else self._session_of(kwargs)
        return wire, chosen

    def _session_of(self, kwargs: Call) -> AnySession | None:
        metadata: Call = kwargs.get("litellm_params", {}).get("metadata") or {}
        named = metadata.get("session_id")
        default = self._ledger.session(named) if self._ledger is not None and named else self.recorder.session
        return self.recorder.chosen(default)


def _asked(kwargs: Call) -> bytes:
    """The request, as far as it is recorded."""
    messages = kwargs.get("messages")
    options: Call = kwargs.get("optional_params") or {}
    body = {"messages": messages, "input": messages}
    body.update({name: options[name] for name in ("system", "instructions") if name in options})
    return json.dumps(body, default=_plain).encode()


def _plain(value: Any) -> Any:
    """A message that LiteLLM returned, and that the application sends again."""
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


def _body(response: Any) -> bytes:
    return response.model_dump_json(exclude_none=True).encode() if hasattr(response, "model_dump_json") else b""
