//! A SQLite file that a store is copied into.
//!
//! The row `copying` of the table `store` marks a copy under way with the name of its source; `copier` names the run
//! that may go on with it. Both go in the transaction that ends the copy.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use filrouge_store::View;
use filrouge_store::copy::{self, Holding, Intake, Piece, taken_over, unfinished};
use filrouge_store::random_id;
use filrouge_store::rows::{SessionPk, Tx};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::erasure::{self, Erasure};
use crate::error::failure;
use crate::guard::in_snapshot;
use crate::migrate;
use crate::open::{self, Options};
use crate::rows::Rows;

/// A file that a store is copied into; nothing is made before [`Intake::begin`].
pub struct SqliteIntake {
    options: Options,
    begun: Option<Begun>,
}

struct Begun {
    conn: Connection,
    /// This run's name.
    run: String,
    /// Which file it is.
    file: (u64, u64),
}

impl SqliteIntake {
    /// Of `options`, path, keyring, source of randomness and patience count.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            begun: None,
        }
    }

    fn begun(&mut self) -> Result<&mut Begun, Failure> {
        let not = || Failure::new(ErrorCode::Internal, "the copy was not begun");
        self.begun.as_mut().ok_or_else(not)
    }
}

/// A row of the table `store`.
fn stored(conn: &Connection, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT value FROM store WHERE name = ?1";
    let value = conn.query_row(sql, [name], |row| row.get(0));
    value.optional().map_err(failure)
}

fn put(conn: &Connection, name: &str, value: &str) -> Result<(), Failure> {
    let sql =
        "INSERT INTO store (name, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
    conn.execute(sql, [name, value]).map_err(failure)?;
    Ok(())
}

/// Refuses a store that is a copy under way.
pub(crate) fn refuse_unfinished(conn: &Connection, path: &Path) -> Result<(), Failure> {
    match stored(conn, "copying")? {
        Some(_) => Err(unfinished(&path.display().to_string())),
        None => Ok(()),
    }
}

/// What a file of filrouge's, or an empty one, holds.
fn holding(conn: &Connection) -> Result<Holding, Failure> {
    let found = migrate::find(conn)?;
    if !found.ours {
        return Ok(Holding::Nothing);
    }
    if let Some(of) = stored(conn, "copying")? {
        return Ok(Holding::Copy { of });
    }
    let tables = ["session", "head", "turn", "record", "commit_log"];
    let tables = tables
        .iter()
        .chain((found.version >= NOTES).then_some(&"note"));
    for table in tables {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        if conn
            .query_row(&sql, [], |row| row.get(0))
            .map_err(failure)?
        {
            return Ok(Holding::Store);
        }
    }
    Ok(Holding::Nothing)
}

/// The first schema with notes.
const NOTES: u64 = 3;

/// Which file a path leads to.
fn file(path: &Path) -> Result<(u64, u64), Failure> {
    let found = fs::metadata(path).map_err(|e| {
        let what = format!("{}: {e}", path.display());
        Failure::new(ErrorCode::StoreUnavailable, what)
    })?;
    Ok((found.dev(), found.ino()))
}

impl Begun {
    /// A transaction of this run, unless another one has taken the copy over.
    fn transaction(&mut self) -> Result<Transaction<'_>, Failure> {
        let behavior = TransactionBehavior::Immediate;
        let tx = self.conn.transaction_with_behavior(behavior);
        let tx = tx.map_err(failure)?;
        if stored(&tx, "copier")?.as_ref() != Some(&self.run) {
            return Err(taken_over());
        }
        Ok(tx)
    }
}

impl Intake for SqliteIntake {
    fn holding(&mut self) -> Result<Holding, Failure> {
        if !self.options.path.exists() {
            return Ok(Holding::Nothing);
        }
        let conn = open::onlooker(&self.options.path, self.options.busy_timeout)?;
        holding(&conn)
    }

    fn begin(&mut self, source: &str) -> Result<copy::Begun, Failure> {
        open::check_version()?;
        open::prepare(&self.options.path)?;
        let Options { path, entropy, .. } = &self.options;
        let mut conn = open::writer(path, self.options.busy_timeout)?;
        let random = || random_id(entropy.as_ref());
        migrate::migrate(&mut conn, &self.options.keyring, random)?;
        open::sync_directory(path)?;
        let run = random()?;
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.map_err(failure)?;
        // Somebody may have written to it since it was looked at.
        let resumed = match holding(&tx)? {
            Holding::Nothing => false,
            Holding::Copy { of } if of == source => true,
            Holding::Copy { .. } | Holding::Store => return Err(taken_over()),
        };
        put(&tx, "copying", source)?;
        put(&tx, "copier", &run)?;
        tx.commit().map_err(failure)?;
        let store_id = migrate::store_id(&conn)?;
        let file = file(path)?;
        self.begun = Some(Begun { conn, run, file });
        Ok(copy::Begun { store_id, resumed })
    }

    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        in_snapshot(&self.begun()?.conn, |rows| question(rows))
    }

    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
        let tx = self.begun()?.transaction()?;
        let mut target = Rows(&tx);
        for row in rows {
            put_piece(&mut target, row)?;
        }
        tx.commit().map_err(failure)
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        let (path, busy_timeout) = (self.options.path.clone(), self.options.busy_timeout);
        let begun = self.begun()?;
        if file(&path)? != begun.file {
            let what = format!("{} is another file than it was", path.display());
            return Err(Failure::new(ErrorCode::StoreUnavailable, what));
        }
        let tx = begun.transaction()?;
        count_from(&tx, newest).map_err(failure)?;
        tx.execute("DELETE FROM store WHERE name IN ('copying', 'copier')", [])
            .map_err(failure)?;
        // An earlier run may have copied what was erased since.
        let commit = Rows(&tx).newest_log()?;
        erasure::note(&tx, commit.map_or(0, |row| row.commit_no)).map_err(failure)?;
        tx.commit().map_err(failure)?;
        // The copy is finished: what could not be emptied now is emptied by the next opening.
        let emptied = Erasure::resume(&begun.conn, busy_timeout);
        if let Err(failure) = emptied {
            tracing::warn!(%failure, "the WAL was not emptied; the next opening does it");
        }
        Ok(())
    }
}

/// New sessions get numbers above `newest`, as in the store that it was copied from.
fn count_from(conn: &Connection, newest: SessionPk) -> rusqlite::Result<()> {
    let newest = i64::try_from(newest).unwrap_or(i64::MAX);
    let sql = "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'session'";
    if conn.execute(sql, [newest])? == 0 && newest > 0 {
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('session', ?1)";
        conn.execute(sql, [newest])?;
    }
    Ok(())
}

fn put_piece(target: &mut Rows<'_>, row: &Piece) -> Result<(), Failure> {
    match row {
        Piece::Gone(pk) => target.take_away(*pk),
        Piece::Session(pk, row) => target.insert_session_as(*pk, row),
        Piece::Turn(pk, row) => target.insert_turn(*pk, row),
        Piece::Record(pk, row) => target.insert_record(*pk, row),
        Piece::Key(pk, row) => target.insert_key(*pk, row.key, row.seq),
        Piece::Agent(pk, agent) => target.note_agent(*pk, agent),
        Piece::Event(pk, row) => target.insert_event(*pk, row),
        Piece::Checkpoint(pk, row) => target.put_checkpoint(*pk, row),
        Piece::Draft(pk, row) => target.put_draft(*pk, row),
        Piece::Chunk(pk, place, chunk) => target.insert_draft_chunk(*pk, *place, chunk),
        Piece::Head(pk, head) => target.put_head(*pk, head),
        Piece::Note(row) => target.put_note(row),
        Piece::Commit(row) => target.insert_log(row),
    }
}
