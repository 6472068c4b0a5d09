//! Tracks the store's known state and detects changes made outside filrouge (DESIGN §9).
//!
//! SQLite reports to each connection whether another connection has changed the file (`data_version`). The store
//! state has one connection only for this. The writer announces this process's own commits to the store state, so every
//! other change is foreign. If a foreign change has a matching row in the commit log, another process of filrouge made
//! it. If not, another program did: the store state then compares all sessions with the log. Reads and writes of the
//! sessions that disagree are refused until a later comparison finds them repaired.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use filrouge_store::record::MacCheck;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::verify::{Suspects, VerifiedLog};
use filrouge_store::{Keyring, Lane, LanePosition, Lanes};
use filrouge_types::{Clock, ErrorCode, Failure, lock};
use rusqlite::Connection;

use crate::error::failure;
use crate::rows::Rows;

/// The minimum time between two comparisons of all sessions with the log, if other processes only made commits that are
/// in the log; in microseconds.
const COMPARE_EVERY_MICROS: i64 = 1_000_000;
/// Such comparisons use at most 1/`COMPARE_SHARE` of the time.
const COMPARE_SHARE: i64 = 50;

pub(crate) struct StoreState {
    /// Without keys, it detects no foreign changes; the operator was warned.
    pub(crate) log: VerifiedLog,
    clock: Arc<dyn Clock>,
    watch: Mutex<ChangeWatch>,
    /// True from the start of a commit of this process until `watch` has recorded it.
    committing: AtomicBool,
    /// The reason why this process no longer writes to the store; `None` while it does.
    read_only: Mutex<Option<String>>,
    /// Whether the newest write found the disk full.
    full: AtomicBool,
}

/// What is known about changes of the file.
struct ChangeWatch {
    conn: Connection,
    /// The file's `data_version` up to which all changes are accounted for.
    seen_version: Option<i64>,
    /// The time of the last comparison of all sessions, in microseconds since 1970.
    compared_at: i64,
    /// The current minimum time between two comparisons, in microseconds.
    compare_every: i64,
    /// Whether, since the last comparison, other processes have committed changes with matching commit log rows, or a
    /// read has found a suspect.
    comparison_due: bool,
}

impl StoreState {
    /// Compares all sessions of a store that is being opened with its log; keeps `conn` to detect foreign changes.
    pub(crate) fn new(
        conn: Connection,
        keyring: Arc<Keyring>,
        clock: Arc<dyn Clock>,
        check: MacCheck,
    ) -> Result<Self, Failure> {
        let store_state = Self {
            log: VerifiedLog::new(keyring, check, Lanes::ONE),
            watch: Mutex::new(ChangeWatch {
                conn,
                seen_version: None,
                compared_at: clock.now().as_micros(),
                compare_every: COMPARE_EVERY_MICROS,
                comparison_due: false,
            }),
            clock,
            committing: AtomicBool::new(false),
            read_only: Mutex::default(),
            full: AtomicBool::new(false),
        };
        let mut watch = lock(&store_state.watch);
        let conn = &watch.conn;
        let seen = in_snapshot(conn, |rows| {
            store_state.log.initialize(rows)?;
            data_version(rows.conn)
        })?;
        watch.seen_version = Some(seen);
        drop(watch);
        Ok(store_state)
    }

    /// The reason why this process no longer writes to the store; `None` while it does.
    pub(crate) fn read_only(&self) -> Option<String> {
        lock(&self.read_only).clone()
    }

    /// Records whether the disk had room for the newest write.
    pub(crate) fn record_disk_room(&self, has_room: bool) {
        self.full.store(!has_room, Ordering::Relaxed);
    }

    /// The reason why the store accepts no writes now; `None` if it accepts them.
    pub(crate) fn write_refusal_reason(&self) -> Option<String> {
        let full = || "the disk is full; writes are accepted again once space is free".to_owned();
        self.read_only()
            .or_else(|| self.full.load(Ordering::Relaxed).then(full))
    }

    /// Makes the store read-only for this process, which acknowledges no further write.
    pub(crate) fn stop_writing(&self, why: String) {
        tracing::error!(%why, "a flush failed: the store accepts no writes until it is opened again");
        lock(&self.read_only).get_or_insert(why);
    }

    /// Marks the start of a commit: the writer holds the file's write lock and has checked for foreign changes.
    pub(crate) fn begin_commit(&self) {
        self.committing.store(true, Ordering::SeqCst);
    }

    /// Marks the end of a commit. `row` is its log row if it is durable; `None` if it failed. `is_file_unchanged`: no
    /// other process has changed the file since the commit began.
    pub(crate) fn end_commit(&self, row: Option<LogRow>, is_file_unchanged: bool) {
        let mut watch = lock(&self.watch);
        if let Some(row) = row {
            self.log.advance(Some(row));
            if is_file_unchanged {
                watch.seen_version = data_version(&watch.conn).ok();
            }
        }
        self.committing.store(false, Ordering::SeqCst);
    }

    /// Adds to the suspects what a read has found. Its snapshot may be older than a repair that was already noticed, so
    /// all sessions are compared once more.
    pub(crate) fn add_found_suspects(&self) {
        if self.log.add_found_suspects() {
            lock(&self.watch).comparison_due = true;
        }
    }

    /// Checks for changes of the file that this process did not make. The caller must begin its snapshot before this
    /// call: then everything in the snapshot has been checked when the call returns.
    pub(crate) fn check_foreign_changes(&self) -> Result<(), Failure> {
        if self.log.is_unverified() {
            return Ok(());
        }
        let mut watch = lock(&self.watch);
        let version = data_version(&watch.conn)?;
        let now = self.clock.now().as_micros();
        let interval_over = (now - watch.compared_at).abs() >= watch.compare_every;
        let has_changed = watch.seen_version != Some(version);
        // While this process commits, the change is its own: after it acquired the write lock, it checked for changes
        // by others.
        if !(has_changed || watch.comparison_due && interval_over)
            || self.committing.load(Ordering::SeqCst)
        {
            return Ok(());
        }
        // The newest verified commit is read before the snapshot begins, so the snapshot must contain it.
        let verified = self.log.newest(Lane::FIRST);
        let conn = &watch.conn;
        let (version, comparison_time) = in_snapshot(conn, |rows| {
            let version = data_version(rows.conn)?;
            match rows.newest_log(Lane::FIRST) {
                Ok(newest) => {
                    let log = &self.log;
                    let (verified, newest) = (verified.as_deref(), newest.as_ref());
                    log.verify_new_commits(rows, Lane::FIRST, verified, newest, &[])?;
                }
                Err(failure) if failure.code == ErrorCode::IntegrityError => {
                    self.log
                        .add_suspects(Suspects::entire_store(failure.detail));
                }
                Err(failure) => return Err(failure),
            }
            let verified = LanePosition::of_commit(verified.as_deref());
            let position = self.log.position().lane(Lane::FIRST);
            let is_explained = !has_changed || position != verified;
            if is_explained && !interval_over {
                return Ok((version, None));
            }
            let start = Instant::now();
            self.log.compare(rows)?;
            Ok((version, Some(start.elapsed())))
        })?;
        watch.seen_version = Some(version);
        watch.comparison_due = comparison_time.is_none();
        if let Some(cost) = comparison_time {
            let cost = i64::try_from(cost.as_micros()).unwrap_or(i64::MAX);
            watch.compared_at = now;
            watch.compare_every = COMPARE_EVERY_MICROS.max(cost.saturating_mul(COMPARE_SHARE));
        }
        Ok(())
    }
}

/// Runs `query` in one snapshot of the file.
pub(crate) fn in_snapshot<R>(
    conn: &Connection,
    query: impl FnOnce(&Rows<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let run = |sql| conn.prepare_cached(sql).and_then(|mut s| s.execute([]));
    run("BEGIN").map_err(failure)?;
    // BEGIN alone takes no snapshot; the first read does.
    let begun = conn
        .prepare_cached("SELECT count(*) FROM store")
        .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
    let result = begun.map_err(failure).and_then(|_| query(&Rows::new(conn)));
    let ended = run("ROLLBACK").map_err(failure);
    result.and_then(|value| ended.map(|_| value))
}

/// SQLite's `data_version`: a number that changes when another connection has changed the file.
pub(crate) fn data_version(conn: &Connection) -> Result<i64, Failure> {
    conn.prepare_cached("PRAGMA data_version")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(failure)
}
