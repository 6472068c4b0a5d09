"""Which session holds which thread and namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from filrouge._shared.wire import path

ID_BYTES = 256
"""The longest id that filrouge accepts."""
METADATA = "langgraph"
SPECIAL = re.compile(r"[%#|\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Place:
    """A namespace of a thread. The root namespace is a session, and each other one a child of it.

    An erased session's id is never used again. So after `delete_thread`, the thread begins a new `generation`.

    >>> root = Place("langgraph:", "trip 42")
    >>> root.session_id, replace(root, namespace="book|pay").session_id, replace(root, generation=2).session_id
    ('langgraph:trip 42', 'langgraph:trip 42|book%7Cpay', 'langgraph:trip 42#2')
    """

    prefix: str
    thread_id: str
    namespace: str = ""
    generation: int = 1

    @property
    def root(self) -> Place:
        """The root namespace of the thread."""
        return replace(self, namespace="")

    @cached_property
    def session_id(self) -> str:
        """The id of the session."""
        name = self.prefix + _escaped(self.thread_id)
        if self.generation > 1:
            name += f"#{self.generation}"
        if self.namespace:
            name += f"|{_escaped(self.namespace)}"
        if len(name.encode()) <= ID_BYTES:
            return name
        return f"{self.prefix}#{sha256(name.encode()).hexdigest()}"

    @cached_property
    def target(self) -> str:
        """The route of the session."""
        return path(self.session_id)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the session needs no parent, and its id says which thread it is: its first turn can create it."""
        return not self.namespace and not self.session_id.startswith(f"{self.prefix}#")

    def creation(self) -> dict[str, Any]:
        """The body of the request that creates the session."""
        names = {"thread_id": self.thread_id, "namespace": self.namespace, "generation": self.generation}
        body: dict[str, Any] = {"session_id": self.session_id, "metadata": {METADATA: names}}
        if self.namespace:
            body["parent_session_id"] = self.root.session_id
        return body


place_in = lru_cache(1024)(Place)
"""A `Place`, which is made only once if it is used often."""


def place_of(prefix: str, session: Mapping[str, Any]) -> Place | None:
    """The thread and namespace of a listed session; None for a session of another program.

    >>> place_of("langgraph:", {"session_id": "langgraph:a%23b#2|tools", "metadata": {}})
    Place(prefix='langgraph:', thread_id='a#b', namespace='tools', generation=2)
    """
    session_id: str = session["session_id"]
    if not session_id.startswith(prefix):
        return None
    names: Mapping[str, Any] | None = session["metadata"].get(METADATA)
    if names is not None:
        return Place(prefix, names["thread_id"], names["namespace"], names["generation"])
    name, _, namespace = session_id[len(prefix) :].partition("|")
    thread, _, generation = name.partition("#")
    return Place(prefix, unquote(thread), unquote(namespace), int(generation or 1))


def key_of(text: str) -> str:
    """A checkpoint's id as a part of a key: a long one, or one with control characters, is replaced by its hash."""
    is_short = len(text) <= 128 and text.isprintable()
    return text if is_short and text.isascii() else sha256(text.encode()).hexdigest()


def _escaped(text: str) -> str:
    return SPECIAL.sub(lambda found: quote(found[0], safe=""), text)
