"""The items of a thread.

Every call of `put` and `put_writes` is one complete turn. Its items have channels of their own, so a restored context
leaves them out. Their parts have types of their own:

- `langgraph.checkpoint`: which checkpoint it is; `refs` says where the values of its channels are. After it follow the
  checkpoint without these values, and the new values in the order of `own`, each in an item of type `langgraph.value`.
- `langgraph.writes`: the pending writes of a task; `number` counts those of a checkpoint from 0. A checkpoint is saved
  in the background, so such writes may overtake it: its `early` says how many of them were under way before it.

`data` is what LangGraph's serializer wrote, compressed, in base64. filrouge never deserializes it.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from filrouge._native import delta, undelta
from filrouge.errors import Error
from filrouge.langgraph._values import Packed, path_of

CHECKPOINT = "langgraph.checkpoint"
VALUE = "langgraph.value"
WRITES = "langgraph.writes"
TYPES = frozenset((CHECKPOINT, VALUE, WRITES))

COMMON = (
    b"\x94langgraph.checkpoint.serde langchain_core.messages.tool ToolMessage tool_call_id status success artifact "
    b"langchain_core.messages.system SystemMessage langchain_core.messages.human HumanMessage human "
    b"langchain_core.messages.ai AIMessage\x8a\xa7content\xb1additional_kwargs\x80\xb1response_metadata\x80"
    b"\xa4type\xa2ai\xa4name\xc0\xa2id\xc0\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0"
    b"\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xb3model_validate_json"
)
"""What LangChain's messages have in common: with it, a short write is compressed well. Part of the format."""


@dataclass(frozen=True)
class Item:
    """One of these items, as it was read."""

    seq: int
    turn_id: str
    part: Mapping[str, Any]

    @property
    def type(self) -> str:
        """The type of its part."""
        kind: str = self.part["type"]
        return kind

    @property
    def path(self) -> tuple[int, ...]:
        """The items needed to read its value."""
        return path_of(self.part.get("path", ()))

    @property
    def skeleton(self) -> int:
        """Of a checkpoint: the item that has it without the values of its channels."""
        return self.seq + 1

    @property
    def refs(self) -> dict[str, int]:
        """Of a checkpoint: the items with the values of its channels, except the short ones."""
        own: list[str] = self.part["own"]
        return {**self.part["refs"], **{channel: seq for seq, channel in enumerate(own, self.skeleton + 1)}}


def item_of(row: Mapping[str, Any]) -> Item | None:
    """The item of a row; None if it is of another program, or was erased."""
    parts: list[dict[str, Any]] = row["parts"]
    if len(parts) != 1 or parts[0].get("type") not in TYPES:
        return None
    return Item(row["seq"], row["turn_id"], parts[0])


def turn_body(request_id: str, title: str, parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The body of the request that records a complete turn."""
    items = [{"role": "system", "channel": part["type"], "parts": [part]} for part in parts]
    return {"request_id": request_id, "question_neutral": title, "items": items, "answer_neutral": ""}


def first_seq_of(turn: Mapping[str, Any], parts: int) -> int | None:
    """The seq of the first part of a recorded turn; None if it waits for the store."""
    first, last = turn["first_seq"], turn["last_seq"]
    if first is None:
        return None
    if last - first != parts + 1:
        detail = f"of {parts} items of a checkpoint, the ledger recorded {last - first - 1}"
        raise Error(detail, hint='a tenant with record = "conversation" keeps no checkpoints: set another value')
    seq: int = first + 1
    return seq


def skeleton_bytes(kind: str, data: bytes, inline: Mapping[str, tuple[str, bytes]]) -> bytes:
    """A checkpoint without the values of its channels, but with the short ones."""
    short = {channel: [kind, b64encode(raw).decode()] for channel, (kind, raw) in inline.items()}
    return json.dumps([kind, short], separators=(",", ":")).encode() + b"\n" + data


def read_skeleton(raw: bytes) -> tuple[str, bytes, dict[str, tuple[str, bytes]]]:
    """What `skeleton_bytes` has packed."""
    head, _, data = raw.partition(b"\n")
    kind, short = json.loads(head)
    return kind, data, {channel: (of, b64decode(text)) for channel, (of, text) in short.items()}


def checkpoint_part(
    checkpoint_id: str, parent_id: str | None, refs: Mapping[str, int], own: Sequence[str]
) -> dict[str, Any]:
    """The part of a checkpoint."""
    part: dict[str, Any] = {"type": CHECKPOINT, "id": checkpoint_id, "refs": refs, "own": own}
    return {**part, "parent": parent_id} if parent_id else part


def value_part(packed: Packed) -> dict[str, Any]:
    """The part of a value."""
    return {"type": VALUE, **packed.members()}


Write = tuple[int, str, str, bytes]
"""A pending write: its index, channel, type and bytes."""


def writes_part(
    checkpoint_id: str, task_id: str, task_path: str, writes: Sequence[Write], *, replaces: bool
) -> dict[str, Any]:
    """The part of a task's writes."""
    head = json.dumps([[index, channel, kind, len(raw)] for index, channel, kind, raw in writes], separators=(",", ":"))
    data = delta(COMMON, head.encode() + b"\n" + b"".join(raw for *_, raw in writes))
    part: dict[str, Any] = {"type": WRITES, "checkpoint": checkpoint_id, "task": task_id}
    if task_path:
        part["path_of_task"] = task_path
    if replaces:
        part["replaces"] = True
    return {**part, "data": b64encode(data).decode()}


def read_writes(part: Mapping[str, Any]) -> list[Write]:
    """What `writes_part` has packed."""
    head, _, data = undelta(COMMON, b64decode(part["data"])).partition(b"\n")
    writes: list[Write] = []
    for index, channel, kind, length in json.loads(head):
        writes.append((index, channel, kind, data[:length]))
        data = data[length:]
    return writes
