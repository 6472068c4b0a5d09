-- The journal. docs/format.md tells what the blobs hold; docs/adr/0002 why the rows lie like this.

CREATE TABLE store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What is listed of a session and seldom changes.
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
    UNIQUE (tenant_id, session_id)
);
-- A user's own sessions, newest first: the rowid ends every index.
CREATE INDEX session_owner ON session (tenant_id, identity_id);

-- What changes of a session with every append.
CREATE TABLE head (
    pk   INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);

-- id = session pk << 32 | ordinal << 8 | version - 1
CREATE TABLE turn (
    id         INTEGER PRIMARY KEY,
    turn_id    BLOB NOT NULL UNIQUE,
    open_since INTEGER,
    data       BLOB NOT NULL
);
CREATE INDEX turn_open ON turn (open_since) WHERE open_since IS NOT NULL;

-- Records are appended whatever their session; record_key finds them by session and seq.
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
