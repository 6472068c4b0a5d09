-- Sessions with a secret, and what stays of erased ones.
ALTER TABLE session ADD COLUMN token BLOB;
ALTER TABLE session ADD COLUMN erased BLOB;
-- Those that a session has started.
CREATE INDEX session_parent ON session (tenant_id, parent_session_id) WHERE parent_session_id IS NOT NULL;

-- Which agents have spoken in which sessions: derived from the items, for finding sessions.
CREATE TABLE session_agent (
    agent      TEXT NOT NULL,
    session_pk INTEGER NOT NULL,
    PRIMARY KEY (agent, session_pk)
) WITHOUT ROWID;
CREATE INDEX session_agent_pk ON session_agent (session_pk);

-- Events for key figures; the caller's keys hashed to 16 bytes.
CREATE TABLE event (
    session_pk INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    key        BLOB NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (session_pk, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX event_key ON event (session_pk, key);

-- Small named values of the store, such as API keys and the places that webhooks have come to.
CREATE TABLE note (
    name TEXT PRIMARY KEY,
    data BLOB NOT NULL
) WITHOUT ROWID;
