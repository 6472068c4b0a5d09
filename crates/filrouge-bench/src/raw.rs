//! The upper bound of what filrouge can reach on SQLite: the same rows, written and read with plain rusqlite in three
//! layouts.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};

use crate::stats::Series;
use crate::workload::TurnText;

/// The layout of the items of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One row per item, whose rowid packs session and seq.
    Items,
    /// One row per turn, whose rowid packs session and first seq.
    Turns,
    /// One row per turn, appended in commit order; an index finds it by session and seq.
    Appended,
}

pub(crate) const LAYOUTS: [Layout; 3] = [Layout::Items, Layout::Turns, Layout::Appended];

impl Layout {
    const fn name(self) -> &'static str {
        match self {
            Self::Items => "raw, packed rowid, a row per item",
            Self::Turns => "raw, packed rowid, a row per turn",
            Self::Appended => "raw, appended rowid + index, a row per turn",
        }
    }

    /// An empty series for each of [`LAYOUTS`]; `suffix` ends their names.
    pub(crate) fn series(suffix: &str) -> Vec<Series> {
        let name = |layout: &Self| format!("{}{suffix}", layout.name());
        LAYOUTS.iter().map(name).map(Series::new).collect()
    }
}

const SCHEMA: &str = "
    CREATE TABLE session (pk INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE);
    CREATE TABLE head (pk INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, turns INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE turn (id INTEGER PRIMARY KEY, session_pk INTEGER NOT NULL, request BLOB NOT NULL,
        first_seq INTEGER NOT NULL, count INTEGER NOT NULL, status INTEGER NOT NULL, created_at INTEGER NOT NULL,
        UNIQUE (session_pk, request));
    CREATE TABLE item (id INTEGER PRIMARY KEY, role INTEGER NOT NULL, channel INTEGER NOT NULL, created_at INTEGER NOT NULL, parts BLOB NOT NULL);
    CREATE TABLE packed (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, created_at INTEGER NOT NULL, items BLOB NOT NULL);
    CREATE TABLE record (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, created_at INTEGER NOT NULL, items BLOB NOT NULL);
    CREATE TABLE record_key (session_pk INTEGER NOT NULL, first_seq INTEGER NOT NULL, record_id INTEGER NOT NULL,
        PRIMARY KEY (session_pk, first_seq)) WITHOUT ROWID;";

/// A turn that is ready to be written.
pub(crate) struct RawTurn {
    pub(crate) session: usize,
    key: [u8; 16],
    /// The parts of each item.
    parts: [String; 4],
    /// The parts of all items, as one JSON array.
    joined: String,
}

impl RawTurn {
    pub(crate) fn new(session: usize, turn: &TurnText) -> Self {
        let parts = turn.parts();
        let joined = format!("[{}]", parts.join(","));
        Self {
            session,
            key: turn.key,
            parts,
            joined,
        }
    }
}

/// The newest turns of a session.
pub(crate) struct Newest {
    /// Id, first seq, count and status of each turn.
    pub(crate) headers: Vec<[i64; 4]>,
    pub(crate) contents: Vec<Vec<u8>>,
}

/// A raw store.
pub(crate) struct RawStore {
    conn: Connection,
    layout: Layout,
}

impl RawStore {
    /// Opens a fresh store with the product's durability: WAL, every commit flushed.
    pub(crate) fn open(path: &Path, layout: Layout) -> Result<Self> {
        let conn = Connection::open(path)?;
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.set_prepared_statement_cache_capacity(64);
        // Otherwise SQLite replans whenever a bound value might change the plan.
        conn.set_db_config(
            rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG,
            true,
        )?;
        conn.execute_batch(SCHEMA)?;
        Ok(Self { conn, layout })
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Writes one turn in its own commit.
    pub(crate) fn commit(&self, turn: &RawTurn) -> Result<()> {
        self.execute("BEGIN IMMEDIATE")?;
        self.write(turn)?;
        self.execute("COMMIT")
    }

    /// The pk, the last seq and the number of turns of a session; creates it if it does not exist.
    fn head(&self, session: usize) -> Result<(i64, i64, i64)> {
        let id = format!("session-{session:04}");
        let found = self
            .conn
            .prepare_cached(
                "SELECT h.pk, h.last_seq, h.turns FROM session s JOIN head h ON h.pk = s.pk WHERE s.session_id = ?1",
            )?
            .query_row([&id], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
            .optional()?;
        if let Some(found) = found {
            return Ok(found);
        }
        self.conn
            .prepare_cached("INSERT INTO session (session_id) VALUES (?1)")?
            .execute([&id])?;
        let pk = self.conn.last_insert_rowid();
        self.conn
            .prepare_cached("INSERT INTO head VALUES (?1, 0, 0, 0)")?
            .execute([pk])?;
        Ok((pk, 0, 0))
    }

    /// Writes one turn of four items in the current transaction.
    fn write(&self, turn: &RawTurn) -> Result<()> {
        // An arbitrary time: this benchmark does not read the clock.
        const NOW: i64 = 1_795_000_000_000_000;
        let (pk, last, turns) = self.head(turn.session)?;
        let first = last + 1;
        self.conn
            .prepare_cached(
                "UPDATE head SET last_seq = ?2, turns = ?3, updated_at = ?4 WHERE pk = ?1",
            )?
            .execute([pk, last + 4, turns + 1, NOW])?;
        self.conn
            .prepare_cached("INSERT INTO turn VALUES (?1, ?2, ?3, ?4, 4, 2, ?5)")?
            .execute(params![pk << 32 | (turns + 1), pk, turn.key, first, NOW])?;
        match self.layout {
            Layout::Items => {
                let mut insert = self
                    .conn
                    .prepare_cached("INSERT INTO item VALUES (?1, ?2, ?2, ?3, ?4)")?;
                for (seq, parts) in (first..).zip(&turn.parts) {
                    insert.execute(params![pk << 32 | seq, seq - first, NOW, parts.as_bytes()])?;
                }
            }
            Layout::Turns => {
                self.conn
                    .prepare_cached("INSERT INTO packed VALUES (?1, 4, ?2, ?3)")?
                    .execute(params![pk << 32 | first, NOW, turn.joined.as_bytes()])?;
            }
            Layout::Appended => {
                self.conn
                    .prepare_cached(
                        "INSERT INTO record (count, created_at, items) VALUES (4, ?1, ?2)",
                    )?
                    .execute(params![NOW, turn.joined.as_bytes()])?;
                let id = self.conn.last_insert_rowid();
                self.conn
                    .prepare_cached("INSERT INTO record_key VALUES (?1, ?2, ?3)")?
                    .execute([pk, first, id])?;
            }
        }
        Ok(())
    }

    /// The newest turns of the first session; contents are not parsed.
    pub(crate) fn newest(&self, turns: i64) -> Result<Newest> {
        let head = |r: &rusqlite::Row<'_>| Ok([r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?]);
        let headers = self
            .conn
            .prepare_cached(
                "SELECT id, first_seq, count, status FROM turn WHERE id BETWEEN 1 << 32 AND (2 << 32) - 1
                 ORDER BY id DESC LIMIT ?1",
            )?
            .query_map([turns], head)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let from = headers.last().map_or(0, |h| h[1]);
        Ok(Newest {
            headers,
            contents: self.contents(from)?,
        })
    }

    /// All contents of the first session, starting at a seq.
    pub(crate) fn contents(&self, from: i64) -> Result<Vec<Vec<u8>>> {
        let sql = match self.layout {
            Layout::Items => {
                "SELECT parts FROM item WHERE id BETWEEN (1 << 32) + ?1 AND (2 << 32) - 1 ORDER BY id"
            }
            Layout::Turns => {
                "SELECT items FROM packed WHERE id BETWEEN (1 << 32) + ?1 AND (2 << 32) - 1 ORDER BY id"
            }
            Layout::Appended => {
                "SELECT r.items FROM record_key k JOIN record r ON r.id = k.record_id
                 WHERE k.session_pk = 1 AND k.first_seq >= ?1 ORDER BY k.first_seq"
            }
        };
        let rows = self
            .conn
            .prepare_cached(sql)?
            .query_map([from], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    /// All contents of the first session, each row parsed.
    pub(crate) fn parsed(&self) -> Result<Vec<serde_json::Value>> {
        self.contents(0)?
            .iter()
            .map(|row| Ok(serde_json::from_slice(row)?))
            .collect()
    }
}

/// A turn, and the channel that reports its commit.
pub(crate) type QueuedTurn = (RawTurn, oneshot::Sender<()>);

/// Group commit: writes all waiting turns, at most 256, in one commit, then answers their senders. Returns
/// when the queue is closed.
pub(crate) fn run_group_writer(raw: RawStore, mut queue: mpsc::Receiver<QueuedTurn>) -> Result<()> {
    let mut group: Vec<QueuedTurn> = Vec::with_capacity(256);
    while let Some(first) = queue.blocking_recv() {
        group.push(first);
        while group.len() < 256 {
            match queue.try_recv() {
                Ok(turn) => group.push(turn),
                Err(_) => break,
            }
        }
        raw.execute("BEGIN IMMEDIATE")?;
        for (turn, _) in &group {
            raw.write(turn)?;
        }
        raw.execute("COMMIT")?;
        for (_, reply) in group.drain(..) {
            // The caller may be gone.
            let _ = reply.send(());
        }
    }
    Ok(())
}
