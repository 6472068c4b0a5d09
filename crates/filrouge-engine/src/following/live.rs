//! Following sessions: whoever waits for one is woken when a commit touches it, of whichever process.
//!
//! Nothing is handed to those who wait but the news that something has changed; they read it from the ledger, from
//! where they stand. So nothing is lost or seen twice, whoever is slow costs no memory, and what is read has been
//! verified (DESIGN §12, tail).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use filrouge_store::Ledger;
use filrouge_store::rows::SessionPk;
use filrouge_types::{ErrorCode, Failure};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Commits looked at at once.
const COMMITS: usize = 1024;

/// Those who follow, by session.
type Followed = Mutex<HashMap<SessionPk, watch::Sender<()>>>;

/// Wakes those who follow sessions of one ledger.
pub(crate) struct Live {
    followed: Arc<Followed>,
    task: JoinHandle<()>,
}

/// How often who follows a session that is not in the ledger looks: no commit tells of it.
const LOOK: Duration = Duration::from_secs(1);

/// One who follows a session.
pub struct Follower(Way);

/// How the news come.
enum Way {
    /// Woken by commits.
    Woken {
        pk: SessionPk,
        changes: watch::Receiver<()>,
        followed: Arc<Followed>,
    },
    /// Looks for itself: the session is in the hot store alone, as far as is known.
    Looking,
}

fn locked(followed: &Followed) -> MutexGuard<'_, HashMap<SessionPk, watch::Sender<()>>> {
    // Each change of the map is one call.
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Begins to follow the ledger's commits; ends when dropped. To be called within a Tokio runtime.
    pub(crate) fn start(ledger: Arc<dyn Ledger>) -> Self {
        let followed = Arc::<Followed>::default();
        // From now on, and not from when the task first runs.
        let (commits, seen) = (ledger.commits(), ledger.position().commit_no);
        let task = tokio::spawn(wake(ledger, commits, seen, followed.clone()));
        Self { followed, task }
    }

    /// Follows a session from now on: a commit that touches it afterwards wakes. Without a number the session is not in the
    /// ledger: no commit touches it, and who follows it is woken every second.
    pub(super) fn follow(&self, session: Option<SessionPk>) -> Follower {
        let Some(pk) = session else {
            return Follower(Way::Looking);
        };
        let mut followed = locked(&self.followed);
        let changes = followed
            .entry(pk)
            .or_insert_with(|| watch::Sender::new(()))
            .subscribe();
        Follower(Way::Woken {
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
    /// Waits for a commit that has touched the session since this was last called. May be given up at any time.
    pub async fn changed(&mut self) {
        match &mut self.0 {
            Way::Looking => tokio::time::sleep(LOOK).await,
            Way::Woken { changes, .. } => {
                if changes.changed().await.is_err() {
                    // Nobody wakes any more: the ledger is being closed.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let Way::Woken { pk, followed, .. } = &self.0 else {
            return;
        };
        let mut followed = locked(followed);
        // This one's own receiver still counts.
        if followed.get(pk).is_some_and(|s| s.receiver_count() <= 1) {
            followed.remove(pk);
        }
    }
}

async fn wake(
    ledger: Arc<dyn Ledger>,
    mut commits: watch::Receiver<u64>,
    mut seen: u64,
    followed: Arc<Followed>,
) {
    loop {
        let newest = *commits.borrow_and_update();
        if locked(&followed).is_empty() {
            // Who begins to follow now reads afterwards, and with it all of these commits.
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
                    // All look for themselves, and meet the failure if it is theirs.
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

/// The sessions that commits behind `after` have touched, and the last commit that was looked at.
async fn touched(ledger: &dyn Ledger, after: u64) -> Result<(Vec<SessionPk>, u64), Failure> {
    ledger
        .ask_apart(move |sight| {
            let rows = sight.view.log(after, COMMITS)?;
            let Some(last) = rows.last().map(|r| r.commit_no) else {
                let what = format!("commit {} is missing", after + 1);
                return Err(Failure::new(ErrorCode::IntegrityError, what));
            };
            let entries = rows.iter().filter_map(|r| r.entries()).flatten();
            Ok((entries.map(|e| e.pk).collect(), last))
        })
        .await
}
