"""Idempotency keys: made once for each write, and repeated with it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from filrouge.errors import Error
from filrouge.types import NewItem


def new_key() -> str:
    """A new key."""
    return str(uuid.uuid4())


def keyed(items: Iterable[NewItem]) -> list[NewItem]:
    """The items, each with an `item_id`."""
    return [item if item.get("item_id") else NewItem({**item, "item_id": new_key()}) for item in items]


def code_of(error: BaseException) -> str:
    """The code of an exception: its own, or its class in the spelling of codes.

    >>> code_of(ZeroDivisionError())
    'zero_division_error'
    """
    if isinstance(error, Error):
        return error.code
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(error).__name__).lower()
