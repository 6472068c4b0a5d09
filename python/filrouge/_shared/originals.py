"""Keeps a framework's messages exactly, beside the parts that filrouge reads.

The first part of an item has the message in its member `original`. Texts that the parts have already are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from filrouge.types import Part

ORIGINAL = "original"
REPEATED_MIN = 24
"""Shorter texts take less room than a reference to them."""


def with_original(parts: Sequence[Mapping[str, Any]], kind: str, message: Any) -> list[Part]:
    """The parts of an item that holds a message of a framework, `kind`.

    >>> parts = [{"type": "text", "text": "Where does the thread lead?"}]
    >>> with_original(parts, "demo", {"role": "user", "content": "Where does the thread lead?"})[0]["original"]
    {'kind': 'demo', 'message': {'role': 'user', 'content': None}, 'texts': [[['content'], [0, 'text']]]}
    """
    known = {
        text: [index, name]
        for index, part in enumerate(parts)
        for name, text in part.items()
        if isinstance(text, str) and len(text) >= REPEATED_MIN
    }
    texts: list[list[list[Any]]] = []
    original: dict[str, Any] = {"kind": kind, "message": _without(message, known, [], texts)}
    if texts:
        original["texts"] = texts
    first, *rest = parts or [{"type": kind}]
    return [{**first, ORIGINAL: original}, *(dict(part) for part in rest)]


def original_of(parts: Sequence[Mapping[str, Any]], kind: str) -> tuple[bool, Any]:
    """Whether an item holds a message of this kind, and the message.

    >>> original_of(with_original([{"type": "text", "text": "x" * 30}], "demo", ["x" * 30, 1.0]), "demo")
    (True, ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1.0])
    >>> original_of([{"type": "text", "text": "Hello"}], "demo")
    (False, None)
    """
    original = parts[0].get(ORIGINAL) if parts else None
    if not isinstance(original, dict) or original.get("kind") != kind:  # pyright: ignore[reportUnknownMemberType]
        return False, None
    holder = cast("dict[str, Any]", original)
    for place, (index, name) in holder.get("texts", []):
        node = holder
        for step in ["message", *place][:-1]:
            node = node[step]
        node[["message", *place][-1]] = parts[index][name]
    return True, holder["message"]


def _without(node: Any, known: Mapping[str, list[Any]], place: list[Any], texts: list[list[list[Any]]]) -> Any:
    """A copy without the texts that are known; `texts` gets their places in the message and in the parts."""
    if isinstance(node, str) and node in known:
        texts.append([place, known[node]])
        return None
    if isinstance(node, dict):
        return {name: _without(value, known, [*place, name], texts) for name, value in _members(node)}
    if isinstance(node, (list, tuple)):
        return [_without(value, known, [*place, index], texts) for index, value in enumerate(_values(node))]
    return node


def _members(node: Any) -> Iterable[tuple[Any, Any]]:
    items: Iterable[tuple[Any, Any]] = node.items()
    return items


def _values(node: Any) -> Iterable[Any]:
    values: Iterable[Any] = node
    return values
