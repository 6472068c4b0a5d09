-- What open turns' streams have shown and is not an item yet. turn = session pk << 32 | ordinal << 8 | version - 1
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
