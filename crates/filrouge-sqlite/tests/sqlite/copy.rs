//! Copies from file to file: all copied rows are equal, even when the copy is interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::{Options, SqliteCopyTarget, SqliteLedger};
use filrouge_store::copy::{
    Copied, CopyObserver, CopyRow, CopyStage, CopyTarget, StartedCopy, TargetContents, copy,
};
use filrouge_store::rows::{RECORDS_BYTES, SessionPk};
use filrouge_store::{Keyring, Ledger, OsEntropy, Position, View};
use filrouge_types::{ErrorCode, Failure, FixedClock};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{START_TIME, fixture_at, keyring};

mod interrupted;
mod refused;
mod uninterrupted;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(work)
}

/// A source and a target in one folder.
struct Pair(tempfile::TempDir);

impl Pair {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn source(&self) -> PathBuf {
        self.0.path().join("source.db")
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("target.db")
    }

    /// Copies in one run.
    fn copy(&self) -> Result<Copied, Failure> {
        run(
            &self.source(),
            copy_target(&self.target()),
            Progress::default(),
        )
    }

    /// Asserts that the source and the target have equal rows.
    #[track_caller]
    fn assert_equal(&self) {
        let (source, target) = (dump(&self.source()), dump(&self.target()));
        for (table, rows) in &source {
            assert_eq!(rows, &target[table], "{table}");
        }
        assert_eq!(source.len(), target.len());
    }
}

/// Options of a separate process: ids are random instead of counted.
fn own_options(path: &Path, keyring: Arc<Keyring>) -> Options {
    let clock = Arc::new(FixedClock::at(START_TIME));
    Options::new(path, keyring, Arc::new(OsEntropy), clock)
}

fn copy_target(path: &Path) -> Box<dyn CopyTarget> {
    Box::new(SqliteCopyTarget::new(own_options(path, keyring())))
}

fn open_read_only(path: &Path, keyring: Arc<Keyring>) -> Result<SqliteLedger, Failure> {
    SqliteLedger::open(Options {
        only_read: true,
        ..own_options(path, keyring)
    })
}

/// Records the progress that a copy reports.
#[derive(Clone, Default)]
struct Progress {
    steps: Arc<Mutex<Vec<(CopyStage, u64, u64)>>>,
    anchors: Arc<Mutex<Vec<(String, Position)>>>,
}

impl CopyObserver for Progress {
    fn progress(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure> {
        assert!(done <= total, "{stage:?} {done}/{total}");
        self.steps.lock().unwrap().push((stage, done, total));
        Ok(())
    }

    fn write_anchor(&mut self, store: &str, position: Position) -> Result<(), Failure> {
        let mut anchors = self.anchors.lock().unwrap();
        anchors.push((store.to_owned(), position));
        Ok(())
    }
}

fn run(
    from: &Path,
    copy_target: Box<dyn CopyTarget>,
    progress: Progress,
) -> Result<Copied, Failure> {
    run_with(from, keyring(), copy_target, progress)
}

fn run_with(
    from: &Path,
    keyring: Arc<Keyring>,
    mut copy_target: Box<dyn CopyTarget>,
    mut progress: Progress,
) -> Result<Copied, Failure> {
    block_on(async {
        let source: Arc<dyn Ledger> = Arc::new(open_read_only(from, keyring)?);
        let id = source.store_id().to_owned();
        let copied =
            source.query(move |snapshot| copy(snapshot, &id, copy_target.as_mut(), &mut progress));
        let copied = copied.await;
        source.close().await;
        copied
    })
}

/// A copy target that writes a few rows at a time and fails after a number of writes.
struct FailingTarget {
    copy_target: Box<dyn CopyTarget>,
    rows: usize,
    writes_left: usize,
    largest: Arc<Mutex<usize>>,
}

fn failing_target(path: &Path, rows: usize, writes_left: usize) -> Box<dyn CopyTarget> {
    Box::new(FailingTarget {
        copy_target: copy_target(path),
        rows,
        writes_left,
        largest: Arc::default(),
    })
}

fn injected_failure() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "injected failure")
}

impl CopyTarget for FailingTarget {
    fn contents(&mut self) -> Result<TargetContents, Failure> {
        self.copy_target.contents()
    }

    fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
        self.copy_target.begin(source)
    }

    fn with_view(
        &mut self,
        query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.copy_target.with_view(query)
    }

    fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure> {
        let bytes: usize = rows.iter().map(CopyRow::bytes).sum();
        let mut largest = self.largest.lock().unwrap();
        *largest = bytes.max(*largest);
        drop(largest);
        for chunk in rows.chunks(self.rows) {
            self.writes_left = self
                .writes_left
                .checked_sub(1)
                .ok_or_else(injected_failure)?;
            self.copy_target.put(chunk)?;
        }
        Ok(())
    }

    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
        self.writes_left = self
            .writes_left
            .checked_sub(1)
            .ok_or_else(injected_failure)?;
        self.copy_target.finish(newest)
    }
}

/// All rows of all tables, except values that differ between stores: the store's id, and the row ids of records.
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

/// The bytes of all files of a store.
fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let siblings = fs::read_dir(path.parent().unwrap()).unwrap();
    let names = siblings.map(|entry| entry.unwrap().path());
    let own = names.filter(|p| {
        let other = p.file_name().unwrap().to_str().unwrap();
        // The `-shm` file is shared by readers and not part of the store.
        other.starts_with(name) && !other.ends_with("-shm")
    });
    own.map(|p| (p.display().to_string(), fs::read(&p).unwrap()))
        .collect()
}
