"""One session: its turns, items, context, checkpoints, events and lease."""

from __future__ import annotations

from collections.abc import Iterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from filrouge import types
from filrouge._sync.lease import Lease
from filrouge._sync.tail import Tail
from filrouge._sync.transport import Transport
from filrouge._sync.turn import Turn
from filrouge._sync.writer import Writer
from filrouge._shared import buffered
from filrouge._shared.keys import keyed, new_key
from filrouge._shared.options import TurnOptions, lease_body, turn_body
from filrouge._shared.wire import Query, Request, TurnKey, encode, given, path, with_query

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Session:
    """One conversation. Get it from `Ledger.session`.

    >>> session = ledger.session("trip", title="A trip to Knossos")
    >>> turn = session.record_turn("Is it far?", "A while.")
    >>> turn.answer
    'A while.'
    >>> for item in session.items():
    ...     print(item["seq"], item["role"], item["parts"][0]["text"])
    1 user Is it far?
    2 assistant A while.
    """

    def __init__(self, transport: Transport, session_id: str, **create: Any) -> None:
        self.session_id = session_id
        self._transport = transport
        self._writer = Writer(transport, session_id, given(**create))

    @property
    def durability(self) -> str | None:
        """What the newest write by this object survives: `flushed`, …, or `buffered-on-client` in an outage."""
        return self._writer.durability

    @property
    def fence(self) -> int | None:
        """The number that writes send while this object holds the session's lease."""
        return self._writer.fence

    def turn(
        self,
        question: str | None = None,
        *,
        request_id: str | None = None,
        items: Iterable[types.NewItem] = (),
        on_busy: Literal["wait", "reject"] | None = None,
        wait: float | None = None,
        **options: Unpack[TurnOptions],
    ) -> Turn:
        """A turn, to be used in a `with` statement, which starts and ends it.

        Give the `request_id` that you have for the question, such as the id of the message that asks it: if it was
        answered before, `turn.replayed` is True and `turn.answer` has the answer. If another process works on it,
        `on_busy="wait"` waits for its answer for `wait` seconds, and `"reject"` raises `TurnBusy`.

        >>> with session.turn("Which way?", request_id="m1") as turn:
        ...     if not turn.replayed:
        ...         call = turn.add_tool_call("look", {"where": "left"})
        ...         turn.add_tool_result(call, "a wall")
        ...         turn.finish("To the right.")
        >>> turn.status, turn.answer
        ('finalized', 'To the right.')
        """
        request_id = request_id or new_key()
        body = turn_body(question, request_id, keyed(items), options)
        query: Query = {"on_busy": on_busy, "wait": None if wait is None else round(wait * 1000)}
        return Turn(self._transport, self._writer, TurnKey(self.session_id, request_id, encode(body)), query)

    def record_turn(
        self,
        question: str | None = None,
        answer: str | None = None,
        *,
        request_id: str | None = None,
        items: Iterable[types.NewItem] = (),
        **options: Unpack[TurnOptions],
    ) -> Turn:
        """Records a turn in one call. With an answer, or an item of channel `final`, it is finalized."""
        request_id = request_id or new_key()
        body = turn_body(question, request_id, keyed(items), options, answer)
        turn = Turn(self._transport, self._writer, TurnKey(self.session_id, request_id, encode(body)), {})
        turn.start()
        return turn

    def create(self) -> types.Session:
        """Creates the session now. Returns it, also if it exists already."""
        return self._writer.create()

    def get(self) -> types.Session:
        """The session."""
        found: types.Session = self._get()
        return found

    def turns(
        self,
        *,
        status: types.TurnStatus | None = None,
        request_id: str | None = None,
        include_redacted: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[types.Turn]:
        """All turns, the oldest first. `limit` is the size of a page."""
        query = {"status": status, "request_id": request_id, "include_redacted": include_redacted, "limit": limit}
        for row in pages(self._transport, path(self.session_id, "turns"), query):
            yield row

    def get_turn(self, turn_id: str) -> types.Turn:
        """One turn."""
        found: types.Turn = self._get("turns", turn_id)
        return found

    def last_turns(self, count: int, status: types.TurnStatus = "finalized") -> list[types.Turn]:
        """The newest turns with a status, the oldest of them first."""
        page: types.TurnPage = self._get("turns", query={"status": status, "limit": count})
        return page["data"]

    def items(self, after: int = 0, *, limit: int | None = None) -> Iterator[types.Item]:
        """All items after a seq. `limit` is the size of a page."""
        for row in pages(self._transport, path(self.session_id, "items"), {"after": after, "limit": limit}):
            yield row

    def newest_items(self, limit: int = 50, *, before: int | None = None) -> list[types.Item]:
        """The newest items, or the newest before a seq; the newest of them first."""
        page: types.ItemPage = self._get("items", query={"order": "desc", "before": before, "limit": limit})
        return page["data"]

    def tail(self, after: int | None = None, *, drafts: bool = True) -> Tail:
        """Items and drafts as they are written, without an end; by default from now on."""
        return Tail(self._transport, path(self.session_id, "items"), after, drafts)

    def context(
        self,
        format: str = "openai-chat",
        *,
        variant: types.Variant | None = None,
        last_turns: int | None = None,
        max_tokens: int | None = None,
        unanswered: str | None = None,
    ) -> types.Context:
        """The session as `messages` of the next request to a model, and a `report` of what they leave out.

        `format`: openai-chat, openai-responses, anthropic, gemini or pairs."""
        query: Query = {
            "format": format,
            "variant": variant,
            "last_turns": last_turns,
            "max_tokens": max_tokens,
            "unanswered": unanswered,
        }
        found: types.Context = self._get("context", query=query)
        return found

    def checkpoint(
        self, state: Mapping[str, Any], *, label: str | None = None, seq: int | None = None, release: bool = False
    ) -> types.Checkpoint:
        """Saves application state that covers all items up to `seq`, by default the newest."""
        body = given(state=state, label=label, seq=seq, release=release or None)
        written = self._writer.write("PUT", body, "checkpoints")
        saved: types.Checkpoint = written or buffered.checkpoint(body)
        return saved

    def checkpoints(self) -> list[types.ListedCheckpoint]:
        """The kept checkpoints, the newest first."""
        page: types.CheckpointPage = self._get("checkpoints")
        return page["data"]

    def latest_checkpoint(self) -> types.Checkpoint:
        """The newest readable checkpoint."""
        found: types.Checkpoint = self._get("checkpoints", "latest")
        return found

    def lease(self, holder: str | None = None, *, ttl: float = 30.0, wait: float | None = None) -> Lease:
        """The exclusive right to write, to be used in a `with` statement. It is renewed until the end of the block.

        Writes by this object then send the lease's fence. `ttl` and `wait` are seconds.

        >>> with session.lease("worker-1") as lease:
        ...     turn = session.record_turn("Which way?", "Left.", request_id="under-lease")
        >>> lease.fence, session.fence
        (1, None)
        """
        body = lease_body(holder, ttl, wait)
        return Lease(self._transport, self._writer, self.session_id, "lease", body)

    def resume(
        self,
        holder: str | None = None,
        *,
        create: bool = False,
        known_seq: int | None = None,
        known_fence: int | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
    ) -> Lease:
        """Like `lease`; `resumed` of the lease has the newest checkpoint and the items after it."""
        body = lease_body(holder, ttl, wait)
        body.update(given(create=create or None, known_seq=known_seq, known_fence=known_fence))
        return Lease(self._transport, self._writer, self.session_id, "resume", body)

    def update(self, *, if_match: str | None = None, **members: Any) -> types.Session:
        """Changes `title`, `status`, `state`, `project_id` or `metadata`, by a merge patch: None removes a member."""
        headers = [("if-match", if_match)] if if_match else []
        written = self._writer.write("PATCH", members, headers=headers)
        changed: types.Session = written or buffered.session(self.session_id, members)
        return changed

    def close(self, reason: str | None = None) -> types.Session:
        """Closes the session: it gets no new turns."""
        written = self._writer.write("POST", given(reason=reason), "close")
        closed: types.Session = written or buffered.session(self.session_id, {"status": "closed"})
        return closed

    def erase(self) -> types.ErasureReceipt:
        """Deletes the session for ever. Returns the result in each store."""
        answer = self._transport.send(Request("DELETE", path(self.session_id)))
        receipt: types.ErasureReceipt = answer.json()
        return receipt

    def redact_turn(self, turn_id: str, reason: str) -> types.Turn:
        """Erases the contents of a closed turn."""
        target = path(self.session_id, "turns", turn_id, "redact")
        request = self._writer.request("POST", {"reason": reason}, target, buffered=False)
        redacted: types.Turn = (self._transport.send(request)).json()
        return redacted

    def replace_turn(
        self, turn_id: str, question: str | None, answer: str, *, request_id: str | None = None, **members: Any
    ) -> types.Turn:
        """Writes a new turn in place of a closed one."""
        body = {"request_id": request_id or new_key(), "answer_neutral": answer, **members}
        body.update(given(question_neutral=question))
        target = path(self.session_id, "turns", turn_id, "replace")
        request = self._writer.request("POST", body, target, buffered=False)
        replaced: types.Turn = (self._writer.send(request)).json()
        return replaced

    def link(self, identity_id: str) -> types.Session:
        """Makes an end user the owner of this anonymous session."""
        target = path(self.session_id, "link")
        request = self._writer.request("PUT", {"identity_id": identity_id}, target, buffered=False)
        linked: types.Session = (self._transport.send(request)).json()
        return linked

    def add_event(
        self, kind: str, detail: Mapping[str, Any] | None = None, *, key: str | None = None, at: str | None = None
    ) -> types.SessionEvent:
        """Records a counted fact, such as `call_started`."""
        body = given(kind=kind, detail=detail, key=key or new_key(), at=at)
        added: types.SessionEvent = self._writer.write("POST", body, "events") or buffered.event(body)
        return added

    def events(self, *, limit: int | None = None) -> Iterator[types.SessionEvent]:
        """All events. `limit` is the size of a page."""
        for row in pages(self._transport, path(self.session_id, "events"), {"limit": limit}):
            yield row

    def export(self, format: str = "json") -> bytes:
        """The session as a document: `json` (a signed bundle), `md` or `html`."""
        target = with_query(path(self.session_id, "export"), {"format": format})
        return (self._transport.send(Request("GET", target))).body

    def verify(self) -> types.VerifyReport:
        """Whether anybody altered the stored session."""
        report: types.VerifyReport = self._get("verify")
        return report

    def lineage(self) -> types.Lineage:
        """Its parents, descendants, siblings and forks."""
        found: types.Lineage = self._get("lineage")
        return found

    def stats(self) -> types.SessionStatistics:
        """Counts of its turns, items and tokens."""
        found: types.SessionStatistics = self._get("stats")
        return found

    def _get(self, *segments: str, query: Query | None = None) -> Any:
        target = with_query(path(self.session_id, *segments), query)
        return (self._transport.send(Request("GET", target))).json()


def pages(transport: Transport, target: str, query: Query) -> Iterator[Any]:
    """The rows of all pages of a list."""
    asked = dict(query)
    while True:
        page = (transport.send(Request("GET", with_query(target, asked)))).json()
        for row in page["data"]:
            yield row
        if page["next_cursor"] is None:
            return
        asked.pop("after", None)  # the cursor has it
        asked["cursor"] = page["next_cursor"]
