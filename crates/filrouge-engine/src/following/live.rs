//! Followers of sessions: a commit of any process that touches a session wakes its followers.
//!
//! Followers receive only the signal that something changed; they read the changes from the ledger, each from its own
//! position. So nothing is lost or delivered twice, slow followers cost no memory, and everything that is read is
//! verified (DESIGN §12, tail).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::rows::SessionPk;
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The number of commits examined per read.
const COMMITS: usize = 1024;

/// The followers by session.
type Followed = Mutex<HashMap<SessionPk, watch::Sender<()>>>;

/// Wakes the followers of the sessions of one ledger.
pub(crate) struct Live {
    followed: Arc<Followed>,
    task: JoinHandle<()>,
}

/// The poll interval of a follower of a session outside the ledger, whose changes no commit announces.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A follower of a session.
pub struct Follower(Mode);

/// How a follower is notified of changes.
enum Mode {
    /// Woken by commits.
    Woken {
        pk: SessionPk,
        changes: watch::Receiver<()>,
        followed: Arc<Followed>,
    },
    /// Polls, because the session is only in the hot store as far as is known.
    Polling,
}

fn locked(followed: &Followed) -> MutexGuard<'_, HashMap<SessionPk, watch::Sender<()>>> {
    // Each change of the map is one call, so a panic cannot leave it inconsistent.
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Starts a task that follows the ledger's commits until the value is dropped. Must be called within a Tokio
    /// runtime.
    pub(crate) fn start(ledger: Arc<dyn Ledger>) -> Self {
        let followed = Arc::<Followed>::default();
        // Read here and not when the task first runs, so that no commit in between is missed.
        let (commits, seen) = (ledger.commits(), ledger.position().commit_no);
        let task = tokio::spawn(wake(ledger, commits, seen, followed.clone()));
        Self { followed, task }
    }

    /// Follows a session from now on: later commits that touch it wake the follower. `None` is a session that is not in
    /// the ledger: no commit touches it, so its follower is woken every second.
    pub(super) fn follow(&self, session: Option<SessionPk>) -> Follower {
        let Some(pk) = session else {
            return Follower(Mode::Polling);
        };
        let mut followed = locked(&self.followed);
        let changes = followed
            .entry(pk)
            .or_insert_with(|| watch::Sender::new(()))
            .subscribe();
        Follower(Mode::Woken {
            pk,
            changes,
            followed: self.followed.clone(),
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Waits for a commit that touched the session since the last call. Cancel-safe.
    pub async fn changed(&mut self) {
        match &mut self.0 {
            Mode::Polling => tokio::time::sleep(POLL_EVERY).await,
            Mode::Woken { changes, .. } => {
                if changes.changed().await.is_err() {
                    // The ledger is closing: no commit follows.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let Mode::Woken { pk, followed, .. } = &self.0 else {
            return;
        };
        let mut followed = locked(followed);
        // The count still includes this follower's own receiver.
        if followed.get(pk).is_some_and(|s| s.receiver_count() <= 1) {
            followed.remove(pk);
        }
    }
}

/// Wakes the followers of each session that a commit after number `seen` touches, until the ledger closes.
async fn wake(
    ledger: Arc<dyn Ledger>,
    mut commits: watch::Receiver<u64>,
    mut seen: u64,
    followed: Arc<Followed>,
) {
    loop {
        let newest = *commits.borrow_and_update();
        if locked(&followed).is_empty() {
            // A later follower reads its session after it subscribes, so it misses none of these commits.
            seen = seen.max(newest);
        }
        while seen < newest {
            match touched(ledger.as_ref(), seen).await {
                Ok((pks, last)) => {
                    let followed = locked(&followed);
                    for sender in pks.iter().filter_map(|pk| followed.get(pk)) {
                        sender.send_replace(());
                    }
                    seen = last;
                }
                Err(error) => {
                    // All followers are woken. Each then reads its session, and gets the failure if that session has
                    // one.
                    tracing::warn!(%error, "the newest commits cannot be followed");
                    for sender in locked(&followed).values() {
                        sender.send_replace(());
                    }
                    seen = newest;
                }
            }
        }
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// The sessions that commits after `after` touched, and the last examined commit.
async fn touched(ledger: &dyn Ledger, after: u64) -> Result<(Vec<SessionPk>, u64), Failure> {
    ledger
        .query_reserved(move |snapshot| {
            let rows = snapshot.view.log(after, COMMITS)?;
            let Some(last) = rows.last().map(|r| r.commit_no) else {
                let what = format!("commit {} is missing", after + 1);
                return Err(Failure::new(ErrorCode::IntegrityError, what));
            };
            let entries = rows.iter().filter_map(|r| r.entries()).flatten();
            Ok((entries.map(|e| e.pk).collect(), last))
        })
        .await
}
