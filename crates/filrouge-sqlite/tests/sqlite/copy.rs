//! Copies into a file: the copy has all data of its source, even when the copy is interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use filrouge_sqlite::{Options, SqliteCopyTarget, SqliteLedger};
use filrouge_store::copy::{
    Copied, CopyObserver, CopyStage, CopyTarget, CopyWrites, StartedCopy, TargetContents, copy,
};
use filrouge_store::{Keyring, Ledger, OsEntropy, Position, View};
use filrouge_types::{ErrorCode, Failure, FixedClock};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{START_TIME, fixture_at, keyring};

mod interrupted;
mod lanes;
mod refused;
mod turn_ids;
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

    /// Asserts that the source and the target have the same contents.
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
    /// The ends of the copy's log that the observer was given for notes.
    ends: Arc<Mutex<Vec<Position>>>,
}

impl CopyObserver for Progress {
    fn progress(&mut self, stage: CopyStage, done: u64, total: u64) -> Result<(), Failure> {
        assert!(done <= total, "{stage:?} {done}/{total}");
        self.steps.lock().unwrap().push((stage, done, total));
        Ok(())
    }

    fn note_value(&mut self, name: &str, value: Vec<u8>, end: &Position) -> Option<Vec<u8>> {
        self.ends.lock().unwrap().push(end.clone());
        (name != "left out").then_some(value)
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
    copy_target: Box<dyn CopyTarget>,
    progress: Progress,
) -> Result<Copied, Failure> {
    block_on(async {
        let source: Arc<dyn Ledger> = Arc::new(open_read_only(from, keyring)?);
        let copied = run_from(&source, copy_target, progress).await;
        source.close().await;
        copied
    })
}

async fn run_from(
    source: &Arc<dyn Ledger>,
    mut copy_target: Box<dyn CopyTarget>,
    mut progress: Progress,
) -> Result<Copied, Failure> {
    let id = source.store_id().to_owned();
    let copied =
        source.query(move |snapshot| copy(snapshot, &id, copy_target.as_mut(), &mut progress));
    copied.await
}

/// A copy target that writes a few rows at a time and fails after a number of transactions.
struct FailingTarget {
    copy_target: Box<dyn CopyTarget>,
    rows: usize,
    writes_left: usize,
    /// The number of transactions so far.
    writes: Arc<Mutex<usize>>,
}

fn failing_target(path: &Path, rows: usize, writes_left: usize) -> Box<FailingTarget> {
    Box::new(FailingTarget {
        copy_target: copy_target(path),
        rows,
        writes_left,
        writes: Arc::default(),
    })
}

impl FailingTarget {
    fn count_write(&mut self) -> Result<(), Failure> {
        let left = self.writes_left.checked_sub(1);
        self.writes_left = left.ok_or_else(injected_failure)?;
        *self.writes.lock().unwrap() += 1;
        Ok(())
    }
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

    fn rows_per_transaction(&self) -> usize {
        self.rows
    }

    fn write(&mut self, work: CopyWrites<'_>) -> Result<(), Failure> {
        self.count_write()?;
        self.copy_target.write(work)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.count_write()?;
        self.copy_target.finish()
    }
}

/// The contents of each table that a copy keeps, in SQL: all columns, except session numbers, in whose place are the
/// sessions' names, and MACs, which end most values.
const CONTENTS: [(&str, &str); 11] = [
    (
        "session",
        "tenant_id, session_id, identity_id, parent_session_id, project_id, team_id, title, status, state, metadata,
             created_at, token, erased FROM session",
    ),
    (
        "head",
        "s.tenant_id, s.session_id, substr(t.data, 1, length(t.data) - 16)
             FROM head t LEFT JOIN session s USING (pk)",
    ),
    (
        "turn",
        "s.tenant_id, s.session_id, t.id & 0xffffffff, t.turn_id, t.open_since, substr(t.data, 1, length(t.data) - 16)
             FROM turn t LEFT JOIN session s ON s.pk = t.id >> 32",
    ),
    (
        "record",
        "s.tenant_id, s.session_id, k.first_seq, k.count, t.head, t.body FROM record_key k
             LEFT JOIN record t ON t.id = k.record_id LEFT JOIN session s ON s.pk = k.session_pk",
    ),
    (
        "item_key",
        "s.tenant_id, s.session_id, t.key, t.seq FROM item_key t LEFT JOIN session s ON s.pk = t.session_pk",
    ),
    (
        "session_agent",
        "s.tenant_id, s.session_id, t.agent, substr(t.data, 1, length(t.data) - 16)
             FROM session_agent t LEFT JOIN session s ON s.pk = t.session_pk",
    ),
    (
        "event",
        "s.tenant_id, s.session_id, t.number, t.key, t.at, substr(t.data, 1, length(t.data) - 16)
             FROM event t LEFT JOIN session s ON s.pk = t.session_pk",
    ),
    (
        "checkpoint",
        "s.tenant_id, s.session_id, t.seq, substr(t.data, 1, length(t.data) - 16)
             FROM checkpoint t LEFT JOIN session s ON s.pk = t.session_pk",
    ),
    (
        "draft",
        "s.tenant_id, s.session_id, t.turn & 0xffffffff, substr(t.data, 1, length(t.data) - 16)
             FROM draft t LEFT JOIN session s ON s.pk = t.turn >> 32",
    ),
    // The MAC of a chunk follows its first five bytes.
    (
        "draft_chunk",
        "s.tenant_id, s.session_id, t.turn & 0xffffffff, t.number, substr(t.data, 22)
             FROM draft_chunk t LEFT JOIN session s ON s.pk = t.turn >> 32",
    ),
    (
        "note",
        "name, substr(data, 1, length(data) - 16) FROM note",
    ),
];

/// The rows of [`CONTENTS`], by table.
fn dump(path: &Path) -> BTreeMap<&'static str, Vec<Vec<Value>>> {
    let conn = Connection::open(path).unwrap();
    let read = |columns: &str| -> Vec<Vec<Value>> {
        let mut statement = conn.prepare(&format!("SELECT {columns}")).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|i| row.get(i)).collect());
        let mut rows: Vec<Vec<Value>> = rows.unwrap().map(Result::unwrap).collect();
        rows.sort_by_key(|row| format!("{row:?}"));
        rows
    };
    let tables = CONTENTS.iter();
    tables.map(|(table, sql)| (*table, read(sql))).collect()
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
