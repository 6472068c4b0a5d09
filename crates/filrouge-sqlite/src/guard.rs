//! What this process knows the store to be, and the watch for changes made outside filrouge (DESIGN §9).
//!
//! SQLite tells a connection when another one has changed the file. A change that no commit log row explains
//! was made by something else: then all heads are compared with the log, and what does not agree is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use filrouge_store::rows::{LogRow, View};
use filrouge_store::verify::{Suspects, find_suspects};
use filrouge_store::{Keyring, Position};
use filrouge_types::{Clock, Failure};

/// After commits of other processes the heads are compared with the log at most this often.
const COMPARE_EVERY_MICROS: i64 = 1_000_000;

pub(crate) struct Guard {
    keyring: Arc<Keyring>,
    clock: Arc<dyn Clock>,
    /// The newest commit known to be genuine.
    newest: Mutex<Option<LogRow>>,
    compared_at: Mutex<i64>,
    own_commits: AtomicU64,
    suspects: RwLock<Arc<Suspects>>,
    read_only: Mutex<Option<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each lock guards one value that is replaced whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    /// Looks at a store that is being opened.
    pub(crate) fn new<V: View>(
        view: &V,
        keyring: Arc<Keyring>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Failure> {
        let suspects = find_suspects(view, &keyring)?;
        let now = clock.now().as_micros();
        let guard = Self {
            newest: Mutex::new(view.newest_log()?),
            keyring,
            clock,
            compared_at: Mutex::new(now),
            own_commits: AtomicU64::new(0),
            suspects: RwLock::new(Arc::default()),
            read_only: Mutex::default(),
        };
        guard.suspect(suspects);
        Ok(guard)
    }

    pub(crate) fn suspects(&self) -> Arc<Suspects> {
        self.suspects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes note of what is not what was written; never forgets.
    pub(crate) fn suspect(&self, suspects: Suspects) {
        if !suspects.is_empty() {
            tracing::error!(%suspects, "the store was changed outside filrouge");
            *self
                .suspects
                .write()
                .unwrap_or_else(PoisonError::into_inner) = Arc::new(suspects);
        }
    }

    pub(crate) fn read_only(&self) -> Option<String> {
        locked(&self.read_only).clone()
    }

    /// No write is acknowledged any more by this process.
    pub(crate) fn stop_writing(&self, why: String) {
        tracing::error!(%why, "a flush failed: the store takes no writes until it is opened again");
        locked(&self.read_only).get_or_insert(why);
    }

    pub(crate) fn own_commits(&self) -> u64 {
        self.own_commits.load(Ordering::Acquire)
    }

    /// A commit of this process is durable.
    pub(crate) fn committed(&self, row: LogRow) {
        *locked(&self.newest) = Some(row);
        self.own_commits.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn position(&self) -> Position {
        match &*locked(&self.newest) {
            Some(row) => Position {
                commit_no: row.commit_no,
                link: row.link,
            },
            None => Position {
                commit_no: 0,
                link: [0; 16],
            },
        }
    }

    /// Another connection has changed the file: is there a commit that explains it?
    pub(crate) fn check_foreign<V: View>(&self, view: &V) -> Result<(), Failure> {
        let mut newest = locked(&self.newest);
        let found = view.newest_log()?;
        let (before, after) = (
            newest.as_ref().map_or(0, |r| r.commit_no),
            found.as_ref().map_or(0, |r| r.commit_no),
        );
        if after < before {
            self.suspect(Suspects::everything(format!(
                "commits {} to {before} were removed",
                after + 1
            )));
            return Ok(());
        }
        if after == before && *newest != found {
            self.suspect(Suspects::everything(format!("commit {after} was changed")));
            return Ok(());
        }
        let mut previous = newest.clone();
        while previous.as_ref().map_or(0, |r| r.commit_no) < after {
            for row in view.log(previous.as_ref().map_or(0, |r| r.commit_no), 1024)? {
                if row.follows(previous.as_ref(), &self.keyring) == Some(false) {
                    self.suspect(Suspects::everything(format!(
                        "the commit log is broken at commit {}",
                        row.commit_no
                    )));
                    return Ok(());
                }
                previous = Some(row);
            }
        }
        *newest = previous;
        let now = self.clock.now().as_micros();
        let mut compared_at = locked(&self.compared_at);
        if after == before || (now - *compared_at).abs() >= COMPARE_EVERY_MICROS {
            *compared_at = now;
            self.suspect(find_suspects(view, &self.keyring)?);
        }
        Ok(())
    }
}
