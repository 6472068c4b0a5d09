"""What the importer of a kind of store does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filrouge import Ledger


@dataclass(frozen=True)
class Target:
    """The session of a conversation. In a dry run nothing is written, and there may be no ledger."""

    session_id: str
    ledger: Ledger | None
    dry_run: bool = False


@dataclass
class Copied:
    """What was done with one conversation: how many entries the store has, and how many were added.

    `skipped` says what could not be read or added, and why."""

    total: int = 0
    added: int = 0
    skipped: list[str] | None = None

    def skip(self, reason: str) -> None:
        """Leaves something out."""
        self.skipped = [*(self.skipped or []), reason]


class Source(ABC):
    """A store to import: conversations with entries, which are messages or checkpoints."""

    entries = "messages"
    """What the entries are called."""

    @abstractmethod
    def conversations(self) -> list[str]:
        """The ids of all conversations, the oldest first."""

    @abstractmethod
    def copy(self, conversation: str, target: Target, step: Callable[[], None]) -> Copied:
        """Adds to the target what it does not have, and calls `step` after each entry."""

    @abstractmethod
    def close(self) -> None:
        """Ends the use of the store."""


def rows(source: Source, only: list[str]) -> Iterator[str]:
    """The conversations to import."""
    found = source.conversations()
    unknown = sorted(set(only) - set(found))
    if unknown:
        raise LookupError(f"the store has no conversation {', '.join(unknown)}")
    yield from (name for name in found if not only or name in only)
