//! Sessions as they grow: the change feed, the tail of one session, and the end of a turn.

use std::time::Duration;

use filrouge_store::Scope;
use filrouge_store::read::{ChangeCursor, ChangePage};
use filrouge_types::Failure;
use tokio::time::{Instant, sleep, timeout_at};

use crate::caller::{Caller, Permission};
use crate::engine::Following;

mod drafts;
mod live;
mod tail;
mod turns;

pub use drafts::DraftEvent;
pub(crate) use live::CommitNotifier;
pub use live::Follower;
pub use tail::{Tail, TailEvent};

/// The first pause of a waiting reader between a commit and the next poll: all commits within the pause cost one poll.
const POLL_PAUSE: Duration = Duration::from_millis(25);
/// The longest pause. Each poll without changes doubles the pause, so that commits of other sessions, which wake every
/// reader, do not overload the store.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(400);

/// The scope for changes: the end user's sessions for a caller with an identity, otherwise the entire tenant.
fn change_scope(caller: &Caller) -> Result<Scope, Failure> {
    caller.scope(match caller.identity() {
        Some(_) => Permission::Read,
        None => Permission::ReadTenant,
    })
}

impl Following {
    /// A page of the change feed. On behalf of an end user it covers that user's sessions, otherwise the entire tenant.
    /// It leaves out the changes of damaged sessions, and names these sessions.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store did not issue; `integrity_error` if it is unknown whether the caller sees a
    /// damaged session; the ledger's errors.
    pub async fn changes(
        &self,
        caller: &Caller,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage, Failure> {
        let scope = change_scope(caller)?;
        self.ledger.list_changes(&scope, after, limit).await
    }

    /// As [`Self::changes`], but waits until there are changes. Returns an empty page when there are none before
    /// `deadline`.
    ///
    /// # Errors
    /// As [`Self::changes`].
    pub async fn next_changes(
        &self,
        caller: &Caller,
        mut after: ChangeCursor,
        limit: usize,
        deadline: Instant,
    ) -> Result<ChangePage, Failure> {
        let scope = change_scope(caller)?;
        let mut commits = self.ledger.commits();
        let mut pause = POLL_PAUSE;
        loop {
            commits.borrow_and_update();
            let page = self.ledger.list_changes(&scope, after, limit).await?;
            // Changes outside the scope advance the cursor as well, so that they are examined only once.
            after = page.next.clone();
            let is_empty = page.data.is_empty() && page.findings.is_empty();
            if !is_empty || Instant::now() >= deadline {
                return Ok(page);
            }
            if page.more {
                continue;
            }
            let next_commit = async {
                match commits.changed().await {
                    Ok(()) => sleep(pause).await,
                    Err(_) => std::future::pending().await,
                }
            };
            // After the deadline the feed is polled one last time.
            let _ = timeout_at(deadline, next_commit).await;
            pause = (pause * 2).min(POLL_PAUSE_MAX);
        }
    }
}
