//! Restores a conversation as the context for a model: a filtered view, never a rewrite (DESIGN §5). Turns are in order
//! of ordinal, and items within a turn in order of seq. Whatever the window, the context has no tool result without its
//! call, no call without a result, and no pair without its question or answer.

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
    Args, Block, Call, CallResult, Calls, Content, Mark, Media, MediaSource, Message, Pair, Plan,
    PlanTurn, Provider, Reasoning, ResultContent, Sealed, Speaker,
};
pub use query::{RestoreQuery, Selection, Unanswered};
pub use report::{Adapted, Disposition, Dispositions, Dropped, Report, Window};

impl Context {
    /// Builds the neutral plan of a session's context from one consistent snapshot of the store.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a window of size 0, `limit_exceeded` if the contents have more than 256 MiB,
    /// `integrity_error`.
    pub async fn restore(
        &self,
        caller: &Caller,
        session: &SessionId,
        query: RestoreQuery,
    ) -> Result<Plan, Failure> {
        let scope = &caller.scope(Permission::Read)?;
        query.check()?;
        self.ledger
            .query_session(scope, session, move |snapshot, scope, id| {
                let loaded = snapshot.get(scope, id)?;
                in_session(
                    id,
                    window::WindowReader::new(snapshot, &loaded, query).plan(),
                )
            })
            .await
    }
}
