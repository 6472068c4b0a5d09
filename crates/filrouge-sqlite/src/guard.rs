//! What this process knows the store to be, and the watch for changes made outside filrouge (DESIGN §9).
//!
//! SQLite tells a connection when another one has changed the file. One connection does nothing but watch: it is
//! told of this process's own commits by the writer, so that every other change it sees is foreign. A foreign
//! change that no commit log row explains was made by something else than filrouge: then all sessions are compared
//! with the log, and what does not agree is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use filrouge_store::record::Check;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::verify::{Suspects, find_suspects};
use filrouge_store::{Keyring, Position};
use filrouge_types::{Clock, ErrorCode, Failure};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::error::failure;
use crate::rows::Rows;

/// After commits of other processes the sessions are compared with the log at most this often…
const COMPARE_EVERY_MICROS: i64 = 1_000_000;
/// …and for at most this part of the time.
const COMPARE_SHARE: i64 = 50;

pub(crate) struct Guard {
    keyring: Arc<Keyring>,
    /// Without keys there is nothing to compare with: who reads so has been told.
    check: Check,
    clock: Arc<dyn Clock>,
    /// The newest commit known to be genuine.
    newest: Mutex<Option<LogRow>>,
    /// The newest of them that is not known to hold nothing but drafts.
    witnessed: Mutex<Position>,
    watch: Mutex<Watch>,
    /// From before a commit of this process until the watch has been told of it.
    committing: AtomicBool,
    suspects: RwLock<Arc<Suspects>>,
    read_only: Mutex<Option<String>>,
    /// Whether the newest write found no room.
    full: AtomicBool,
    /// Tells of the newest commit's number as it grows.
    commits: watch::Sender<u64>,
}

struct Watch {
    conn: Connection,
    /// The file's version up to which all changes are accounted for.
    seen: Option<i64>,
    compared_at: i64,
    compare_every: i64,
    /// Changes since the last comparison that the log explains.
    due: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each lock guards values that are replaced whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn position(row: Option<&LogRow>) -> Position {
    Position {
        commit_no: number(row),
        link: row.map_or([0; 16], |r| r.link),
    }
}

fn number(row: Option<&LogRow>) -> u64 {
    row.map_or(0, |r| r.commit_no)
}

impl Guard {
    /// Looks at a store that is being opened; `conn` is kept for watching.
    pub(crate) fn new(
        conn: Connection,
        keyring: Arc<Keyring>,
        clock: Arc<dyn Clock>,
        check: Check,
    ) -> Result<Self, Failure> {
        let guard = Self {
            newest: Mutex::default(),
            witnessed: Mutex::new(position(None)),
            watch: Mutex::new(Watch {
                conn,
                seen: None,
                compared_at: clock.now().as_micros(),
                compare_every: COMPARE_EVERY_MICROS,
                due: false,
            }),
            keyring,
            check,
            clock,
            committing: AtomicBool::new(false),
            suspects: RwLock::new(Arc::default()),
            read_only: Mutex::default(),
            full: AtomicBool::new(false),
            commits: watch::Sender::new(0),
        };
        let mut watch = locked(&guard.watch);
        let seen = in_snapshot(&watch.conn, |rows| {
            if check == Check::Keyed {
                guard.suspect(find_suspects(rows, &guard.keyring)?);
            }
            match rows.newest_log() {
                Ok(newest) => guard.advance(newest),
                // The comparison above has refused the whole store for it.
                Err(failure) if failure.code == ErrorCode::IntegrityError => {}
                Err(failure) => return Err(failure),
            }
            data_version(rows.0)
        })?;
        watch.seen = Some(seen);
        drop(watch);
        Ok(guard)
    }

    pub(crate) fn suspects(&self) -> Arc<Suspects> {
        self.suspects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes note of what is not what was written; never forgets.
    pub(crate) fn suspect(&self, more: Suspects) {
        if !more.is_empty() {
            tracing::error!(suspects = %more, "the store was changed outside filrouge");
            let mut suspects = self
                .suspects
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            *suspects = Arc::new(suspects.and(more));
        }
    }

    pub(crate) fn read_only(&self) -> Option<String> {
        locked(&self.read_only).clone()
    }

    /// Whether the newest write found room on the disk.
    pub(crate) fn found_room(&self, room: bool) {
        self.full.store(!room, Ordering::Relaxed);
    }

    /// Why no write is taken now, if none is.
    pub(crate) fn takes_no_writes(&self) -> Option<String> {
        let full = || "the disk is full; writes are taken again once there is room".to_owned();
        self.read_only()
            .or_else(|| self.full.load(Ordering::Relaxed).then(full))
    }

    /// No write is acknowledged any more by this process.
    pub(crate) fn stop_writing(&self, why: String) {
        tracing::error!(%why, "a flush failed: the store takes no writes until it is opened again");
        locked(&self.read_only).get_or_insert(why);
    }

    /// The writer is about to commit: it holds the file's write lock and has looked for foreign changes.
    pub(crate) fn committing(&self) {
        self.committing.store(true, Ordering::SeqCst);
    }

    /// The commit is durable (`row`) or has failed. `quiet`: nobody else has changed the file in the meantime.
    pub(crate) fn committed(&self, row: Option<LogRow>, quiet: bool) {
        let mut watch = locked(&self.watch);
        if let Some(row) = row {
            self.advance(Some(row));
            if quiet {
                watch.seen = data_version(&watch.conn).ok();
            }
        }
        self.committing.store(false, Ordering::SeqCst);
    }

    fn advance(&self, row: Option<LogRow>) {
        let mut newest = locked(&self.newest);
        if number(row.as_ref()) > number(newest.as_ref()) {
            let next = number(row.as_ref()) == number(newest.as_ref()) + 1;
            if !(next && row.as_ref().is_some_and(LogRow::is_drafts)) {
                *locked(&self.witnessed) = position(row.as_ref());
            }
            self.commits.send_replace(number(row.as_ref()));
            *newest = row;
        }
    }

    pub(crate) fn witnessed(&self) -> Position {
        *locked(&self.witnessed)
    }

    pub(crate) const fn commits(&self) -> &watch::Sender<u64> {
        &self.commits
    }

    pub(crate) fn position(&self) -> Position {
        position(locked(&self.newest).as_ref())
    }

    /// Looks for changes of the file that are not this process's own. Whoever asks has begun its snapshot
    /// before, so that all it can see has been looked at when this returns.
    pub(crate) fn look(&self) -> Result<(), Failure> {
        if self.check == Check::Unverified {
            return Ok(());
        }
        let mut watch = locked(&self.watch);
        let version = data_version(&watch.conn)?;
        let now = self.clock.now().as_micros();
        let ripe = (now - watch.compared_at).abs() >= watch.compare_every;
        let changed = watch.seen != Some(version);
        // While the writer commits, the change is its own: it has looked after taking the write lock.
        if !(changed || watch.due && ripe) || self.committing.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Taken before the snapshot, which therefore holds at least this commit.
        let known = locked(&self.newest).clone();
        let (version, found, compared) = in_snapshot(&watch.conn, |rows| {
            let version = data_version(rows.0)?;
            let found = match self.follow(rows, known.as_ref())? {
                Ok(found) => found,
                Err(what) => {
                    self.suspect(Suspects::everything(what));
                    return Ok((version, None, None));
                }
            };
            let explained = !changed || number(found.as_ref()) > number(known.as_ref());
            if explained && !ripe {
                return Ok((version, found, None));
            }
            let begun = Instant::now();
            self.suspect(find_suspects(rows, &self.keyring)?);
            Ok((version, found, Some(begun.elapsed())))
        })?;
        self.advance(found);
        watch.seen = Some(version);
        watch.due = compared.is_none();
        if let Some(cost) = compared {
            let cost = i64::try_from(cost.as_micros()).unwrap_or(i64::MAX);
            watch.compared_at = now;
            watch.compare_every = COMPARE_EVERY_MICROS.max(cost.saturating_mul(COMPARE_SHARE));
        }
        Ok(())
    }

    /// The store's newest commit, if it follows from `known`; the inner failure is a log that was changed.
    fn follow(
        &self,
        view: &Rows<'_>,
        known: Option<&LogRow>,
    ) -> Result<Result<Option<LogRow>, String>, Failure> {
        let found = match view.newest_log() {
            Err(failure) if failure.code == ErrorCode::IntegrityError => {
                return Ok(Err(failure.detail));
            }
            found => found?,
        };
        let (before, after) = (number(known), number(found.as_ref()));
        if after < before {
            return Ok(Err(format!(
                "commits {} to {before} were removed",
                after + 1
            )));
        }
        if after == before {
            let same = known == found.as_ref();
            return Ok(same
                .then_some(found)
                .ok_or_else(|| format!("commit {after} was changed")));
        }
        let mut previous = known.cloned();
        while number(previous.as_ref()) < after {
            let rows = match view.log(number(previous.as_ref()), 1024) {
                Err(failure) if failure.code == ErrorCode::IntegrityError => {
                    return Ok(Err(failure.detail));
                }
                rows => rows?,
            };
            for row in rows {
                if row.follows(previous.as_ref(), &self.keyring) == Some(false) {
                    let what = format!("the commit log is broken at commit {}", row.commit_no);
                    return Ok(Err(what));
                }
                previous = Some(row);
            }
        }
        Ok(Ok(previous))
    }
}

/// Asks one snapshot of the file.
pub(crate) fn in_snapshot<R>(
    conn: &Connection,
    question: impl FnOnce(&Rows<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let run = |sql| conn.prepare_cached(sql).and_then(|mut s| s.execute([]));
    run("BEGIN").map_err(failure)?;
    // BEGIN alone takes no snapshot; the first read does.
    let begun = conn
        .prepare_cached("SELECT count(*) FROM store")
        .and_then(|mut s| s.query_row([], |row| row.get::<_, i64>(0)));
    let answer = begun.map_err(failure).and_then(|_| question(&Rows(conn)));
    let ended = run("ROLLBACK").map_err(failure);
    answer.and_then(|a| ended.map(|_| a))
}

/// Changes when another connection has changed the file.
pub(crate) fn data_version(conn: &Connection) -> Result<i64, Failure> {
    conn.prepare_cached("PRAGMA data_version")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(failure)
}
