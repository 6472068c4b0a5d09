//! Detects changes of the store that filrouge did not make (DESIGN §9). The guard knows the store's newest verified
//! commit, and the sessions that failed verification.

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

/// The maximum number of commits that one query reads.
const COMMITS: usize = 1024;

/// What this process knows about the store; its readers, writer and watch share it.
pub(crate) struct Guard {
    keyring: Arc<Keyring>,
    /// Whether MACs are checked. If not, because the operator opened the store without its keys, new commits are not
    /// verified either.
    check: MacCheck,
    /// The newest verified commit; `None` if the store has none.
    newest: Mutex<Option<LogRow>>,
    /// The newest verified commit that an anchor must record. Later commits contain only drafts.
    anchor_position: Mutex<Position>,
    /// The data that was changed outside filrouge. Reads and writes of it are refused.
    suspects: RwLock<Arc<Suspects>>,
    known_heads: KnownHeads,
    /// Why the newest write failed; `None` if it succeeded.
    refused: Mutex<Option<String>>,
    /// Publishes the number of the newest verified commit.
    commits: watch::Sender<u64>,
    /// Set while the store has a newer schema than this program knows: then the program may not write.
    outdated: Mutex<Option<Failure>>,
    /// Whether the watch polls because it cannot receive notifications.
    polling: AtomicBool,
    erasure: Arc<Erasure>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value behind each lock is replaced in one step, so it is valid even if a thread panicked while it held the
    // lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The position of a commit; number 0 for `None`.
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

    /// Starts with the store's current state, when the store is opened. Sessions that disagree with the commit log
    /// become suspects, so already the first read of them is refused. The newest commit counts as verified.
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

    /// The newest state of all heads and notes, with which rows are compared when they are read.
    pub(crate) const fn known_heads(&self) -> &KnownHeads {
        &self.known_heads
    }

    /// Adds to the suspects what reads and writes found when they compared rows with [`Self::known_heads`].
    pub(crate) fn suspect_found(&self) {
        self.suspect(self.known_heads.take_found());
    }

    /// Adds suspects: data that differs from what filrouge wrote. A suspect is never removed.
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

    /// The reason why the newest write failed, if PostgreSQL accepts no writes at the moment.
    pub(crate) fn refused(&self) -> Option<String> {
        locked(&self.refused).clone()
    }

    /// Records the outcome of the newest write: `why` is `None` if it succeeded, else the failure.
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

    /// The reason why this program may not write to the store: a newer filrouge has migrated the schema. `None` if it
    /// may write.
    pub(crate) fn outdated(&self) -> Option<Failure> {
        locked(&self.outdated).clone()
    }

    /// Records the store's current schema version, as the table `store` contains it.
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

    /// Records whether notifications of other servers' commits arrive: `why` is `None` if they do, else the reason why
    /// not.
    pub(crate) fn note_notifications(&self, why: Option<&Failure>) {
        match (why, self.polling.swap(why.is_some(), Ordering::AcqRel)) {
            (Some(failure), false) => {
                tracing::warn!(%failure, "no notifications of other servers' commits arrive; they are polled for over the store's URL");
            }
            (None, true) => tracing::info!("notifications of other servers' commits arrive again"),
            _ => {}
        }
    }

    /// The state of this process's erasures, which a vacuum must follow.
    pub(crate) const fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }

    /// Records that the commit `row` is verified, and publishes its number. Ignores a commit that is not newer than the
    /// newest known one.
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

    /// The newest commit that this process has verified.
    pub(crate) fn newest(&self) -> Option<LogRow> {
        locked(&self.newest).clone()
    }

    /// Compares `newest`, the newest commit of a snapshot, with `verified`, the newest commit that was verified before
    /// the snapshot began. If commits were removed or changed, the entire store becomes suspect. Returns whether the
    /// snapshot contains newer commits, which are still to be verified.
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

    /// Verifies the commits of the snapshot `view` after `verified`, up to `newest`. `verified` is the newest commit
    /// that was verified before the snapshot began. Each commit must continue the chain of its predecessor; otherwise
    /// the entire store becomes suspect. `fetched` are commits that the caller has already read: if they directly
    /// follow `verified`, they are used instead of a query.
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

    /// Compares all sessions with the commit log, and adds those that differ to the suspects. Returns how long this
    /// took.
    pub(crate) fn compare(&self, view: &impl View) -> Result<std::time::Duration, Failure> {
        let begun = Instant::now();
        if self.check == MacCheck::Keyed {
            let found = self.known_heads.compare(view, &self.keyring)?;
            self.suspect(found);
        }
        Ok(begun.elapsed())
    }
}
