CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position BLOB,
    forgotten INTEGER NOT NULL,
    erasing INTEGER NOT NULL DEFAULT 0,
    seal BLOB
);
CREATE TABLE shard (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    realm BLOB NOT NULL,
    owner BLOB NOT NULL,
    sessions INTEGER NOT NULL DEFAULT 0,
    documents INTEGER NOT NULL DEFAULT 0,
    text INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,
    pending_text INTEGER NOT NULL DEFAULT 0,
    newest INTEGER NOT NULL DEFAULT 0,
    removals INTEGER NOT NULL DEFAULT 0,
    seal BLOB,
    UNIQUE (realm, owner)
);
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    shard INTEGER NOT NULL,
    realm BLOB NOT NULL,
    key TEXT NOT NULL,
    stamp_a INTEGER NOT NULL,
    stamp_b INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    project TEXT,
    seal BLOB,
    UNIQUE (realm, key)
);
CREATE INDEX session_shard ON session (shard);
CREATE INDEX session_unread ON session (id) WHERE stamp_a = 0 AND stamp_b = 0;
CREATE TABLE document (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    shard INTEGER NOT NULL,
    session INTEGER NOT NULL,
    key TEXT NOT NULL,
    unit INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    created INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    size INTEGER NOT NULL
);
CREATE UNIQUE INDEX document_key ON document (shard, session, key);
CREATE INDEX document_listed ON document (shard, id, session, kind, created);
CREATE TABLE body (document INTEGER PRIMARY KEY, packed BLOB NOT NULL);
CREATE TABLE pending (
    shard INTEGER NOT NULL,
    document INTEGER NOT NULL,
    size INTEGER NOT NULL,
    words BLOB NOT NULL,
    PRIMARY KEY (shard, document)
) WITHOUT ROWID;
CREATE TABLE gone (
    shard INTEGER NOT NULL,
    document INTEGER NOT NULL,
    session INTEGER NOT NULL,
    removal INTEGER NOT NULL,
    PRIMARY KEY (shard, document)
) WITHOUT ROWID;
CREATE INDEX gone_session ON gone (session);
CREATE TABLE segment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    shard INTEGER NOT NULL,
    level INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    documents INTEGER NOT NULL,
    target INTEGER,
    made INTEGER NOT NULL DEFAULT 1,
    removal INTEGER NOT NULL,
    seal BLOB
);
CREATE INDEX segment_shard ON segment (shard, level);
CREATE TABLE spelling (
    shard INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    words BLOB NOT NULL,
    PRIMARY KEY (shard, segment, first)
) WITHOUT ROWID;
CREATE TABLE posting (
    shard INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    lists BLOB NOT NULL,
    PRIMARY KEY (shard, segment, first)
) WITHOUT ROWID;
CREATE TABLE long_posting (
    shard INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    word INTEGER NOT NULL,
    documents BLOB NOT NULL,
    PRIMARY KEY (shard, segment, word)
) WITHOUT ROWID;
CREATE TABLE embedder (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, documents INTEGER NOT NULL DEFAULT 0);
CREATE TABLE vector (
    embedder INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    document INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (embedder, shard, document)
) WITHOUT ROWID;
