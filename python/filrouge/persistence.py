"""The message list of the persistence design, as a view over sessions (docs/python-persistence.md)."""

from filrouge._async.persistence import AsyncHistoryStore
from filrouge._shared.exchanges import HistoryMessage, MessageLike
from filrouge._sync.persistence import HistoryStore

__all__ = ["AsyncHistoryStore", "HistoryMessage", "HistoryStore", "MessageLike"]
