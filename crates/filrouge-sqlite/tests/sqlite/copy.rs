//! Copies from file to file: row by row the same, whatever happens in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::{Options, SqliteIntake, SqliteLedger};
use filrouge_store::copy::{Begun, Copied, Holding, Intake, Piece, Stage, Watch, copy};
use filrouge_store::rows::{RECORDS_BYTES, SessionPk};
use filrouge_store::{Keyring, Ledger, OsEntropy, Position, View};
use filrouge_types::{ErrorCode, Failure, FixedClock};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{NOON, keyring, on};

mod interrupted;
mod refused;
mod whole;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work)
}

/// Two stores in a folder.
struct Pair(tempfile::TempDir);

impl Pair {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn from(&self) -> PathBuf {
        self.0.path().join("from.db")
    }

    fn to(&self) -> PathBuf {
        self.0.path().join("to.db")
    }

    /// Copies in one go.
    fn copy(&self) -> Result<Copied, Failure> {
        run(&self.from(), intake(&self.to()), Seen::default())
    }

    /// Every row is the same.
    #[track_caller]
    fn equal(&self) {
        let (from, to) = (dump(&self.from()), dump(&self.to()));
        for (table, rows) in &from {
            assert_eq!(rows, &to[table], "{table}");
        }
        assert_eq!(from.len(), to.len());
    }
}

/// Of a process of its own: its names are drawn, not counted.
fn own_options(path: &Path, keyring: Arc<Keyring>) -> Options {
    let clock = Arc::new(FixedClock::at(NOON));
    Options::new(path, keyring, Arc::new(OsEntropy), clock)
}

fn intake(path: &Path) -> Box<dyn Intake> {
    Box::new(SqliteIntake::new(own_options(path, keyring())))
}

fn only_read(path: &Path, keyring: Arc<Keyring>) -> Result<SqliteLedger, Failure> {
    SqliteLedger::open(Options {
        only_read: true,
        ..own_options(path, keyring)
    })
}

/// What a copy has told.
#[derive(Clone, Default)]
struct Seen {
    steps: Arc<Mutex<Vec<(Stage, u64, u64)>>>,
    witnessed: Arc<Mutex<Vec<(String, Position)>>>,
}

impl Watch for Seen {
    fn step(&mut self, stage: Stage, done: u64, all: u64) -> Result<(), Failure> {
        assert!(done <= all, "{stage:?} {done}/{all}");
        self.steps.lock().unwrap().push((stage, done, all));
        Ok(())
    }

    fn witness(&mut self, store: &str, position: Position) -> Result<(), Failure> {
        let mut witnessed = self.witnessed.lock().unwrap();
        witnessed.push((store.to_owned(), position));
        Ok(())
    }
}

fn run(from: &Path, intake: Box<dyn Intake>, seen: Seen) -> Result<Copied, Failure> {
    run_with(from, keyring(), intake, seen)
}

fn run_with(
    from: &Path,
    keyring: Arc<Keyring>,
    mut intake: Box<dyn Intake>,
    mut seen: Seen,
) -> Result<Copied, Failure> {
    block_on(async {
        let source: Arc<dyn Ledger> = Arc::new(only_read(from, keyring)?);
        let id = source.store_id().to_owned();
        let copied = source.ask(move |sight| copy(sight, &id, intake.as_mut(), &mut seen));
        let copied = copied.await;
        source.close().await;
        copied
    })
}

/// An intake that puts a few rows at a time and breaks down after some.
struct Brittle {
    intake: Box<dyn Intake>,
    rows: usize,
    left: usize,
    largest: Arc<Mutex<usize>>,
}

fn brittle(path: &Path, rows: usize, left: usize) -> Box<dyn Intake> {
    Box::new(Brittle {
        intake: intake(path),
        rows,
        left,
        largest: Arc::default(),
    })
}

fn broke_down() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "broke down")
}

impl Intake for Brittle {
    fn holding(&mut self) -> Result<Holding, Failure> {
        self.intake.holding()
    }

    fn begin(&mut self, source: &str) -> Result<Begun, Failure> {
        self.intake.begin(source)
    }

    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.intake.look(question)
    }

    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
        let bytes: usize = rows.iter().map(Piece::bytes).sum();
        let mut largest = self.largest.lock().unwrap();
        *largest = bytes.max(*largest);
        drop(largest);
        for some in rows.chunks(self.rows) {
            self.left = self.left.checked_sub(1).ok_or_else(broke_down)?;
            self.intake.put(some)?;
        }
        Ok(())
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        self.left = self.left.checked_sub(1).ok_or_else(broke_down)?;
        self.intake.finish(newest)
    }
}

/// All rows of all tables but what a store has of its own: its name, and which record is where in the file.
fn dump(path: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let conn = Connection::open(path).unwrap();
    let read = |sql: &str| -> Vec<Vec<Value>> {
        let mut statement = conn.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|i| row.get(i)).collect());
        let mut rows: Vec<Vec<Value>> = rows.unwrap().map(Result::unwrap).collect();
        rows.sort_by_key(|row| format!("{row:?}"));
        rows
    };
    let tables = read("SELECT name FROM sqlite_schema WHERE type = 'table'");
    let mut dump = BTreeMap::new();
    for table in tables.iter().flatten() {
        let Value::Text(table) = table else {
            panic!("{table:?}")
        };
        let sql = match table.as_str() {
            "record" => "SELECT k.session_pk, k.first_seq, k.count, r.head, r.body
                 FROM record_key k LEFT JOIN record r ON r.id = k.record_id"
                .to_owned(),
            "record_key" => "SELECT count(*) FROM record".to_owned(),
            "store" => "SELECT name, value FROM store WHERE name <> 'store_id'".to_owned(),
            table => format!("SELECT * FROM {table}"),
        };
        dump.insert(table.clone(), read(&sql));
    }
    dump
}

/// All files of a store, byte by byte.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let beside = fs::read_dir(path.parent().unwrap()).unwrap();
    let names = beside.map(|entry| entry.unwrap().path());
    let own = names.filter(|p| {
        let other = p.file_name().unwrap().to_str().unwrap();
        // What readers share among themselves is not the store's.
        other.starts_with(name) && !other.ends_with("-shm")
    });
    own.map(|p| (p.display().to_string(), fs::read(&p).unwrap()))
        .collect()
}
