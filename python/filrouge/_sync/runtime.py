"""What differs between threads and asyncio. `_async/runtime.py` has the same names, and is written by hand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
CANCELLED = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
"""The exceptions with which a user stops an answer."""

Lock = threading.Lock
sleep = time.sleep


def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that blocks."""
    return function(*arguments)


def to_the_end(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function; with asyncio, its work continues after a cancellation."""
    return function(*arguments)


def here() -> object:
    """What locks belong to: with threads, the process."""
    return None


class Repeater:
    """Calls a function again and again in a thread, until it is stopped or the function returns False."""

    def __init__(self, every: float, function: Callable[[], bool]) -> None:
        self._every, self._function = every, function
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="filrouge-lease", daemon=True)

    def start(self) -> None:
        """Begins; the first call comes after one interval."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            if not self._function():
                return

    def stop(self) -> None:
        """Ends, after a call that runs."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
