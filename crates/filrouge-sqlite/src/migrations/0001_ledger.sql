-- The ledger. docs/format.md describes the blobs; docs/adr/0002 explains this layout of rows.

-- The store's id, and `erasing`: the commit of the newest redaction or erasure, until the WAL is emptied after it.
CREATE TABLE store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The columns of a session that are listed and seldom change.
CREATE TABLE session (
    pk                INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id         TEXT NOT NULL,
    session_id        TEXT NOT NULL,
    identity_id       TEXT,
    parent_session_id TEXT,
    project_id        TEXT,
    team_id           TEXT,
    title             TEXT,
    status            INTEGER NOT NULL,
    state             TEXT,
    metadata          TEXT NOT NULL,
    created_at        INTEGER NOT NULL,
    -- Sessions with a secret, and the tombstones of erased ones.
    token             BLOB,
    erased            BLOB,
    UNIQUE (tenant_id, session_id)
);
-- All sessions, a user's own ones, and those that a session has started, newest first. The rowid ends every index.
CREATE INDEX session_tenant ON session (tenant_id, created_at);
CREATE INDEX session_owner ON session (tenant_id, identity_id, created_at);
CREATE INDEX session_parent ON session (tenant_id, parent_session_id, created_at) WHERE parent_session_id IS NOT NULL;

-- The part of a session that changes with every append. updated_at, a copy from data, changes only when a turn begins
-- or ends, or the session itself changes.
CREATE TABLE head (
    pk         INTEGER PRIMARY KEY,
    data       BLOB NOT NULL,
    tenant_id  TEXT NOT NULL,
    updated_at INTEGER NOT NULL
);
-- All sessions by their last activity.
CREATE INDEX head_updated ON head (tenant_id, updated_at);

-- id = session pk << 32 | ordinal << 8 | version - 1
CREATE TABLE turn (
    id         INTEGER PRIMARY KEY,
    turn_id    BLOB NOT NULL,
    open_since INTEGER,
    data       BLOB NOT NULL
);
-- Not unique: a copy of a store with several lanes may contain sessions that were adopted with the same turn ids.
CREATE INDEX turn_id ON turn (turn_id);
CREATE INDEX turn_open ON turn (open_since) WHERE open_since IS NOT NULL;

-- Records are stored in order of commit, for all sessions; record_key finds them by session and seq.
CREATE TABLE record (
    id   INTEGER PRIMARY KEY,
    head BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE record_key (
    session_pk INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    record_id  INTEGER NOT NULL,
    PRIMARY KEY (session_pk, first_seq)
) WITHOUT ROWID;

-- The caller's keys of items, hashed to 16 bytes.
CREATE TABLE item_key (
    session_pk INTEGER NOT NULL,
    key        BLOB NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (session_pk, key)
) WITHOUT ROWID;

CREATE TABLE commit_log (
    commit_no INTEGER PRIMARY KEY,
    data      BLOB NOT NULL
);

-- The agents of each session: derived from the items, for lists.
CREATE TABLE session_agent (
    agent      TEXT NOT NULL,
    session_pk INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (agent, session_pk)
) WITHOUT ROWID;
CREATE INDEX session_agent_pk ON session_agent (session_pk);

-- Events for key figures; the caller's keys hashed to 16 bytes.
CREATE TABLE event (
    session_pk INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    key        BLOB NOT NULL,
    data       BLOB NOT NULL,
    -- Derived from the event itself, for finding events by time over all sessions.
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_pk, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX event_key ON event (session_pk, key);
CREATE INDEX event_at ON event (at, session_pk, number);

-- Small named values of the store, such as API keys and the positions of webhooks.
CREATE TABLE note (
    name TEXT PRIMARY KEY,
    data BLOB NOT NULL
) WITHOUT ROWID;

-- Streamed text of open turns that is not an item yet. turn = session pk << 32 | ordinal << 8 | version - 1
CREATE TABLE draft (
    turn INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);
CREATE TABLE draft_chunk (
    turn   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data   BLOB NOT NULL,
    PRIMARY KEY (turn, number)
) WITHOUT ROWID;

-- Application state that covers all items up to a seq.
CREATE TABLE checkpoint (
    session_pk INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (session_pk, seq)
) WITHOUT ROWID;
