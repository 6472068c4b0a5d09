"""The records of the wire, with the names of its members.

Made by `tools/make_types.py` from `docs/openapi.json`: do not edit.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


ChangeKind = Literal["created", "items", "patched", "erased", "event", "checkpoint"]

Channel = str

EventKey = str

Fallback = Literal["older_checkpoint", "replay", "trimmed"]

IdentityId = str

ItemId = str

JsonText = str

Label = str

Part = dict[str, Any]

ProjectId = str

RequestId = str

Role = Literal["user", "assistant", "tool", "system"]

SessionId = str

SessionStatus = Literal["active", "paused", "closed"]

TenantId = str

Timestamp = str

TurnId = str

TurnStatus = Literal["open", "interrupted", "finalized", "failed", "cancelled"]

Variant = Literal["neutral", "translated"]

Verdict = Literal["intact", "broken", "cannot_tell"]


class AdaptedItem(TypedDict):
    """An item that is not shown exactly as recorded."""

    change: str
    seq: int


class AppendedItems(TypedDict):
    """The positions of appended items."""

    first_seq: NotRequired[int | None]
    last_seq: NotRequired[int | None]
    not_recorded: NotRequired[int]


class ChangePage(TypedDict):
    """A page of the feed."""

    data: list[SessionChange]
    findings: NotRequired[list[Finding]]
    next_cursor: str


class Checkpoint(TypedDict):
    """The application's state after all items up to a seq."""

    created_at: Timestamp
    label: str | None
    seq: int | None
    state: dict[str, Any]


class CheckpointPage(TypedDict):
    """A page of a list."""

    data: list[ListedCheckpoint]
    next_cursor: str | None


class Context(TypedDict):
    """A restored context."""

    messages: list[dict[str, Any]]
    report: ContextReport


class ContextReport(TypedDict):
    """The items that were kept, and those that were left out, with the reasons."""

    adapted: list[AdaptedItem]
    dropped: list[DroppedItem]
    kept: int
    window: ContextWindow


class ContextWindow(TypedDict):
    """The range that the context was built from."""

    cut: bool
    estimate: str
    first_seq: int | None
    last_seq: int | None
    last_turns: int | None
    max_tokens: int | None
    summary_seq: int | None
    tokens: int
    turns: int


class Descendant(TypedDict):
    """A session that another one started, directly or through its descendants."""

    depth: int
    session: RelatedSession


class DraftEvent(TypedDict):
    """New text of one part of a future item."""

    agent: NotRequired[str | None]
    call_id: NotRequired[JsonText]
    channel: Channel
    done: bool
    item_id: ItemId
    model: NotRequired[str | None]
    name: NotRequired[JsonText]
    offset: int
    part: int
    role: Role
    text: JsonText
    turn_id: TurnId
    type: str


class DroppedItem(TypedDict):
    """An item that is not shown."""

    reason: str
    seq: int


class ErasureReceipt(TypedDict):
    """The receipt of an erasure, for the caller."""

    erased_at: Timestamp
    items: int
    session_id: SessionId
    stores: list[StoreReceipt]
    turns: int


class EventPage(TypedDict):
    """A page of a list."""

    data: list[SessionEvent]
    next_cursor: str | None


class Finding(TypedDict):
    """One integrity error."""

    code: str
    seq: int | None
    session_id: str | None
    what: str


class HotBounds(TypedDict):
    """The limits of a session in the hot store."""

    bytes: int
    ttl_s: int
    turns: int


class Info(TypedDict):
    """A server's identity and capabilities."""

    context_formats: list[str]
    durability: str
    durable: str
    export_formats: list[str]
    hot: NotRequired[str | None]
    hot_bounds: NotRequired[HotBounds | None]
    identity_id: NotRequired[str | None]
    limits: RequestLimits
    name: str
    stream_formats: list[str]
    tenant_id: str
    version: str


class Item(TypedDict):
    """An item as the ledger stores it."""

    agent: str | None
    channel: Channel
    created_at: Timestamp
    item_id: ItemId | None
    metadata: dict[str, Any] | None
    model: str | None
    occurred_at: Timestamp | None
    parts: list[Part]
    redacted: bool
    role: Role
    seq: int | None
    turn_id: TurnId | None
    usage: dict[str, Any] | None
    variant: Variant


class ItemPage(TypedDict):
    """A page of a list."""

    data: list[Item]
    next_cursor: str | None


class Lease(TypedDict):
    """The lease of a session: its holder, its expiry and its fence."""

    expires_at: Timestamp | None
    fence: int
    holder: str | None


class Lineage(TypedDict):
    """The lineage of a session, as far as the caller can see it."""

    cycle: bool
    descendants: list[Descendant]
    findings: NotRequired[list[Finding]]
    forks: list[RelatedSession]
    gaps: list[SessionId]
    parents: list[RelatedSession]
    session_id: SessionId
    siblings: list[RelatedSession]
    truncated: bool


class ListedCheckpoint(TypedDict):
    """A checkpoint in a list."""

    created_at: Timestamp | None
    label: str | None
    seq: int
    state: dict[str, Any] | None
    unreadable: bool


class NewItem(TypedDict):
    """An item as its caller supplies it, before the store assigns its seq."""

    agent: NotRequired[Label | None]
    channel: Channel
    item_id: NotRequired[ItemId | None]
    metadata: NotRequired[dict[str, Any] | None]
    model: NotRequired[Label | None]
    occurred_at: NotRequired[Timestamp | None]
    parts: list[Part]
    role: Role
    usage: NotRequired[dict[str, Any] | None]
    variant: NotRequired[Variant]


class RelatedSession(TypedDict):
    """The part of a session that a lineage shows."""

    created_at: Timestamp
    parent_session_id: NotRequired[SessionId | None]
    session_id: SessionId
    status: SessionStatus
    title: NotRequired[str | None]


class RequestLimits(TypedDict):
    """Upper bounds of requests."""

    body_bytes: int
    id_bytes: int
    item_bytes: int
    label_bytes: int
    metadata_bytes: int
    nesting: int
    page_rows: int
    turn_items: int
    wait_ms: int


class Resumed(TypedDict):
    """All that is needed to resume a session."""

    checkpoint: Checkpoint | None
    created: bool
    expires_at: Timestamp | None
    fallback: Fallback | None
    fence: int
    holder: str
    last_seq: int
    source: str
    stale: bool | None
    state: str | None
    tail: list[Item]
    tail_cursor: int | None


class SearchExcerpt(TypedDict):
    """A match."""

    created_at: NotRequired[Timestamp | None]
    field: str
    offset: int
    place: str
    role: NotRequired[str | None]
    score: NotRequired[float | None]
    seq: NotRequired[int | None]
    text: str
    tool: NotRequired[str | None]
    turn_ordinal: NotRequired[int | None]


class SearchHit(TypedDict):
    """A matching session."""

    created_at: NotRequired[Timestamp | None]
    exact: bool
    excerpts: list[SearchExcerpt]
    matches: int
    parent_session_id: NotRequired[str | None]
    session_id: str
    title: NotRequired[str | None]
    updated_at: NotRequired[Timestamp | None]


class SearchPage(TypedDict):
    """A page of matching sessions."""

    as_of: NotRequired[Timestamp | None]
    data: list[SearchHit]
    exact: bool
    next_cursor: NotRequired[str | None]
    notices: list[str]
    total_matches: int
    total_sessions: int


class Session(TypedDict):
    """One conversation."""

    agents: NotRequired[list[str]]
    created_at: Timestamp
    identity_id: IdentityId | None
    last_seq: int
    metadata: dict[str, Any]
    parent_session_id: SessionId | None
    project_id: ProjectId | None
    session_id: SessionId
    state: str | None
    status: SessionStatus
    team_id: str | None
    tenant_id: TenantId
    title: str | None
    turn_count: int
    updated_at: Timestamp


class SessionChange(TypedDict):
    """A change of a session."""

    at: Timestamp
    cursor: str
    first_seq: int | None
    id: str
    kind: ChangeKind
    last_seq: int | None
    session_id: SessionId


class SessionEvent(TypedDict):
    """Something that happened in a session, for key figures."""

    at: Timestamp
    created_at: Timestamp
    detail: dict[str, Any] | None
    key: EventKey
    kind: str


class SessionPage(TypedDict):
    """A page of a list."""

    data: list[Session]
    findings: NotRequired[list[Finding]]
    next_cursor: str | None


class SessionStatistics(TypedDict):
    """Statistics of a session and its descendants, as far as the caller can see them."""

    findings: NotRequired[list[Finding]]
    own: Statistics
    session_id: SessionId
    truncated: bool
    with_descendants: Statistics
    without_copied: Statistics


class Statistics(TypedDict):
    """Sums over sessions."""

    agents: list[str]
    duration_ms: NotRequired[int | None]
    first_at: NotRequired[Timestamp | None]
    items: int
    last_at: NotRequired[Timestamp | None]
    messages: int
    models: list[str]
    sessions: int
    tokens: Tokens
    tool_calls: int
    tool_errors: int
    turns: int
    turns_by_status: TurnsByStatus
    usage_unknown: int


class StoreReceipt(TypedDict):
    """One store's part of a receipt."""

    name: NotRequired[str]
    remains: NotRequired[str]
    status: str
    store: str


class Tokens(TypedDict):
    """Counts of tokens that do not overlap."""

    cache_read: int
    cache_write: int
    input: int
    output: int
    reasoning: int


class Turn(TypedDict):
    """A turn as its items describe it."""

    answer_neutral: JsonText | None
    answer_translated: JsonText | None
    answer_translated_is_fallback: bool
    consultant: Label | None
    created_at: Timestamp
    deleted_at: Timestamp | None
    differs: bool
    finalized_at: Timestamp | None
    first_seq: int | None
    identity_id: IdentityId | None
    last_seq: int | None
    metadata: dict[str, Any]
    ordinal: int | None
    pipeline_name: Label | None
    question_neutral: JsonText | None
    question_translated: JsonText | None
    record_version: int
    replaced_by_turn_id: TurnId | None
    replayed: bool
    repository: Label | None
    request_id: RequestId
    session_id: SessionId
    status: TurnStatus
    translate_chat: bool
    turn_id: TurnId


class TurnPage(TypedDict):
    """A page of a list."""

    data: list[Turn]
    next_cursor: str | None


class TurnsByStatus(TypedDict):
    """The number of turns in each state."""

    cancelled: int
    failed: int
    finalized: int
    interrupted: int
    open: int


class Verification(TypedDict):
    """The counts and findings of a verification."""

    checkpoints: int
    commits: int
    events: int
    findings: list[Finding]
    items: int
    notes: int
    sessions: int
    turns: int


class VerifyReport(TypedDict):
    """The scope and the findings of a verification."""

    checkpoints: int
    commits: int
    events: int
    findings: list[Finding]
    items: int
    notes: int
    sessions: int
    turns: int
    status: Verdict
