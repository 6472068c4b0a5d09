//! A SQLite file with plain tables, which is not a ledger's.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::plain::{PlainDatabase, PlainError, PlainRows, Statement};
use filrouge_types::{Failure, lock};
use rusqlite::{Connection, TransactionBehavior, params_from_iter};

use crate::erasure::truncate_wal;
use crate::error::plain_error;
use crate::open::{check_version, prepare, writer};

/// How long a transaction waits for another process's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long [`PlainFile::erase_deleted`] waits for readers.
const READERS_TIMEOUT: Duration = Duration::from_millis(500);
/// Where bytes of deleted rows remain while a reader prevents that the log is emptied.
const REMAINS: &str =
    "in the write-ahead log of the SQLite file, until no reader uses it and the next write";

/// A SQLite file with plain tables: WAL, and every commit is flushed. Deleted bytes are overwritten with zeros.
pub struct PlainFile {
    path: PathBuf,
    /// The file, once it was opened.
    file: Arc<Mutex<Option<File>>>,
}

struct File {
    conn: Connection,
    /// Whether the WAL must be emptied after the next commit, because readers have prevented it.
    must_empty_wal: bool,
}

impl PlainFile {
    /// The file at `path`. It is opened when it is first used, and created with its directory if they are missing; then
    /// only their owner can access them.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: Arc::default(),
        }
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut File) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, PlainError> {
        let (path, file) = (self.path.clone(), self.file.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut slot = lock(&file);
            let file = match &mut *slot {
                Some(file) => file,
                none => none.insert(File::open(&path).map_err(open_error)?),
            };
            work(file).map_err(|e| plain_error(&e))
        });
        let done = done.await;
        done.map_err(|e| PlainError::Unavailable(format!("SQLite: {e}")))?
    }
}

/// The error for a file that could not be opened.
fn open_error(failure: Failure) -> PlainError {
    match failure.code.retry() {
        true => PlainError::Unavailable(failure.detail),
        false => PlainError::Refused(failure.detail),
    }
}

#[async_trait]
impl PlainDatabase for PlainFile {
    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<PlainRows>, PlainError> {
        self.on_thread(move |file| {
            let transaction = file
                .conn
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut returned = Vec::with_capacity(statements.len());
            for statement in &statements {
                returned.push(rows_of(&transaction, statement)?);
            }
            transaction.commit()?;
            if file.must_empty_wal {
                file.empty_wal(Duration::ZERO)?;
            }
            Ok(returned)
        })
        .await
    }

    async fn erase_deleted(&self, _: &[String]) -> Result<Option<&'static str>, PlainError> {
        let emptied = self.on_thread(|file| {
            file.must_empty_wal = true;
            file.empty_wal(READERS_TIMEOUT)?;
            Ok(!file.must_empty_wal)
        });
        Ok((!emptied.await?).then_some(REMAINS))
    }
}

impl File {
    fn open(path: &Path) -> Result<Self, Failure> {
        check_version()?;
        prepare(path)?;
        Ok(Self {
            conn: writer(path, BUSY_TIMEOUT)?,
            // An earlier process may have ended before it emptied the WAL.
            must_empty_wal: true,
        })
    }

    /// Empties the WAL, unless readers prevent it for longer than `timeout`.
    fn empty_wal(&mut self, timeout: Duration) -> rusqlite::Result<()> {
        self.conn.busy_timeout(timeout)?;
        let emptied = truncate_wal(&self.conn);
        self.conn.busy_timeout(BUSY_TIMEOUT)?;
        self.must_empty_wal = !emptied?;
        Ok(())
    }
}

fn rows_of(conn: &Connection, statement: &Statement) -> rusqlite::Result<PlainRows> {
    let mut prepared = conn.prepare_cached(&statement.text)?;
    let columns = prepared.column_count();
    let mut rows = prepared.query(params_from_iter(&statement.params))?;
    let mut returned = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get::<_, Option<String>>(column));
        returned.push(values.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    Ok(returned)
}
