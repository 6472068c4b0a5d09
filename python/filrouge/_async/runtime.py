"""What differs between asyncio and threads. `_sync/runtime.py` has the same names, and is written by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
CANCELLED = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
"""The exceptions with which a user stops an answer."""

Lock = asyncio.Lock
sleep = asyncio.sleep


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that blocks, without blocking the other tasks."""
    return await asyncio.to_thread(function, *arguments)


async def to_the_end(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Awaits work that continues even if this task is cancelled again."""
    return await asyncio.shield(asyncio.ensure_future(function(*arguments)))


def here() -> object:
    """What locks belong to: the running event loop."""
    return asyncio.get_running_loop()


class Repeater:
    """Calls a function again and again, until it is stopped or the function returns False."""

    def __init__(self, every: float, function: Callable[[], Awaitable[bool]]) -> None:
        self._every, self._function = every, function
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins; the first call comes after one interval."""
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            if not await self._function():
                return

    async def stop(self) -> None:
        """Ends. A call that runs is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
