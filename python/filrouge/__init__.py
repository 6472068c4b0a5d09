"""filrouge records conversations with AI agents while they happen, and restores them.

`open` keeps the ledger in this process, `connect` uses a server; both return the same `Ledger`. `open_async` and
`connect_async` return an `AsyncLedger`, which has the same methods for asyncio.

>>> with filrouge.open("app.db") as ledger:
...     session = ledger.session("demo")
...     with session.turn("Which way?") as turn:
...         turn.finish("To the left.")
...     print(session.context("openai-chat")["messages"])
[{'role': 'user', 'content': 'Which way?'}, {'role': 'assistant', 'content': 'To the left.'}]
"""

from filrouge import errors, types
from filrouge._async.lease import AsyncLease
from filrouge._async.ledger import AsyncLedger
from filrouge._async.recording import AsyncRecording
from filrouge._async.session import AsyncSession
from filrouge._async.tail import AsyncTail
from filrouge._async.turn import AsyncTurn
from filrouge._native import version
from filrouge._open import connect, connect_async, open, open_async
from filrouge._outage import BufferedWrite, DeadLetter
from filrouge._record.clients import record, recorder
from filrouge._record.recorder import Recorder, current_session
from filrouge._sync.lease import Lease
from filrouge._sync.ledger import Ledger
from filrouge._sync.recording import Recording
from filrouge._sync.session import Session
from filrouge._sync.tail import Tail, TailEvent
from filrouge._sync.turn import Turn
from filrouge.errors import (
    AnswerMissing,
    ClosedError,
    Conflict,
    Error,
    Forbidden,
    ForkError,
    Gone,
    IdempotencyMismatch,
    IntegrityError,
    Invalid,
    LeaseExpired,
    LeaseHeld,
    LeaseTimeout,
    NotFound,
    RateLimited,
    SeqConflict,
    StaleFence,
    StreamOpen,
    TransportError,
    TurnBusy,
    TurnClosed,
    Unauthorized,
    Unavailable,
)

__version__ = version()

__all__ = [
    "AnswerMissing",
    "AsyncLease",
    "AsyncLedger",
    "AsyncRecording",
    "AsyncSession",
    "AsyncTail",
    "AsyncTurn",
    "BufferedWrite",
    "ClosedError",
    "Conflict",
    "DeadLetter",
    "Error",
    "Forbidden",
    "ForkError",
    "Gone",
    "IdempotencyMismatch",
    "IntegrityError",
    "Invalid",
    "Lease",
    "LeaseExpired",
    "LeaseHeld",
    "LeaseTimeout",
    "Ledger",
    "NotFound",
    "RateLimited",
    "Recorder",
    "Recording",
    "SeqConflict",
    "Session",
    "StaleFence",
    "StreamOpen",
    "Tail",
    "TailEvent",
    "TransportError",
    "Turn",
    "TurnBusy",
    "TurnClosed",
    "Unauthorized",
    "Unavailable",
    "connect",
    "connect_async",
    "current_session",
    "errors",
    "open",
    "open_async",
    "record",
    "recorder",
    "types",
]
