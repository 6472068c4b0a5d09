"""LangGraph checkpoints in the ledger.

`FilrougeSaver` is a checkpointer over a `Ledger`, `AsyncFilrougeSaver` over an `AsyncLedger`. A thread is a session,
whose id is `langgraph:` and the thread's id; other namespaces than the root are its children.
"""

from filrouge.langgraph._migration import acopy_checkpoints, copy_checkpoints
from filrouge.langgraph._saver import AsyncFilrougeSaver, FilrougeSaver

__all__ = ["AsyncFilrougeSaver", "FilrougeSaver", "acopy_checkpoints", "copy_checkpoints"]
