"""One turn: a question and everything that answers it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from filrouge import types
from filrouge._sync.body import Body
from filrouge._sync.recording import Recording
from filrouge._sync.runtime import CANCELLED, sleep, to_the_end
from filrouge._sync.transport import Transport
from filrouge._sync.writer import Writer
from filrouge._shared import buffered, formats
from filrouge._shared.buffered import BUFFERED
from filrouge._shared.keys import code_of, keyed, new_key
from filrouge._shared.wire import Answer, Query, Request, TurnKey, given, path
from filrouge.errors import AnswerMissing, Error, StreamOpen, TurnBusy, TurnClosed

LOG = logging.getLogger("filrouge")
T = TypeVar("T")
MESSAGE_MAX = 8192
CUT_S = 10.0
CUT_PAUSE_S = 0.02
OTHERS = (StreamOpen, TurnBusy, TurnClosed)
"""The errors of a caller whose turn another caller works on."""


class Turn:
    """A turn, to be used in a `with` statement. Get it from `Session.turn`.

    Entering the block records the question. Leaving it normally finalizes the turn, if it has an answer or an item of
    channel `final`; else it fails with `AnswerMissing`. An exception fails the turn, and continues. A cancellation
    or Control-C cancels it.

    >>> with session.turn("Divide by zero?") as turn:
    ...     1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    >>> turn.status
    'failed'
    """

    def __init__(self, transport: Transport, writer: Writer, key: TurnKey, query: Query) -> None:
        self.session_id, self.request_id = key.session_id, key.request_id
        self.data: types.Turn | None = None
        """The turn as the server described it last."""
        self.replayed = False
        """Whether the turn had ended before this object started it."""
        self.durability: str | None = None
        """What the newest write of the turn survives."""
        self._transport, self._writer, self._key, self._query = transport, writer, key, query
        self._recording: Recording[Any] | None = None
        self._keep_open = False

    def __enter__(self) -> Turn:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            to_the_end(self._end)
        else:
            to_the_end(self.end_with, error)

    def _end(self) -> None:
        if self._recording is not None and not self._recording.ended:
            self.end_with(GeneratorExit())  # the caller left its loop early
        if self.status != "open" or self._keep_open:
            return
        try:
            self.finish()
        except AnswerMissing as error:
            self.end_with(error)
            raise

    def end_with(self, error: BaseException) -> None:
        """Ends the turn because of an exception. Raises nothing, so that the exception reaches the caller.

        An exception that says that another caller works on the turn, or has ended it, leaves the turn to it."""
        try:
            if self.status == "open" and isinstance(error, CANCELLED):
                self.cancel()
            elif self.status == "open" and not isinstance(error, OTHERS):
                self.fail(error)
            elif self._recording is not None:
                self._recording.cut()
        except Error as failure:
            text = f"the turn {self.request_id} of {self.session_id} stays open: {failure}"
            LOG.error(text)
            if sys.version_info >= (3, 11):
                error.add_note(text)

    @property
    def turn_id(self) -> str | None:
        """The id that the server gave the turn; None before its start, and in an outage."""
        return self.data["turn_id"] or None if self.data else None

    @property
    def status(self) -> str | None:
        """open, interrupted, finalized, failed or cancelled; None before its start."""
        return self.data["status"] if self.data else None

    @property
    def answer(self) -> str | None:
        """The answer, in the neutral language if there is one; of a replayed turn, the earlier answer."""
        return (self.data["answer_neutral"] or self.data["answer_translated"]) if self.data else None

    def start(self) -> types.Turn:
        """Records the question. The `with` statement calls it."""
        turn = self._kept(self._start_request(self._query), "open")
        self.replayed = turn["replayed"] and turn["status"] != "open"
        return turn

    def add(self, *items: types.NewItem, expected_seq: int | None = None) -> types.AppendedItems:
        """Appends items, all or none. Items without an `item_id` get one."""
        body = given(items=keyed(items), expected_seq=expected_seq)
        answer = self._sent(body, "items")
        self.durability = answer.durability
        if answer.durability == BUFFERED:
            return {"first_seq": None, "last_seq": None}
        added: types.AppendedItems = answer.json()
        return added

    def add_text(self, text: str, channel: str = "thought", **members: Any) -> types.AppendedItems:
        """Appends a text of the assistant, such as a `thought`, `observation` or the answer (`final`)."""
        return self.add(formats.text_item(text, channel, members))

    def add_tool_call(
        self, name: str, args: Mapping[str, Any] | str, *, call_id: str | None = None, **members: Any
    ) -> str:
        """Appends a tool call. Returns its `call_id`."""
        call_id = call_id or new_key()
        self.add(formats.call_item(name, args, call_id, members))
        return call_id

    def add_tool_result(
        self, call_id: str, content: Any, *, ok: bool = True, **members: Any
    ) -> types.AppendedItems:
        """Appends the result of a tool call."""
        return self.add(formats.result_item(call_id, content, ok, members))

    def record(
        self, stream: Iterable[T], format: str | None = None, *, agent: str | None = None, finalize: bool = True
    ) -> Recording[T]:
        """Passes the items of a provider's stream through, and records its response while it arrives.

        `stream` is what the provider's client returns, or the pieces of the response's body. `format` is found from
        the type of the events; give it for bytes. A response with tool calls leaves the turn open for their results,
        and `finalize=False` leaves it open in any case. Whoever leaves the loop early cancels the turn.

        >>> with session.turn("Which way, again?") as turn:
        ...     for event in turn.record(model_answers("To", " the left.")):
        ...         print(event["choices"][0]["delta"]["content"])
        To
         the left.
        >>> turn.answer
        'To the left.'
        """
        self._recording = Recording(self, stream, format, agent, finalize)
        return self._recording

    def record_response(
        self, response: Any, format: str | None = None, *, agent: str | None = None, finalize: bool = True
    ) -> types.Turn:
        """Records a provider's complete response: what its client returns, or the body in bytes."""
        body, found = formats.whole(response)
        request = self._stream_request(formats.known(format or found), agent, finalize)
        return self._kept(replace(request, body=body), "finalized" if finalize else "open")

    def stream_body(self, format: str, agent: str | None, finalize: bool) -> Body:
        """Begins the request that records a stream."""
        body = Body(self._transport, self._stream_request(format, agent, finalize))
        body.begin()
        return body

    def _stream_request(self, format: str, agent: str | None, finalize: bool) -> Request:
        query = {"format": format, "agent": agent, "finalize": None if finalize else False}
        request = self._request("POST", b"", "stream", query)
        headers = [("content-type", "application/octet-stream"), *request.headers[1:]]
        return replace(request, headers=headers, repeatable=False)

    def finish(self, answer: str | None = None, **members: Any) -> types.Turn:
        """Finalizes the turn with the answer, or with its newest item of channel `final`."""
        return self._close(given(answer_neutral=answer, **members), "finalize", "finalized")

    def fail(
        self,
        error: BaseException | str,
        message: str | None = None,
        *,
        retryable: bool | None = None,
        partial_text: str | None = None,
    ) -> types.Turn:
        """Ends the turn with an error: an exception, or a code and a message.

        `partial_text`: what the user has seen."""
        if isinstance(error, str):
            code, again = error, bool(retryable)
        else:
            code, message = code_of(error), str(error) if message is None else message
            again = getattr(error, "retryable", False) is True if retryable is None else retryable
        body = {"error": {"code": code, "message": (message or "")[:MESSAGE_MAX], "retryable": again}}
        return self._close({**body, **given(partial_text=partial_text)}, "fail", "failed")

    def cancel(self, *, partial_text: str | None = None) -> types.Turn:
        """Ends the turn because the user stopped it. `partial_text`: what the user has seen."""
        return self._close(given(partial_text=partial_text), "cancel", "cancelled")

    def keep_open(self) -> None:
        """Leaves the turn open after the block, for example while it waits for a human."""
        self._keep_open = True

    def wait(self, timeout: float = 20.0) -> types.Turn:
        """Waits until the turn ends, at most 60 seconds. Returns it, whatever its status."""
        request = self._request("GET", b"", None, {"wait": round(timeout * 1000) or None})
        return self._kept(Request("GET", request.target), "open")

    def keep(self, answer: Answer, status: types.TurnStatus, **members: Any) -> types.Turn:
        """Keeps the turn of an answer; of a buffered write, what is known here."""
        self.durability = answer.durability
        if answer.durability == BUFFERED:
            self.data = buffered.turn(self.data, self._key, status, members)
        else:
            self.data = answer.json()
        assert self.data is not None
        return self.data

    def _kept(self, request: Request, status: types.TurnStatus, **members: Any) -> types.Turn:
        return self.keep(self._writer.send(request), status, **members)

    def _close(self, body: Mapping[str, Any], verb: str, status: types.TurnStatus) -> types.Turn:
        if self._recording is not None and self._recording.cut():
            self._interrupted()
        return self.keep(self._sent(body, verb), status, **body)

    def _interrupted(self) -> None:
        """Waits until everything that arrived of a stream that was broken off is recorded."""
        end = time.monotonic() + CUT_S
        while (self.wait(0))["status"] == "open" and time.monotonic() < end:
            sleep(CUT_PAUSE_S)

    def _sent(self, body: Mapping[str, Any], verb: str) -> Answer:
        """Sends a write. If the turn was interrupted because nothing was written for a long time, it continues."""
        was_open = self.status in ("open", "interrupted")
        try:
            return self._writer.send(self._request("POST", body, verb))
        except TurnClosed:
            if not was_open or (self._kept(self._start_request({}), "open"))["status"] != "open":
                raise
        return self._writer.send(self._request("POST", body, verb))

    def _start_request(self, query: Query) -> Request:
        return self._writer.request(
            "POST", self._key.start, path(self.session_id, "turns"), turn=self._key, query=query
        )

    def _request(
        self, method: str, body: Mapping[str, Any] | bytes, verb: str | None, query: Query | None = None
    ) -> Request:
        """A request to the turn; if the turn was started in an outage that has ended, it gets its id first."""
        if self.turn_id is None:
            start = self._start_request({})
            if not self._transport.holds(start):
                self.data = (self._writer.send(start)).json() or self.data
        segments = ("turns", self.turn_id, verb) if verb else ("turns", self.turn_id)
        target = path(self.session_id, *segments)
        return self._writer.request(method, body, target, turn=self._key, query=query)
