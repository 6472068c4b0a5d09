//! The state of the store as this process knows it: its newest verified commit, and the sessions that fail verification (DESIGN
//! §9).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use filrouge_store::record::MacCheck;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::verify::{KnownHeads, Suspects};
use filrouge_store::{Keyring, Position};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;

use crate::migrate::{self, SCHEMA_VERSION};
use crate::vacuum::Erasure;

/// The number of commits read at once while following.
const COMMITS: usize = 1024;

pub(crate) struct Guard {
    keyring: Arc<Keyring>,
    /// Whether records are verified; without keys they cannot be, and the operator who chose that was warned.
    check: MacCheck,
    /// The newest verified commit.
    newest: Mutex<Option<LogRow>>,
    /// The newest verified commit that may hold more than drafts.
    anchor_position: Mutex<Position>,
    suspects: RwLock<Arc<Suspects>>,
    known_heads: KnownHeads,
    /// The reason why writes are refused at the moment.
    refused: Mutex<Option<String>>,
    /// Publishes the newest commit's number as it grows.
    commits: watch::Sender<u64>,
    /// The reason why this program may no longer write: the store has a newer schema.
    outdated: Mutex<Option<Failure>>,
    /// Whether the watch polls although notifications should arrive.
    polling: AtomicBool,
    erasure: Arc<Erasure>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each lock guards values that are replaced in one step, so a poisoned lock still holds a valid one.
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
    pub(crate) fn new(keyring: Arc<Keyring>, check: MacCheck) -> Self {
        Self {
            keyring,
            check,
            newest: Mutex::default(),
            anchor_position: Mutex::new(position(None)),
            suspects: RwLock::default(),
            known_heads: KnownHeads::default(),
            refused: Mutex::default(),
            commits: watch::Sender::new(0),
            outdated: Mutex::default(),
            polling: AtomicBool::default(),
            erasure: Arc::default(),
        }
    }

    /// Accepts the store's current state as the starting point: what disagrees with its log is refused from the first
    /// read on.
    pub(crate) fn begin(&self, view: &impl View) -> Result<(), Failure> {
        self.compare(view)?;
        match view.newest_log() {
            Ok(newest) => self.advance(newest),
            // The comparison has already marked the entire store as suspect.
            Err(failure) if failure.code == ErrorCode::IntegrityError => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    pub(crate) fn suspects(&self) -> Arc<Suspects> {
        self.suspects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The newest state of all heads and notes.
    pub(crate) const fn known_heads(&self) -> &KnownHeads {
        &self.known_heads
    }

    /// Adds what reads and writes found to the suspects.
    pub(crate) fn suspect_found(&self) {
        self.suspect(self.known_heads.take_found());
    }

    /// Adds suspects: data that differs from what was written. They are never removed.
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

    /// The reason why writes are refused at the moment; `None` if they are not.
    pub(crate) fn refused(&self) -> Option<String> {
        locked(&self.refused).clone()
    }

    /// Records the outcome of the newest write: `None` for success, else the failure.
    pub(crate) fn note_write(&self, why: Option<&Failure>) {
        let mut refused = locked(&self.refused);
        match why {
            Some(failure) if refused.is_none() => {
                tracing::error!(%failure, "PostgreSQL accepts no writes; each new write is attempted");
            }
            None if refused.is_some() => tracing::info!("PostgreSQL accepts writes again"),
            _ => {}
        }
        *refused = why.map(|failure| failure.detail.clone());
    }

    /// The reason why this program may not write to the store, if its schema became newer.
    pub(crate) fn outdated(&self) -> Option<Failure> {
        locked(&self.outdated).clone()
    }

    /// Records the store's current schema version.
    pub(crate) fn note_schema(&self, schema: Option<&str>) {
        let newer = schema
            .and_then(|s| s.parse().ok())
            .filter(|s| *s > SCHEMA_VERSION);
        let failure = newer.map(|version| {
            let newer = migrate::newer(version, SCHEMA_VERSION);
            let failure = Failure::new(ErrorCode::StoreReadOnly, newer.detail);
            match newer.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        });
        let mut outdated = locked(&self.outdated);
        match &failure {
            Some(failure) if outdated.is_none() => {
                tracing::error!(%failure, "a newer filrouge migrated the store: this one no longer writes to it");
            }
            None if outdated.is_some() => tracing::info!("the store's schema is known again"),
            _ => {}
        }
        *outdated = failure;
    }

    /// Records whether notifications of other servers' commits arrive: `None` if they do, else the failure.
    pub(crate) fn note_notifications(&self, why: Option<&Failure>) {
        match (why, self.polling.swap(why.is_some(), Ordering::AcqRel)) {
            (Some(failure), false) => {
                tracing::warn!(%failure, "no notifications of other servers' commits arrive; they are polled for over the store's URL");
            }
            (None, true) => tracing::info!("notifications of other servers' commits arrive again"),
            _ => {}
        }
    }

    /// The erasures of this process.
    pub(crate) const fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }

    pub(crate) fn advance(&self, row: Option<LogRow>) {
        let mut newest = locked(&self.newest);
        if number(row.as_ref()) > number(newest.as_ref()) {
            let next = number(row.as_ref()) == number(newest.as_ref()) + 1;
            if !(next && row.as_ref().is_some_and(LogRow::is_drafts)) {
                *locked(&self.anchor_position) = position(row.as_ref());
            }
            if let Some(row) = &row {
                self.known_heads.advance(row);
            }
            self.commits.send_replace(number(row.as_ref()));
            *newest = row;
        }
    }

    pub(crate) fn anchor_position(&self) -> Position {
        *locked(&self.anchor_position)
    }

    pub(crate) const fn commits(&self) -> &watch::Sender<u64> {
        &self.commits
    }

    pub(crate) fn position(&self) -> Position {
        position(locked(&self.newest).as_ref())
    }

    /// The newest commit that this process knows.
    pub(crate) fn newest(&self) -> Option<LogRow> {
        locked(&self.newest).clone()
    }

    /// Compares `newest`, the newest commit of a snapshot, with `verified`, the newest verified one before the snapshot
    /// began. Returns whether there are unverified commits in between.
    pub(crate) fn compare_newest(
        &self,
        verified: Option<&LogRow>,
        newest: Option<&LogRow>,
    ) -> bool {
        if self.check == MacCheck::Unverified {
            return false;
        }
        let (before, after) = (number(verified), number(newest));
        if after < before {
            let what = format!("commits {} to {before} were removed", after + 1);
            self.suspect(Suspects::everything(what));
        } else if after == before && verified != newest {
            self.suspect(Suspects::everything(format!("commit {after} was changed")));
        }
        after > before
    }

    /// Verifies the commits of `view` after `verified`, the newest verified one before the snapshot began, up to
    /// `newest`: each must continue the chain of its predecessor. Uses the commits in `fetched` instead of a query if
    /// they directly follow `verified`.
    pub(crate) fn follow(
        &self,
        view: &impl View,
        verified: Option<LogRow>,
        newest: Option<&LogRow>,
        fetched: Vec<LogRow>,
    ) -> Result<(), Failure> {
        if !self.compare_newest(verified.as_ref(), newest) {
            return Ok(());
        }
        let mut previous = verified;
        let next = number(previous.as_ref()) + 1;
        let fetched = fetched.into_iter().filter(|r| r.commit_no >= next);
        let mut fetched: Vec<LogRow> = fetched.collect();
        fetched.sort_unstable_by_key(|row| row.commit_no);
        if fetched.first().is_some_and(|row| row.commit_no != next) {
            fetched.clear();
        }
        while number(previous.as_ref()) < number(newest) {
            let rows = if fetched.is_empty() {
                view.log(number(previous.as_ref()), COMMITS)
            } else {
                Ok(std::mem::take(&mut fetched))
            };
            let rows = match rows {
                Err(failure) if failure.code == ErrorCode::IntegrityError => {
                    self.suspect(Suspects::everything(failure.detail));
                    return Ok(());
                }
                rows => rows?,
            };
            if rows.is_empty() {
                self.suspect(Suspects::everything("commits are missing".to_owned()));
                return Ok(());
            }
            for row in rows {
                if row.follows(previous.as_ref(), &self.keyring) == Some(false) {
                    let what = format!("the commit log is broken at commit {}", row.commit_no);
                    self.suspect(Suspects::everything(what));
                    return Ok(());
                }
                self.known_heads.advance(&row);
                previous = Some(row);
            }
        }
        self.advance(previous);
        Ok(())
    }

    /// Compares all sessions with the commit log; returns how long it took.
    pub(crate) fn compare(&self, view: &impl View) -> Result<std::time::Duration, Failure> {
        let begun = Instant::now();
        if self.check == MacCheck::Keyed {
            let found = self.known_heads.compare(view, &self.keyring)?;
            self.suspect(found);
        }
        Ok(begun.elapsed())
    }
}
