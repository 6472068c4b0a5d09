"""Work as a generator of requests, which runs over a `Ledger` and over an `AsyncLedger`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from filrouge.errors import Error

if TYPE_CHECKING:
    from filrouge import AsyncLedger, Ledger

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One request. All of them have keys, so a repetition is safe."""

    method: str
    path: str
    query: Mapping[str, str | int | float | bool | None] | None = None
    json: Any = None


Work = Generator[Call, Any, T]
"""Yields requests, is sent their JSON or gets their error, and returns its result."""


def run(ledger: Ledger, work: Work[T]) -> T:
    """Runs work to its end, in this thread."""
    try:
        call = next(work)
        while True:
            try:
                answer = ledger.request(call.method, call.path, query=call.query, json=call.json, repeatable=True)
            except Error as error:
                call = work.throw(error)
            else:
                call = work.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(ledger: AsyncLedger, work: Work[T]) -> T:
    """Runs work to its end, in this task."""
    try:
        call = next(work)
        while True:
            try:
                answer = await ledger.request(call.method, call.path, query=call.query, json=call.json, repeatable=True)
            except Error as error:
                call = work.throw(error)
            else:
                call = work.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
