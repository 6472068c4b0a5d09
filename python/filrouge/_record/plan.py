"""Decides what of a request is new, and into which turns it is recorded.

A request repeats the conversation so far. What follows the model's newest words in it is new. If these words are the
newest that the session holds, or if it holds none, everything after them is new, also whole turns that were not
recorded. Otherwise the application has changed the history; the session keeps what was really said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from filrouge import types
from filrouge._record.entries import Asked, Entry, text_part
from filrouge._record.held import INSTRUCTIONS, Held, HeldTurn

NO_QUESTION = "[no text]"
"""The question of a request that contains nothing from a user."""


@dataclass(frozen=True)
class PlannedTurn:
    """A turn to start, or the items to append to one that exists."""

    question: str
    items: Sequence[types.NewItem]
    answer: str | None = None
    turn_id: str | None = None
    """The turn that continues."""


@dataclass(frozen=True)
class Plan:
    """What to record before the model responds."""

    past: Sequence[PlannedTurn]
    """Turns that have ended, which nobody recorded."""
    turn: PlannedTurn
    """The turn of the response."""
    restated: PlannedTurn
    """The same with everything since the question, if `turn` continues a turn that has ended."""


def plan(asked: Asked, held: Held, *, is_complete: bool = True) -> Plan:
    """What to record. `is_complete`: whether `held` is known to be up to date."""
    fresh, goes_on = _fresh(asked.entries, held, is_complete)
    *before, newest = list(_turns(fresh)) or [[]]
    first = goes_on or _continued(before[0] if before else newest, held)
    past = [_past(turn, first if at == 0 else None) for at, turn in enumerate(before)]
    prompt = _prompt(asked.instructions, held)
    restated = _with(prompt, _open((list(_turns(asked.entries)) or [[]])[-1]))
    if first is None or before:
        return Plan(past, restated, restated)
    return Plan(past, _with(prompt, _appended(newest, first)), restated)


def _fresh(entries: Sequence[Entry], held: Held, is_complete: bool) -> tuple[Sequence[Entry], HeldTurn | None]:
    """The new entries; the turn that continues without any."""
    spoken = [at for at, entry in enumerate(entries) if entry.speaker == "model"]
    known = next(((at, turn) for at in reversed(spoken) if (turn := _held(entries, at, held))), None)
    if known is not None and known[0] == len(entries) - 1:
        return [], known[1]  # the model is asked to go on
    followed = [at for at in spoken if any(entry.speaker != "model" for entry in entries[at + 1 :])]
    tail = entries[followed[-1] + 1 :] if followed else entries
    newest = held.newest_answer
    if known is not None:
        return (entries[known[0] + 1 :] if known[1] is newest and is_complete else tail), None
    return (entries if newest is None and is_complete else tail), None


def _held(entries: Sequence[Entry], at: int, held: Held) -> HeldTurn | None:
    """The turn in which the model said this entry."""
    users = (entry.keys() for entry in reversed(entries[:at]) if entry.speaker == "user")
    return held.turn_of(entries[at], next(users, set[str]()))


def _turns(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries of each turn. A turn begins with what the user says after the model."""
    turn: list[Entry] = []
    for entry in entries:
        if turn and turn[-1].speaker == "model" and entry.speaker in ("user", "system"):
            yield turn
            turn = []
        turn.append(entry)
    if turn:
        yield turn


def _continued(turn: Sequence[Entry], held: Held) -> HeldTurn | None:
    """The turn whose calls have their results here."""
    if not turn or not turn[0].is_result:
        return None
    return held.turn_of_result(turn[0])


def _appended(entries: Sequence[Entry], held: HeldTurn) -> PlannedTurn:
    """What a turn lacks of these entries."""
    items: list[types.NewItem] = []
    taken: list[str] = []
    for entry in entries:
        if not entry.is_result:
            items.append(entry.item())
        elif (call_id := held.call_of(entry, taken)) not in held.results:
            items.append(_named(entry, call_id).item())
            taken.append(call_id or "")
    return PlannedTurn("", items, turn_id=held.turn_id)


def _named(result: Entry, call_id: str | None) -> Entry:
    """A result with the id of its call."""
    return replace(result, parts=[{**result.parts[0], "call_id": call_id}]) if call_id else result


def _past(entries: Sequence[Entry], held: HeldTurn | None) -> PlannedTurn:
    """A turn that has ended; its last text of the model is the answer."""
    answer = entries[-1].text if entries[-1].speaker == "model" else ""
    rest = entries[:-1] if answer else entries
    planned = _open(rest) if held is None else _appended(rest, held)
    return replace(planned, answer=answer or None)


def _open(entries: Sequence[Entry]) -> PlannedTurn:
    """A turn that begins with the first text of the user."""
    asked = next((entry for entry in entries if entry.speaker == "user"), None)
    asked = asked or next((entry for entry in entries if entry.speaker == "system"), None)
    question = (asked.text if asked else "") or NO_QUESTION
    items: list[types.NewItem] = []
    for entry in _with_ids(entries):
        if entry is not asked:
            items.append(entry.item())
            continue
        others = [part for part in entry.parts if part["type"] != "text"]
        if others:
            question = entry.text
            items.append({"role": "user", "channel": "question", "parts": others})
    return PlannedTurn(question, items)


def _with_ids(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The entries; calls and results without an id get one, results in the order of the calls of their tool."""
    waiting: list[tuple[str, str]] = []
    for at, entry in enumerate(entries):
        part = entry.parts[0]
        if part["type"] == "tool_call":
            call_id = part["call_id"] or f"call_{at}"
            waiting.append((part["name"], call_id))
            yield entry if part["call_id"] else replace(entry, parts=[{**part, "call_id": call_id}])
        elif entry.is_result and not part["call_id"]:
            found = next((call for call in waiting if call[0] == entry.tool), (str(entry.tool), f"call_{at}"))
            if found in waiting:
                waiting.remove(found)
            yield _named(entry, found[1])
        else:
            yield entry


def _prompt(instructions: str, held: Held) -> list[types.NewItem]:
    """The system prompt, if the session does not have it."""
    if not instructions or instructions == held.instructions:
        return []
    return [{"role": "system", "channel": INSTRUCTIONS, "parts": [text_part(instructions)]}]


def _with(prompt: list[types.NewItem], turn: PlannedTurn) -> PlannedTurn:
    return replace(turn, items=[*prompt, *turn.items])
