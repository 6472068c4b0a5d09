//! Restoring a conversation: a filtered view, never a rewrite (DESIGN §5). Turns by ordinal, items by seq inside a
//! turn; what comes out holds no orphan result, no dangling call and no cut pair, for whichever window.

use filrouge_store::read::in_session;
use filrouge_types::{Failure, SessionId};

use crate::caller::{Caller, Permission};
use crate::engine::Context;

mod content;
mod estimate;
mod groups;
mod media;
mod pieces;
mod plan;
mod query;
mod report;
mod shape;
mod sound;
mod steps;
mod summary;
mod turns;
mod window;

pub use estimate::ESTIMATE;
pub use media::is_text;
pub use plan::{
    Answer, Args, Block, Call, CallResult, Calls, Content, Mark, Media, MediaSource, Pair, Plan,
    PlanTurn, Provider, Reasoning, Say, Sealed, Speaker,
};
pub use query::{RestoreQuery, Selection, Unanswered};
pub use report::{Adapted, Dropped, Fate, Fates, Report, Window};

impl Context {
    /// The neutral plan of a session's context, from one consistent sight of the store.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a window of nothing, `limit_exceeded` when its contents have more than
    /// 256 MiB, `integrity_error`.
    pub async fn restore(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: RestoreQuery,
    ) -> Result<Plan, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        query.check()?;
        let (viewer, id) = (scope.clone(), session.clone());
        self.ledger
            .ask_in(scope, session, move |sight| {
                let loaded = sight.get(&viewer, &id)?;
                in_session(&id, window::Reader::new(sight, &loaded, query).plan())
            })
            .await
    }
}
