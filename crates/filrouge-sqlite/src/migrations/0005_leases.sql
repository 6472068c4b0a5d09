-- When each event happened: derived from the event itself, for finding the events of a time over all sessions.
ALTER TABLE event ADD COLUMN at INTEGER;
CREATE INDEX event_at ON event (at, session_pk, number);

-- What applications knew when all items up to a seq had happened.
CREATE TABLE checkpoint (
    session_pk INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (session_pk, seq)
) WITHOUT ROWID;
