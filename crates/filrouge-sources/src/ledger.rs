//! The ledger's own sessions as a source, as far as a caller sees them (DESIGN §5, §10).
//!
//! Who may see what is decided where every other reader's is: in the engine, by the caller. Nothing is kept between two
//! questions. How items become messages is told in `ledger/messages.rs`, what a part becomes in `ledger/parts.rs`.

mod messages;
mod notes;
mod parts;
mod rows;
mod units;

use std::path::Path;
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_store::command::SessionFilter;
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId};
use tokio::runtime::Handle;

use rows::NAME;

use crate::{Conversation, Header, Listing, ReadError, SkipReason, Skipped, Source, SourceError};

pub use units::{Units, header, loose_unit, units};

/// Most sessions that are listed, the newest.
const LIST_MAX: usize = 10_000;
/// Sessions asked for at once.
const PAGE: usize = 500;

/// The sessions of a ledger that a caller sees.
///
/// Its methods wait for the engine: call them outside the worker threads of the runtime (with `spawn_blocking`, or on a
/// thread of one's own). On a worker thread they panic, as whatever blocks does there.
pub struct LedgerSource {
    engine: Arc<Engine>,
    caller: Caller,
    runtime: Handle,
}

impl LedgerSource {
    /// The sessions that `caller` sees of the engine's ledger; `runtime` is the one the engine works on.
    #[must_use]
    pub const fn new(engine: Arc<Engine>, caller: Caller, runtime: Handle) -> Self {
        Self {
            engine,
            caller,
            runtime,
        }
    }

    /// The newest sessions, and whether there are more.
    async fn newest(&self) -> Result<(Vec<Arc<Header>>, bool), Failure> {
        let (mut headers, mut cursor) = (Vec::new(), None);
        loop {
            let room = (LIST_MAX - headers.len()).min(PAGE);
            let filter = SessionFilter::default();
            let sessions = &self.engine.sessions;
            let (page, next) = sessions.list(&self.caller, filter, cursor, room).await?;
            headers.extend(page.iter().map(|session| Arc::new(rows::header(session))));
            if next.is_none() || headers.len() >= LIST_MAX {
                return Ok((headers, next.is_some()));
            }
            cursor = next;
        }
    }

    fn verified(&self, id: &str) -> Result<Recorded, ReadError> {
        let Ok(session) = id.parse::<SessionId>() else {
            return Err(ReadError::Gone);
        };
        let read = self.engine.context.conversation(&self.caller, &session);
        self.runtime.block_on(read).map_err(|why| refused(id, &why))
    }
}

/// One session that cannot be trusted or shown costs itself alone; a store that does not answer costs them all.
fn refused(id: &str, why: &Failure) -> ReadError {
    match why.code {
        ErrorCode::SessionNotFound | ErrorCode::SessionErased => ReadError::Gone,
        ErrorCode::IntegrityError | ErrorCode::LimitExceeded => {
            // An id is shown here and never followed.
            let place = format!("{NAME}:{id}");
            let detail = why.detail.as_str();
            Skipped::new(Path::new(&place), SkipReason::Unreadable, detail).into()
        }
        _ => ReadError::Unavailable(why.detail.clone()),
    }
}

fn unavailable(why: &Failure) -> SourceError {
    SourceError::Unreadable {
        path: NAME.into(),
        reason: why.detail.clone(),
    }
}

impl Source for LedgerSource {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Its index is fed by commits.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Without fingerprints: what a scope sees is not kept for another. The newest 10,000 sessions; of those of a history that was imported, with the times and the folder of the history.
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let read = self.runtime.block_on(self.newest());
        let (headers, truncated) = read.map_err(|why| unavailable(&why))?;
        let listing = Listing {
            headers,
            truncated,
            ..Listing::default()
        };
        Ok(Arc::new(listing.in_order()))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        Ok(messages::of(self.verified(id)?))
    }

    fn recorded(&self, id: &str) -> Result<Option<Recorded>, ReadError> {
        self.verified(id).map(Some)
    }
}
