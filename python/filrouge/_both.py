"""The same connection for asyncio and for threads: adapters take what `open` and `open_async` return."""

from __future__ import annotations

from filrouge._async.ledger import AsyncLedger
from filrouge._async.transport import AsyncTransport
from filrouge._sync.ledger import Ledger
from filrouge._sync.transport import Transport

# pyright: reportPrivateUsage=false


def for_asyncio(ledger: Ledger | AsyncLedger) -> AsyncLedger:
    """The ledger with `await`."""
    if isinstance(ledger, AsyncLedger):
        return ledger
    return AsyncLedger(AsyncTransport(**vars(ledger._transport)))


def for_threads(ledger: Ledger | AsyncLedger) -> Ledger:
    """The ledger without `await`."""
    if isinstance(ledger, Ledger):
        return ledger
    return Ledger(Transport(**vars(ledger._transport)))
