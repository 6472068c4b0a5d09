"""The session store of the voice design, over a ledger (docs/python-voice.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Generic

from filrouge._sync.call import CallJournal, CallLock, held_journal
from filrouge._sync.ledger import Ledger
from filrouge._sync.session import Session
from filrouge._shared.calls import (
    START,
    CallMessage,
    CheckpointPolicy,
    Codec,
    SessionT,
    label_of,
    newest_seq,
    spoken,
)
from filrouge._shared.keys import new_key
from filrouge.errors import Error, IdempotencyMismatch, Invalid, NotFound, TransportError, Unavailable

LOG = logging.getLogger("filrouge")


class VoiceSessionStore(Generic[SessionT]):
    """The design's functions by their names, and `call`, which handles one webhook.

    `ledgers`: a ledger for each `tenant_id`, or one ledger, whose tenant is the only `tenant_id`. `encode` makes the
    state of a checkpoint from the application's session, `decode` a session from it, `new` the session of a new call.
    `replay(session, role, text)`, if you have it, applies a message that is newer than the checkpoint.

    A checkpoint is written when the state changes, when a member in `critical` changes, and every `every` messages.
    While the ledger cannot be reached, the functions log a warning, count it in `outages`, and return None or False.
    """

    def __init__(
        self,
        ledgers: Ledger | Mapping[int | str, Ledger],
        *,
        encode: Callable[[SessionT], Mapping[str, Any]],
        decode: Callable[[str, dict[str, Any]], SessionT],
        new: Callable[[str], SessionT],
        replay: Callable[[SessionT, str, str], None] | None = None,
        every: int = 3,
        critical: Sequence[str] = ("pending_slots_display",),
        lease_ttl: float = 30.0,
    ) -> None:
        self.codec = Codec(encode, decode, new, replay)
        self.policy = CheckpointPolicy(every, critical)
        self.lease_ttl = lease_ttl
        self.outages = 0
        """How many times a function did without the ledger."""
        self._ledgers = ledgers
        self._tenant: str | None = None

    def call(self, tenant_id: int | str, call_id: str, timeout_seconds: float = 2.0) -> VoiceCall[SessionT]:
        """Handles one webhook, in a `with` statement: the call is held, and its session is as new as the ledger.

        Raises `LockTimeout` if another webhook keeps the call for `timeout_seconds`, and `CallTerminated` if the call
        has ended. While the ledger cannot be reached, the session is a new one, and nothing is held.

        >>> store = VoiceSessionStore(ledger, encode=dict, decode=lambda call_id, state: state,
        ...                                new=lambda call_id: {"state": "START"})
        >>> with store.call("default", "call-7") as call:
        ...     call.add_message("user", "I need an appointment", message_id="webhook-1")
        ...     call.session["state"] = "WAIT_CONFIRM"
        ...     call.add_message("agent", "Tuesday at nine, or Friday at two?")
        1
        2
        >>> store.load_session_pg_first("default", "call-7")
        ({'state': 'WAIT_CONFIRM'}, 2, 2)
        """
        return VoiceCall(self, tenant_id, call_id, timeout_seconds)

    def load_session_pg_first(self, tenant_id: int | str, call_id: str) -> tuple[SessionT, int, int] | None:
        """The session of the newest checkpoint, with the checkpoint's seq and the newest seq. None without one."""
        with self._outage("load", tenant_id, call_id, "[CALL_RESUME_WARN]"):
            session = self.open_session(tenant_id, call_id)
            try:
                checkpoint = session.latest_checkpoint()
            except NotFound:
                return None
            seq = checkpoint["seq"] or 0
            items = [item for item in session.items(seq)]
            restored = self.restore(session, seq, checkpoint["state"], spoken(items))
            return None if restored is None else (restored, seq, newest_seq(items, seq))
        return None

    def get_or_create(self, tenant_id: int | str, call_id: str) -> SessionT:
        """The session of the newest checkpoint; a new one if there is none, or the ledger cannot be reached."""
        loaded = self.load_session_pg_first(tenant_id, call_id)
        return self.codec.new(call_id) if loaded is None else loaded[0]

    def pg_lock_call_session(self, tenant_id: int | str, call_id: str, timeout_seconds: float = 2.0) -> CallLock:
        """Holds the call, in a `with` statement. The functions below write under its lease in the block.

        Raises `LockTimeout` and `CallTerminated`, like `call`."""
        return CallLock(self, tenant_id, call_id, timeout_seconds)

    def pg_ensure_call_session(self, tenant_id: int | str, call_id: str, initial_state: str = START) -> bool:
        """Creates the call, if it does not exist. Returns whether it exists now."""
        with self._outage("ensure", tenant_id, call_id):
            session = (self._journal(tenant_id, call_id)).session
            if (session.create())["state"] is None:
                session.update(state=initial_state)
            return True
        return False

    def pg_add_message(
        self,
        tenant_id: int | str,
        call_id: str,
        role: str,
        text: str,
        ts: datetime | None = None,
        *,
        session: SessionT | None = None,
        message_id: str | None = None,
    ) -> int | None:
        """Records a message of `user` or `agent`. Returns its seq.

        With the application's `session`, a checkpoint follows if it is due. `message_id`, such as the webhook's id,
        makes a repeated message of the user the same message."""
        with self._outage(f"{role}_msg", tenant_id, call_id):
            journal = self._journal(tenant_id, call_id)
            seq = journal.write(role, text, message_id or new_key(), ts)
            if session is not None:
                self._checkpoint_if_due(journal, session)
            return seq
        return None

    def pg_update_last_state(self, tenant_id: int | str, call_id: str, state: str) -> bool:
        """Sets the call's state, which a checkpoint also does."""
        with self._outage("state", tenant_id, call_id):
            (self._journal(tenant_id, call_id)).session.update(state=state)
            return True
        return False

    def pg_write_checkpoint(
        self, tenant_id: int | str, call_id: str, seq: int, state_json: Mapping[str, Any]
    ) -> bool:
        """Writes a checkpoint now. Returns False if there is another one at this seq, which stays."""
        with self._outage("checkpoint", tenant_id, call_id):
            session = (self._journal(tenant_id, call_id)).session
            try:
                session.checkpoint(state_json, label=label_of(state_json), seq=seq)
            except IdempotencyMismatch as error:
                LOG.warning("[CHECKPOINT] tenant_id=%s call_id=%s seq=%s: %s", tenant_id, call_id, seq, error)
                return False
            return True
        return False

    def pg_get_latest_checkpoint(self, tenant_id: int | str, call_id: str) -> tuple[int, dict[str, Any]] | None:
        """The seq and the state of the newest checkpoint that can be read."""
        with self._outage("get_checkpoint", tenant_id, call_id):
            session = self.open_session(tenant_id, call_id)
            try:
                checkpoint = session.latest_checkpoint()
            except NotFound:
                return None
            return checkpoint["seq"] or 0, checkpoint["state"]
        return None

    def pg_list_messages_since(self, tenant_id: int | str, call_id: str, seq_exclusive: int) -> list[CallMessage]:
        """The messages after a seq."""
        with self._outage("list_messages", tenant_id, call_id):
            session = self.open_session(tenant_id, call_id)
            try:
                return spoken([item for item in session.items(seq_exclusive)])
            except NotFound:
                return []
        return []

    def pg_get_call_session_info(self, tenant_id: int | str, call_id: str) -> tuple[str | None, int] | None:
        """The call's state and its newest seq. None if it does not exist."""
        with self._outage("info", tenant_id, call_id):
            try:
                found = (self.open_session(tenant_id, call_id)).get()
            except NotFound:
                return None
            return found["state"], found["last_seq"]
        return None

    def end_call(self, tenant_id: int | str, call_id: str, reason: str | None = None) -> None:
        """Records that the call has ended, and closes it. Raises `LeaseHeld` while a webhook holds it: repeat it."""
        session = (self._journal(tenant_id, call_id)).session
        session.add_event("call_ended", {"reason": reason} if reason else None, key="call_ended")
        session.close(reason)

    def restore(
        self, session: Session, seq: int, state: Mapping[str, Any], tail: Sequence[CallMessage]
    ) -> SessionT | None:
        """The application's session from a checkpoint and the messages after it. None if `decode` cannot read it."""
        try:
            restored = self.codec.decode(session.session_id, dict(state))
            for message in tail if self.codec.replay else ():
                assert self.codec.replay is not None
                self.codec.replay(restored, message.role, message.text)
        except Exception as error:
            LOG.warning("[CALL_RESUME_WARN] call_id=%s ck_seq=%s err=%r", session.session_id, seq, error)
            session.add_event("unknown_state", {"in": "checkpoint", "seq": seq}, key=f"unknown_state:{seq}")
            return None
        return restored

    def save(
        self,
        journal: CallJournal,
        state: Mapping[str, Any],
        before: tuple[int, Mapping[str, Any]] | None,
        last_seq: int,
    ) -> None:
        """Writes a checkpoint that is due. A seq has one checkpoint: if it has another one, a note follows first."""
        if before is not None and before[0] == last_seq:
            journal.note(label_of(state))
        try:
            journal.session.checkpoint(state, label=label_of(state))
        except IdempotencyMismatch as error:
            LOG.warning("[CHECKPOINT] call_id=%s seq=%s: %s", journal.session.session_id, last_seq, error)

    def _checkpoint_if_due(self, journal: CallJournal, application: SessionT) -> None:
        session = journal.session
        try:
            newest = session.latest_checkpoint()
            before = newest["seq"] or 0, newest["state"]
        except NotFound:
            before = None
        seq = before[0] if before else 0
        items = [item for item in session.items(seq)]
        state = self.codec.encode(application)
        if self.policy.is_due(before[1] if before else None, state, len(spoken(items))):
            self.save(journal, state, before, newest_seq(items, seq))

    def _journal(self, tenant_id: int | str, call_id: str) -> CallJournal:
        held = held_journal((str(tenant_id), call_id))
        return held or CallJournal(self.open_session(tenant_id, call_id))

    def open_session(self, tenant_id: int | str, call_id: str) -> Session:
        """The call in its tenant's ledger."""
        return (self._ledger(tenant_id)).session(call_id)

    def _ledger(self, tenant_id: int | str) -> Ledger:
        if isinstance(self._ledgers, Mapping):
            found = self._ledgers.get(tenant_id)
            if found is None:
                raise Invalid(f"there is no ledger for the tenant {tenant_id}", hint="give one for each tenant_id")
            return found
        if self._tenant is None:
            self._tenant = (self._ledgers.info())["tenant_id"]
        if self._tenant != str(tenant_id):
            raise Invalid(
                f"the ledger's tenant is {self._tenant}, not {tenant_id}",
                hint="open or connect it for this tenant, or give a ledger for each tenant_id",
            )
        return self._ledgers

    @contextmanager
    def _outage(
        self, reason: str, tenant_id: int | str, call_id: str, marker: str = "[CALL_JOURNAL_WARN]"
    ) -> Generator[None, None, None]:
        """Goes on without the ledger while it cannot be reached."""
        try:
            yield
        except (TransportError, Unavailable) as error:
            self.count_outage(reason, tenant_id, call_id, error, marker)

    def count_outage(
        self, reason: str, tenant_id: int | str, call_id: str, error: Error, marker: str = "[CALL_JOURNAL_WARN]"
    ) -> None:
        """Logs and counts that a function did without the ledger."""
        self.outages += 1
        LOG.warning("%s pg_down reason=%s tenant_id=%s call_id=%s err=%s", marker, reason, tenant_id, call_id, error)


class VoiceCall(Generic[SessionT]):
    """One webhook of a call. Get it from `VoiceSessionStore.call`.

    Leaving the block normally writes a checkpoint, if it is due, and releases the call. After an exception there is no
    checkpoint: the messages are recorded, the session may be half changed.
    """

    session: SessionT
    """The application's session. Change it in the block, or assign another one."""

    def __init__(
        self, store: VoiceSessionStore[SessionT], tenant_id: int | str, call_id: str, wait: float
    ) -> None:
        self.tenant_id, self.call_id = tenant_id, call_id
        self.last_seq = 0
        """The newest seq when the call was entered."""
        self.answered: str | None = None
        """The earlier answer, if the user's message was recorded and answered before: say it again."""
        self._store = store
        self._lock: CallLock | None = store.pg_lock_call_session(tenant_id, call_id, wait)
        self._before: tuple[int, Mapping[str, Any]] | None = None
        self._messages = 0

    def __enter__(self) -> VoiceCall[SessionT]:
        lock = self._lock
        assert lock is not None
        try:
            lock.__enter__()
        except (TransportError, Unavailable) as error:
            self._store.count_outage("resume", self.tenant_id, self.call_id, error, "[CALL_RESUME_WARN]")
            self._lock, self.session = None, self._store.codec.new(self.call_id)
            return self
        try:
            self._enter(lock)
        except BaseException:
            lock.__exit__(None, None, None)
            raise
        return self

    def _enter(self, lock: CallLock) -> None:
        resumed, session = lock.resumed, lock.journal.session
        checkpoint = resumed["checkpoint"]
        seq = checkpoint["seq"] or 0 if checkpoint else 0
        tail = list(resumed["tail"])
        if resumed["tail_cursor"] is not None:
            tail += [item for item in session.items(int(resumed["tail_cursor"]))]
        messages = spoken(tail)
        self.last_seq, self._messages = resumed["last_seq"], len(messages)
        restored = None
        if checkpoint is not None:
            self._before = seq, checkpoint["state"]
            restored = self._store.restore(session, seq, checkpoint["state"], messages)
        self.session = self._store.codec.new(self.call_id) if restored is None else restored
        if resumed["created"]:
            session.add_event("call_started", key="call_started")

    def add_message(
        self, role: str, text: str, *, message_id: str | None = None, ts: datetime | None = None
    ) -> int | None:
        """Records a message of `user` or `agent`. Returns its seq; None in an outage.

        With the webhook's id as `message_id`, a repeated webhook finds its answer in `answered`."""
        seq = self._store.pg_add_message(self.tenant_id, self.call_id, role, text, ts, message_id=message_id)
        self._messages += 1
        if self._lock is not None:
            self.answered = self._lock.journal.answered
        return seq

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is None:
            return
        try:
            if error is None and self.answered is None:
                self._save(self._lock)
        except (TransportError, Unavailable) as outage:
            self._store.count_outage("checkpoint", self.tenant_id, self.call_id, outage)
        finally:
            self._lock.__exit__(kind, error, trace)

    def _save(self, lock: CallLock) -> None:
        state = self._store.codec.encode(self.session)
        before = self._before[1] if self._before else None
        if self._store.policy.is_due(before, state, self._messages):
            last_seq = max(self.last_seq, lock.journal.last_seq)
            self._store.save(lock.journal, state, self._before, last_seq)
