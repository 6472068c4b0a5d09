//! What this process knows the store to be: its newest commit, and what is not what was written (DESIGN §9).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use filrouge_store::record::Check;
use filrouge_store::rows::{LogRow, View};
use filrouge_store::verify::{Suspects, find_suspects};
use filrouge_store::{Keyring, Position};
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;

use crate::migrate::{self, SCHEMA_VERSION};
use crate::vacuum::Erasure;

/// Commits followed in one go.
const COMMITS: usize = 1024;

pub(crate) struct Guard {
    keyring: Arc<Keyring>,
    /// Without keys there is nothing to compare with: who reads so has been told.
    check: Check,
    /// The newest commit known to be genuine.
    newest: Mutex<Option<LogRow>>,
    /// The newest of them that is not known to hold nothing but drafts.
    witnessed: Mutex<Position>,
    suspects: RwLock<Arc<Suspects>>,
    /// Why no write is taken now.
    refused: Mutex<Option<String>>,
    /// Tells of the newest commit's number as it grows.
    commits: watch::Sender<u64>,
    /// Why nothing may be written by this program any more: the schema became newer.
    outdated: Mutex<Option<Failure>>,
    /// Whether commits of other servers are looked for where they should be told of.
    untold: AtomicBool,
    erasure: Arc<Erasure>,
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
    pub(crate) fn new(keyring: Arc<Keyring>, check: Check) -> Self {
        Self {
            keyring,
            check,
            newest: Mutex::default(),
            witnessed: Mutex::new(position(None)),
            suspects: RwLock::default(),
            refused: Mutex::default(),
            commits: watch::Sender::new(0),
            outdated: Mutex::default(),
            untold: AtomicBool::default(),
            erasure: Arc::default(),
        }
    }

    /// Takes the store for what it is now: what does not agree with its log is refused from the first read on.
    pub(crate) fn begin(&self, view: &impl View) -> Result<(), Failure> {
        self.compare(view)?;
        match view.newest_log() {
            Ok(newest) => self.advance(newest),
            // The comparison has refused the whole store for it.
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

    /// Why no write is taken now, if none is.
    pub(crate) fn refused(&self) -> Option<String> {
        locked(&self.refused).clone()
    }

    /// Notes whether the newest write could be done, and if not why.
    pub(crate) fn refuse(&self, why: Option<&Failure>) {
        let mut refused = locked(&self.refused);
        match why {
            Some(failure) if refused.is_none() => {
                tracing::error!(%failure, "PostgreSQL takes no writes; they are tried again as they come");
            }
            None if refused.is_some() => tracing::info!("PostgreSQL takes writes again"),
            _ => {}
        }
        *refused = why.map(|failure| failure.detail.clone());
    }

    /// Why this program may not write to the store, if its schema became newer.
    pub(crate) fn outdated(&self) -> Option<Failure> {
        locked(&self.outdated).clone()
    }

    /// Notes the schema that the store has now.
    pub(crate) fn note_schema(&self, schema: Option<&str>) {
        let newer = schema
            .and_then(|s| s.parse().ok())
            .filter(|s| *s > SCHEMA_VERSION);
        let failure = newer.map(|version| {
            let newer = migrate::newer(version);
            let failure = Failure::new(ErrorCode::StoreReadOnly, newer.detail);
            match newer.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            }
        });
        let mut outdated = locked(&self.outdated);
        match &failure {
            Some(failure) if outdated.is_none() => {
                tracing::error!(%failure, "the store became a newer filrouge's: nothing is written any more");
            }
            None if outdated.is_some() => tracing::info!("the store's schema is known again"),
            _ => {}
        }
        *outdated = failure;
    }

    /// Notes whether commits of other servers are told of, and if not why.
    pub(crate) fn follows(&self, why: Option<&Failure>) {
        match (why, self.untold.swap(why.is_some(), Ordering::AcqRel)) {
            (Some(failure), false) => {
                tracing::warn!(%failure, "nobody tells of other servers' commits; they are looked for over the store's URL");
            }
            (None, true) => tracing::info!("other servers' commits are told of again"),
            _ => {}
        }
    }

    /// What this process has erased.
    pub(crate) const fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }

    pub(crate) fn advance(&self, row: Option<LogRow>) {
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

    /// The newest commit that this process knows.
    pub(crate) fn newest(&self) -> Option<LogRow> {
        locked(&self.newest).clone()
    }

    /// Compares `found`, the newest commit of a sight that was taken after `known` was known, with it; whether there
    /// are commits in between that nobody has looked at.
    pub(crate) fn is_behind(&self, known: Option<&LogRow>, found: Option<&LogRow>) -> bool {
        if self.check == Check::Unverified {
            return false;
        }
        let (before, after) = (number(known), number(found));
        if after < before {
            let what = format!("commits {} to {before} were removed", after + 1);
            self.suspect(Suspects::everything(what));
        } else if after == before && known != found {
            self.suspect(Suspects::everything(format!("commit {after} was changed")));
        }
        after > before
    }

    /// Looks at the commits of `view` behind `known`, which was known before the sight was taken: each has to follow
    /// from the one before. Those in `near` are at hand, and not asked for when they begin where `known` ends.
    pub(crate) fn follow(
        &self,
        view: &impl View,
        known: Option<LogRow>,
        found: Option<&LogRow>,
        near: Vec<LogRow>,
    ) -> Result<(), Failure> {
        if !self.is_behind(known.as_ref(), found) {
            return Ok(());
        }
        let mut previous = known;
        let next = number(previous.as_ref()) + 1;
        let mut near: Vec<LogRow> = near.into_iter().filter(|r| r.commit_no >= next).collect();
        near.sort_unstable_by_key(|row| row.commit_no);
        if near.first().is_some_and(|row| row.commit_no != next) {
            near.clear();
        }
        while number(previous.as_ref()) < number(found) {
            let rows = if near.is_empty() {
                view.log(number(previous.as_ref()), COMMITS)
            } else {
                Ok(std::mem::take(&mut near))
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
                previous = Some(row);
            }
        }
        self.advance(previous);
        Ok(())
    }

    /// Compares all sessions with the commit log; gives how long that took.
    pub(crate) fn compare(&self, view: &impl View) -> Result<std::time::Duration, Failure> {
        let begun = Instant::now();
        if self.check == Check::Keyed {
            self.suspect(find_suspects(view, &self.keyring)?);
        }
        Ok(begun.elapsed())
    }
}
