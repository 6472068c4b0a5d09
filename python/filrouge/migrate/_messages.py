"""Stores of messages: what the ledger lacks is added at the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from filrouge.migrate._source import Copied, Source, Target

if TYPE_CHECKING:
    from filrouge import Ledger

DIFFERS = (
    "the ledger has other messages than the store; it is imported again under another --prefix, "
    "or after the session was erased"
)


class MessageSource(Source):
    """A store of messages, in the framework's form."""

    @abstractmethod
    def read(self, conversation: str, copied: Copied) -> list[Any]:
        """The messages of the store. `copied` gets those that cannot be read."""

    @abstractmethod
    def known(self, target: str, ledger: Ledger) -> list[Any]:
        """The messages that the session has."""

    @abstractmethod
    def add(self, target: str, ledger: Ledger, messages: Sequence[Any]) -> None:
        """Adds messages to the session."""

    @abstractmethod
    def is_user(self, message: Any) -> bool:
        """Whether the message is the user's, so that a turn begins with it."""

    def copy(self, conversation: str, target: Target, step: Callable[[], None]) -> Copied:
        """Adds to the session what it does not have."""
        copied = Copied()
        messages = self.read(conversation, copied)
        copied.total = len(messages)
        known = self.known(target.session_id, target.ledger) if target.ledger else []
        if known != messages[: len(known)]:
            copied.skip(DIFFERS)
            return copied
        for turn in self._turns(messages[len(known) :]):
            if target.ledger and not target.dry_run:
                self.add(target.session_id, target.ledger, turn)
            copied.added += len(turn)
            for _ in turn:
                step()
        return copied

    def _turns(self, messages: Sequence[Any]) -> list[list[Any]]:
        """The messages of each turn, which are written at once: a stop of the import leaves no half turn."""
        turns: list[list[Any]] = []
        for message in messages:
            if not turns or self.is_user(message):
                turns.append([])
            turns[-1].append(message)
        return turns
