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

/// The number of commits that one query examines.
const COMMITS_PER_READ: usize = 1024;

/// The followers by session.
type FollowerMap = Mutex<HashMap<SessionPk, watch::Sender<()>>>;

/// Wakes the followers of the sessions of one ledger.
pub(crate) struct CommitNotifier {
    followers: Arc<FollowerMap>,
    task: JoinHandle<()>,
}

/// The poll interval of a follower of a session outside the ledger, whose changes no commit announces.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A follower of a session.
pub struct Follower(Mode);

/// How a follower is notified of changes.
enum Mode {
    /// Woken by commits.
    WokenByCommits {
        pk: SessionPk,
        changes: watch::Receiver<()>,
        followers: Arc<FollowerMap>,
    },
    /// Polls, because no commit announces changes of a session that is only in the hot store.
    Polling,
}

fn lock(followers: &FollowerMap) -> MutexGuard<'_, HashMap<SessionPk, watch::Sender<()>>> {
    // Each change of the map is one call, so a panic cannot leave it inconsistent.
    followers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommitNotifier {
    /// Starts a task that follows the ledger's commits until the value is dropped. Must be called within a Tokio
    /// runtime.
    pub(crate) fn start(ledger: Arc<dyn Ledger>) -> Self {
        let followers = Arc::<FollowerMap>::default();
        // The position is read before the task starts, so that the task misses no commit.
        let (commits, last_examined) = (ledger.commits(), ledger.position().commit_no);
        let task = tokio::spawn(wake_followers(
            ledger,
            commits,
            last_examined,
            followers.clone(),
        ));
        Self { followers, task }
    }

    /// Follows a session from now on: later commits that touch it wake the follower. `None` means a session that is not
    /// in the ledger: no commit touches it, so its follower is woken every second.
    pub(super) fn follow(&self, session: Option<SessionPk>) -> Follower {
        let Some(pk) = session else {
            return Follower(Mode::Polling);
        };
        let mut followers = lock(&self.followers);
        let changes = followers
            .entry(pk)
            .or_insert_with(|| watch::Sender::new(()))
            .subscribe();
        Follower(Mode::WokenByCommits {
            pk,
            changes,
            followers: self.followers.clone(),
        })
    }
}

impl Drop for CommitNotifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Waits for a commit that touched the session since the last call. Cancel-safe.
    pub async fn changed(&mut self) {
        match &mut self.0 {
            Mode::Polling => tokio::time::sleep(POLL_INTERVAL).await,
            Mode::WokenByCommits { changes, .. } => {
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
        let Mode::WokenByCommits { pk, followers, .. } = &self.0 else {
            return;
        };
        let mut followers = lock(followers);
        // The count still includes this follower's own receiver.
        if followers.get(pk).is_some_and(|s| s.receiver_count() <= 1) {
            followers.remove(pk);
        }
    }
}

/// Wakes the followers of each session that a commit after number `last_examined` touches, until the ledger closes.
async fn wake_followers(
    ledger: Arc<dyn Ledger>,
    mut commits: watch::Receiver<u64>,
    mut last_examined: u64,
    followers: Arc<FollowerMap>,
) {
    loop {
        let newest = *commits.borrow_and_update();
        if lock(&followers).is_empty() {
            // A later follower reads its session after it subscribes, so it misses none of these commits.
            last_examined = last_examined.max(newest);
        }
        while last_examined < newest {
            match touched_sessions(ledger.as_ref(), last_examined).await {
                Ok((pks, last)) => {
                    let followers = lock(&followers);
                    for sender in pks.iter().filter_map(|pk| followers.get(pk)) {
                        sender.send_replace(());
                    }
                    last_examined = last;
                }
                Err(error) => {
                    // Wakes all followers: each reads its session, and gets the failure if it concerns that session.
                    tracing::warn!(%error, "the newest commits cannot be followed");
                    for sender in lock(&followers).values() {
                        sender.send_replace(());
                    }
                    last_examined = newest;
                }
            }
        }
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// The sessions that commits after `after` touched, and the last examined commit.
async fn touched_sessions(
    ledger: &dyn Ledger,
    after: u64,
) -> Result<(Vec<SessionPk>, u64), Failure> {
    ledger
        .query_reserved(move |snapshot| {
            let rows = snapshot.view.log(after, COMMITS_PER_READ)?;
            let Some(last) = rows.last().map(|r| r.commit_no) else {
                let detail = format!("commit {} is missing", after + 1);
                return Err(Failure::new(ErrorCode::IntegrityError, detail));
            };
            let entries = rows.iter().filter_map(|r| r.entries()).flatten();
            Ok((entries.map(|e| e.pk).collect(), last))
        })
        .await
}
