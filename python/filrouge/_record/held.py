"""What a session holds, as far as a request must be compared with it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from filrouge import types
from filrouge._record.entries import Entry, keys

INSTRUCTIONS = "instructions"
"""The channel of a system prompt. Contexts leave it out: the application sends its own."""
NEWEST_ITEMS = 500
"""How many items of a session are read for the first comparison."""
_TURNS_MAX = 64


@dataclass
class HeldTurn:
    """A turn of the session."""

    turn_id: str
    asked: set[str] = field(default_factory=set[str])
    """The keys of what the user said."""
    spoken: set[str] = field(default_factory=set[str])
    """The keys of what the model said."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """The tools that the model called, by the ids of the calls."""
    results: set[str] = field(default_factory=set[str])
    """The calls that have a result."""
    is_answered: bool = False
    """Whether the model said something, also if it was redacted."""

    def call_of(self, result: Entry, taken: Iterable[str] = ()) -> str | None:
        """The call of a result: by its id or, without one, the first call of the tool that has no result."""
        call_id = result.parts[0]["call_id"]
        if call_id or result.tool is None:
            return call_id if call_id in self.calls else None
        waiting = (call for call, tool in self.calls.items() if tool == result.tool)
        return next((call for call in waiting if call not in self.results and call not in taken), None)


class Held:
    """The newest turns of a session."""

    def __init__(self) -> None:
        self.seq: int | None = None
        """The newest item that was read; None before the first reading."""
        self.instructions: str | None = None
        """The newest system prompt."""
        self._turns: OrderedDict[str, HeldTurn] = OrderedDict()

    def add(self, item: types.Item) -> None:
        """Takes an item of the session into account."""
        self.seq = max(self.seq or 0, item["seq"] or 0)
        if item["channel"] == INSTRUCTIONS:
            self.instructions = "".join(part.get("text", "") for part in item["parts"])
        if item["turn_id"] is None:
            return
        turn = self._turns.setdefault(item["turn_id"], HeldTurn(item["turn_id"]))
        if item["role"] == "user":
            turn.asked.update(keys(item["parts"]))
        if item["role"] == "assistant":
            turn.is_answered = True
            turn.spoken.update(keys(item["parts"]))
        for part in item["parts"]:
            if part["type"] == "tool_call":
                turn.calls[part.get("call_id", "")] = part.get("name", "")
            elif part["type"] == "tool_result":
                turn.results.add(part.get("call_id", ""))
        while len(self._turns) > _TURNS_MAX:
            self._turns.popitem(last=False)

    @property
    def newest_answer(self) -> HeldTurn | None:
        """The newest turn in which the model said something."""
        return next((turn for turn in reversed(self._turns.values()) if turn.is_answered), None)

    def turn_of(self, spoken: Entry, asked: set[str]) -> HeldTurn | None:
        """The newest turn in which the model said this to a user who had asked this."""
        said = spoken.keys()
        is_call = any(key.startswith("call:") for key in said)
        for turn in reversed(self._turns.values()):
            if turn.spoken & said and (is_call or not asked or turn.asked & asked):
                return turn
        return None

    def turn_of_result(self, result: Entry) -> HeldTurn | None:
        """The newest turn with the call of this result."""
        return next((turn for turn in reversed(self._turns.values()) if turn.call_of(result)), None)
