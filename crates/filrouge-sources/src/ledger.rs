//! The ledger's own sessions as a source, restricted to those that a caller may see (DESIGN §5, §10).
//!
//! The engine checks the caller's permissions, as for every other reader. Conversations are kept between two reads only
//! if the source gets a place for them ([`LedgerSource::keeping`]).
//! `ledger/messages.rs` maps items to messages, `ledger/parts.rs` maps parts.

mod foreign_fields;
mod kept;
mod messages;
mod parts;
mod rows;
mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_store::command::SessionFilter;
use filrouge_store::read::SessionPage;
use filrouge_store::verify::Finding;
use filrouge_types::{ErrorCode, Failure, Recorded, Session, SessionId};
use serde_json::Value;
use tokio::runtime::Handle;

use rows::NAME;

use crate::{Conversation, Listing, ReadError, SkipReason, Skipped, Source, SourceError, opencode};

pub use kept::KeptConversations;
pub use messages::units;
pub use rows::header;
pub use units::{Units, loose_seq, loose_unit};

/// The maximum number of listed sessions, the newest first.
const LIST_MAX: usize = 10_000;
/// The number of sessions per request.
const PAGE_SIZE: usize = 500;

/// The sessions of a ledger that a caller sees.
///
/// Its methods block on the engine: call them outside the runtime's worker threads (with `spawn_blocking`, or on a
/// separate thread). On a worker thread they panic, because Tokio allows no blocking there.
pub struct LedgerSource {
    engine: Arc<Engine>,
    caller: Caller,
    runtime: Handle,
    kept: Option<Arc<KeptConversations>>,
}

impl LedgerSource {
    /// Creates a source of the sessions in the engine's ledger that `caller` may see; `runtime` is the runtime of the
    /// engine.
    pub const fn new(engine: Arc<Engine>, caller: Caller, runtime: Handle) -> Self {
        Self {
            engine,
            caller,
            runtime,
            kept: None,
        }
    }

    /// Keeps the conversations that are read for pages in `kept`, and takes them from there while their sessions do not
    /// change. Each read still reads the session itself, which checks that the caller may read it.
    #[must_use]
    pub fn keeping(mut self, kept: Arc<KeptConversations>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Lists the newest sessions, at most [`LIST_MAX`]. Damaged sessions, and changed names of agents, are left out and
    /// reported.
    async fn newest_sessions(&self) -> Result<Listing, Failure> {
        let (mut listing, mut cursor) = (Listing::default(), None);
        loop {
            let page_size = (LIST_MAX - listing.headers.len()).min(PAGE_SIZE);
            let ((page, next), findings) = self.page(cursor, page_size).await?;
            let headers = page.iter().map(|session| Arc::new(rows::header(session)));
            listing.headers.extend(headers);
            listing.skipped.extend(reports(findings));
            if next.is_none() || listing.headers.len() >= LIST_MAX {
                listing.truncated = next.is_some();
                // Each page names the damaged sessions that are known.
                listing.skipped.sort();
                listing.skipped.dedup_by(|a, b| a.path == b.path);
                return Ok(listing);
            }
            cursor = next;
        }
    }

    async fn page(
        &self,
        cursor: Option<String>,
        size: usize,
    ) -> Result<(SessionPage, Vec<Finding>), Failure> {
        let (sessions, filter) = (&self.engine.sessions, SessionFilter::default());
        sessions
            .list_with_findings(&self.caller, filter, cursor, size)
            .await
    }

    /// Reports the sessions that are known to be damaged, as far as the caller may know them.
    ///
    /// # Errors
    /// `integrity_error` if sessions that the caller may not know could be missing too; the ledger's errors.
    pub fn damaged(&self) -> Result<Vec<Skipped>, Failure> {
        let ((page, _), mut findings) = self.runtime.block_on(self.page(None, 1))?;
        // A listed session lacks only the name of an agent, which no search reads.
        let is_listed = |id: &str| page.iter().any(|s| s.session_id.as_str() == id);
        findings.retain(|finding| !finding.session_id.as_deref().is_some_and(is_listed));
        Ok(reports(findings).collect())
    }

    /// Reads a session without its turns and items.
    fn session(&self, id: &str) -> Result<Session, ReadError> {
        let session: SessionId = id.parse().map_err(|_| ReadError::Gone)?;
        let future = self.engine.sessions.get(&self.caller, &session);
        let session = self.runtime.block_on(future);
        session.map_err(|failure| read_error(id, &failure))
    }

    /// Reads a session's turns and items, which the ledger has verified.
    fn read_verified(&self, id: &str) -> Result<Recorded, ReadError> {
        let session: SessionId = id.parse().map_err(|_| ReadError::Gone)?;
        let future = self.engine.context.conversation(&self.caller, &session);
        self.runtime
            .block_on(future)
            .map_err(|failure| read_error(id, &failure))
    }
}

/// Maps an engine failure. If a session is damaged or too large, only that session fails; if the store does not answer,
/// every session fails.
fn read_error(id: &str, failure: &Failure) -> ReadError {
    match failure.code {
        ErrorCode::SessionNotFound | ErrorCode::SessionErased => ReadError::Gone,
        ErrorCode::IntegrityError | ErrorCode::LimitExceeded => {
            unreadable(id, &failure.detail).into()
        }
        _ => ReadError::Unavailable(failure.detail.clone()),
    }
}

/// Reports a session that cannot be read.
pub fn unreadable(id: &str, why: &str) -> Skipped {
    Skipped::new(&path_of(id), SkipReason::Unreadable, why)
}

/// The path by which reports name a session. It is only displayed, never opened.
pub(crate) fn path_of(id: &str) -> PathBuf {
    format!("{NAME}:{id}").into()
}

/// Whether a report names a session of the ledger.
pub fn is_session(report: &Skipped) -> bool {
    let path = report.path.to_string_lossy();
    path.strip_prefix(NAME)
        .is_some_and(|rest| rest.starts_with(':'))
}

fn reports(findings: Vec<Finding>) -> impl Iterator<Item = Skipped> {
    let named = findings.into_iter();
    named.filter_map(|finding| Some(unreadable(finding.session_id.as_deref()?, &finding.what)))
}

impl Source for LedgerSource {
    fn name(&self) -> &'static str {
        NAME
    }

    /// `None`: the ledger's own commits update its index, so no path is watched.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// Lists the newest 10,000 sessions, and reports damaged ones. Sessions have no fingerprints, so one that a caller
    /// may see is never cached for another caller. An imported session has the times and the folder that its program
    /// recorded.
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let result = self.runtime.block_on(self.newest_sessions());
        let listing = result.map_err(|failure| SourceError::Unreadable {
            path: NAME.into(),
            reason: failure.detail,
        })?;
        Ok(Arc::new(listing.sorted()))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        Ok(messages::conversation(self.read_verified(id)?))
    }

    fn read_shared(&self, id: &str) -> Result<Arc<Conversation>, ReadError> {
        let Some(kept) = &self.kept else {
            return self.read(id).map(Arc::new);
        };
        if let Some(conversation) = kept.get(&self.session(id)?) {
            return Ok(conversation);
        }
        let recorded = self.read_verified(id)?;
        // Its state may be newer than that of the session above.
        let session = recorded.session.clone();
        let conversation = Arc::new(messages::conversation(recorded));
        kept.add(&session, &conversation);
        Ok(conversation)
    }

    /// The metadata that an import recorded.
    fn metadata(&self, id: &str) -> Result<(String, Vec<Skipped>), ReadError> {
        let session = self.session(id)?;
        let metadata: Value = serde_json::from_str(session.metadata.as_str()).unwrap_or_default();
        let imported = metadata.get(opencode::PROGRAM.name);
        let imported = imported.map_or_else(|| "{}".to_owned(), Value::to_string);
        Ok((imported, Vec::new()))
    }

    fn recorded(&self, id: &str) -> Result<Option<Recorded>, ReadError> {
        self.read_verified(id).map(Some)
    }
}
