//! Followers of sessions: a commit of any process that touches a session wakes its followers.
//!
//! Followers receive only the signal that something changed; they read the changes from the ledger, each from its own
//! position. So nothing is lost or delivered twice, slow followers cost no memory, and everything that is read is
//! verified (DESIGN §12, tail).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filrouge_store::rows::{LogRow, SessionPk};
use filrouge_store::{LanePosition, Ledger, Position};
use filrouge_types::{ErrorCode, Failure, lock};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The number of commits of each lane that one query examines.
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

impl CommitNotifier {
    /// Starts a task that follows the ledger's commits until the value is dropped. Must be called within a Tokio
    /// runtime.
    pub(crate) fn start(ledger: Arc<dyn Ledger>) -> Self {
        let followers = Arc::<FollowerMap>::default();
        // The position is read before the task starts, so that the task misses no commit.
        let (commits, examined) = (ledger.commits(), ledger.position());
        let task = tokio::spawn(wake_followers(ledger, commits, examined, followers.clone()));
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

/// Wakes the followers of each session that a commit after `examined` touches, until the ledger closes.
async fn wake_followers(
    ledger: Arc<dyn Ledger>,
    mut commits: watch::Receiver<u64>,
    mut examined: Position,
    followers: Arc<FollowerMap>,
) {
    loop {
        commits.borrow_and_update();
        let newest = ledger.position();
        if lock(&followers).is_empty() {
            // A later follower reads its session after it subscribes, so it misses none of these commits.
            examined = newest.clone();
        }
        while is_behind(&examined, &newest) {
            match touched_sessions(ledger.as_ref(), &examined, &newest).await {
                Ok((pks, last)) => {
                    let followers = lock(&followers);
                    for sender in pks.iter().filter_map(|pk| followers.get(pk)) {
                        sender.send_replace(());
                    }
                    examined = last;
                }
                Err(error) => {
                    // Wakes all followers: each reads its session, and gets the failure if it concerns that session.
                    tracing::warn!(%error, "the newest commits cannot be followed");
                    for sender in lock(&followers).values() {
                        sender.send_replace(());
                    }
                    examined = newest.clone();
                }
            }
        }
        if commits.changed().await.is_err() {
            return;
        }
    }
}

/// Whether a lane has commits after `examined`, up to `newest`.
fn is_behind(examined: &Position, newest: &Position) -> bool {
    let mut lanes = newest.iter();
    lanes.any(|(lane, newest)| examined.lane(lane).commit_no < newest.commit_no)
}

/// The sessions that the next commits after `examined` touched, of each lane that has any up to `newest`; and the last
/// examined commits.
async fn touched_sessions(
    ledger: &dyn Ledger,
    examined: &Position,
    newest: &Position,
) -> Result<(Vec<SessionPk>, Position), Failure> {
    let (mut examined, newest) = (examined.clone(), newest.clone());
    ledger
        .query_reserved(move |snapshot| {
            let behind = newest.iter().filter_map(|(lane, newest)| {
                let after = examined.lane(lane).commit_no;
                (after < newest.commit_no).then_some((lane, after))
            });
            let behind: Vec<_> = behind.collect();
            let logs = snapshot.view.logs(&behind, COMMITS_PER_READ)?;
            let mut pks = Vec::new();
            for ((lane, after), rows) in behind.into_iter().zip(logs) {
                if rows.is_empty() {
                    let detail = format!("commit {} of lane {lane} is missing", after + 1);
                    return Err(Failure::new(ErrorCode::IntegrityError, detail));
                }
                let entries = rows.iter().filter_map(LogRow::entries).flatten();
                pks.extend(entries.map(|entry| entry.pk));
                examined.set(lane, LanePosition::of_commit(rows.last()));
            }
            Ok((pks, examined))
        })
        .await
}

#[cfg(test)]
mod tests {
    use filrouge_store::command::{Command, NewSession, Scope, Viewer, Write};
    use filrouge_store::memory::MemoryLedger;
    use filrouge_store::{Keyring, Lanes, OsEntropy};
    use filrouge_types::{SessionId, SystemClock, TenantId};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_commit_of_any_lane_wakes_the_followers_of_its_session_and_no_others() {
        let (lanes, tenant) = (Lanes::new(3).unwrap(), TenantId::default_tenant());
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.with_lanes(lanes));
        let notifier = CommitNotifier::start(ledger.clone());
        for lane in lanes.iter() {
            let pk = lanes.next_pk(lane, None);
            let mut follower = notifier.follow(Some(pk));
            let mut other = notifier.follow(Some(lanes.next_pk(lane, Some(pk))));
            let mut ids = (0..).map(|n| format!("s{n}").parse::<SessionId>().unwrap());
            let id = ids.find(|id| lanes.of_session(&tenant, id) == lane);
            let command = Command {
                scope: Scope::new(tenant.clone(), Viewer::Operator),
                write: Write::CreateSession(NewSession::with_id(id.unwrap())),
            };
            ledger.write(command).await.unwrap();
            let woken = timeout(Duration::from_secs(10), follower.changed()).await;
            assert!(woken.is_ok(), "lane {lane}");
            let woken = timeout(Duration::from_millis(20), other.changed()).await;
            assert!(woken.is_err(), "lane {lane}");
        }
    }
}
