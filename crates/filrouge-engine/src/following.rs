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
pub use live::Follower;
pub(crate) use live::Live;
pub use tail::{Tail, TailEvent};

/// Commits that follow each other quicker than this cost a waiting reader one look.
const LOOK_GAP: Duration = Duration::from_millis(25);
/// The same for one that has looked in vain again and again: many who wait for what others do not write must not
/// keep the store from working.
const LOOK_GAP_MAX: Duration = Duration::from_millis(400);

/// On behalf of an end user what is theirs, otherwise the whole tenant.
fn visible(caller: &Caller) -> Result<Scope, Failure> {
    caller.scope(match caller.identity() {
        Some(_) => Permission::Read,
        None => Permission::ReadTenant,
    })
}

impl Following {
    /// A page of the change feed. On behalf of an end user it is about that user's sessions, otherwise about the whole
    /// tenant.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never gave; `integrity_error`, and the ledger's.
    pub async fn changes(
        &self,
        caller: &Caller,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage, Failure> {
        let scope = visible(caller)?;
        self.ledger.changes(&scope, after, limit).await
    }

    /// As [`Self::changes`], once there are some; the empty page when there were none by `until`.
    ///
    /// # Errors
    /// As [`Self::changes`].
    pub async fn next_changes(
        &self,
        caller: &Caller,
        mut after: ChangeCursor,
        limit: usize,
        until: Instant,
    ) -> Result<ChangePage, Failure> {
        let scope = visible(caller)?;
        let mut commits = self.ledger.commits();
        let mut gap = LOOK_GAP;
        loop {
            commits.borrow_and_update();
            let page = self.ledger.changes(&scope, after, limit).await?;
            // What others write moves the place on, so that it is looked at once.
            after = page.next;
            if !page.data.is_empty() || Instant::now() >= until {
                return Ok(page);
            }
            if page.more {
                continue;
            }
            let news = async {
                match commits.changed().await {
                    Ok(()) => sleep(gap).await,
                    Err(_) => std::future::pending().await,
                }
            };
            // When the time is over there is one more look.
            let _ = timeout_at(until, news).await;
            gap = (gap * 2).min(LOOK_GAP_MAX);
        }
    }
}
