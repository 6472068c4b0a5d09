//! Search in a ledger, limited to the sessions that a caller may see.
//!
//! Every query to the index names the owner: documents of other owners are neither read nor counted. The texts of the
//! documents that the index names are read from the ledger, which checks that the caller may see them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_sources::ledger::{LedgerSource, header};
use filrouge_sources::{Header, Source};
use filrouge_store::Viewer;
use filrouge_store::text_index::{IndexScope, SessionNo, SessionSelection, TextIndex};
use filrouge_types::{Result, Session, SessionId, Timestamp};
use tokio::runtime::Handle;

use super::query::PreparedQuery;
use crate::feed::listing_failure;
use crate::ledger::{LedgerFeed, Unreadable, VerifiedTexts, index_scope_of, realm_of};
use crate::similar_turns::{NamedTurn, SimilarQuestion, SimilarTurns};

/// The name of the ledger among the sources.
pub(super) const LEDGER_NAME: &str = "ledger";
/// The maximum time that a search waits for the index to read the newest commits.
const CATCH_UP: Duration = Duration::from_millis(250);

/// A ledger and its index, searched for one caller. Its methods block: call them outside the worker threads of the
/// runtime.
#[derive(Clone)]
pub struct LedgerSearch {
    engine: Arc<Engine>,
    feed: Option<Arc<LedgerFeed>>,
    caller: Caller,
    runtime: Handle,
}

impl LedgerSearch {
    /// Prepares a search of the sessions that `caller` may see in the engine's ledger. It uses the index that `feed`
    /// maintains; without a feed, it scans the ledger. `runtime` is the engine's.
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        feed: impl Into<Option<Arc<LedgerFeed>>>,
        caller: Caller,
        runtime: Handle,
    ) -> Self {
        Self {
            engine,
            feed: feed.into(),
            caller,
            runtime,
        }
    }

    /// Returns the texts of the documents in the ledger's index, for one search; `None` if there is no feed.
    pub(super) fn texts(&self) -> Option<VerifiedTexts> {
        let feed = self.feed.as_ref()?;
        Some(feed.texts(Some(self.caller.clone()), self.runtime.clone()))
    }

    /// Returns the header of a session; `None` if the session does not exist or the caller may not see it.
    pub(super) fn header(&self, id: &str) -> Result<Option<Header>> {
        let Ok(id) = id.parse::<SessionId>() else {
            return Ok(None);
        };
        let read = self.engine.sessions.get(&self.caller, &id);
        let session = visible_session(self.runtime.block_on(read))?;
        Ok(session.as_ref().map(header))
    }

    /// The turns of the caller that `projection` names for a question; `None` if it does not have the caller's turns, or
    /// if there is no index, which must confirm them.
    pub(super) fn similar_turns(
        &self,
        projection: &dyn SimilarTurns,
        (text, vector): (&str, &[f32]),
        limit: usize,
    ) -> Result<Option<Vec<NamedTurn>>> {
        let viewer = self.caller.viewer();
        let owner = match &viewer {
            _ if self.feed.is_none() => return Ok(None),
            Viewer::Operator => None,
            Viewer::EndUser(Some(identity)) => Some(identity),
            // A projection does not know who may see an anonymous session.
            Viewer::EndUser(None) => return Ok(None),
        };
        projection.similar(&SimilarQuestion {
            tenant: self.caller.tenant(),
            owner,
            text,
            vector,
            limit,
        })
    }

    /// Returns the part of the index that the caller may see.
    pub(super) fn index_scope(&self) -> IndexScope {
        index_scope_of(&self.engine.index_feed, &self.caller)
    }

    /// The sessions of the caller that the index lacks because they could not be read.
    pub(super) fn unreadable(&self) -> Unreadable {
        let feed = self.feed.as_ref();
        feed.map(|feed| feed.unreadable(&self.index_scope()))
            .unwrap_or_default()
    }

    /// Returns the ledger as a source to be scanned. It is used until the index is complete for the first time, and
    /// when the index does not answer.
    pub(super) fn source(&self) -> LedgerSource {
        LedgerSource::new(
            self.engine.clone(),
            self.caller.clone(),
            self.runtime.clone(),
        )
    }

    /// Waits until the index has read the newest commits, but at most about [`CATCH_UP`]. Returns the time up to which
    /// the index is current, in milliseconds since 1970. Returns `None` if there is no index, or if it does not contain
    /// every session that it should: the ledger must then be scanned.
    pub(super) fn catch_up(&self, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Option<i64>> {
        let Some(feed) = &self.feed else {
            return Ok(None);
        };
        // Damaged sessions are forgotten, so that the feed reads them again.
        feed.index().verify(&self.index_scope())?;
        let progress = self.runtime.block_on(feed.catch_up(CATCH_UP, stopped))?;
        let is_complete = !progress.forgotten || self.contains_all_sessions(feed.index())?;
        Ok(progress
            .as_of
            .filter(|_| is_complete)
            .map(Timestamp::as_millis))
    }

    /// Whether the index contains every session that the caller may see. It lacks the sessions that it was made to
    /// forget and that were not read again yet; their stamp is zero.
    fn contains_all_sessions(&self, index: &dyn TextIndex) -> Result<bool> {
        let sessions = index
            .state(SessionSelection::Within(&self.index_scope()))?
            .sessions;
        Ok(sessions.iter().all(|session| session.entry.stamp != [0, 0]))
    }
}

/// Turns the error for a session that does not exist, or that the caller may not see, into `None`.
fn visible_session(read: Result<Session>) -> Result<Option<Session>> {
    match read {
        Ok(session) => Ok(Some(session)),
        // While the store does not answer, it is unknown whether the session exists.
        Err(why) if why.code.retry() => Err(why),
        Err(_) => Ok(None),
    }
}

impl LedgerSearch {
    /// Returns the numbers, in the index, of the sessions to which filters restrict the search; `None` to search all.
    pub(super) fn sessions_to_search(
        &self,
        index: &dyn TextIndex,
        query: &PreparedQuery<'_>,
    ) -> Result<Option<Vec<SessionNo>>> {
        if let Some(id) = query.filter.session() {
            let key = (realm_of(self.caller.tenant()), id.into());
            let mut sessions = index.state(SessionSelection::Named(&[key]))?.sessions;
            let reach = self.index_scope();
            let header = self.header(id)?;
            let passes = header.is_some_and(|header| query.filter.may_pass(&header));
            sessions.retain(|session| passes && reach.contains(&session.shard));
            return Ok(Some(sessions.iter().map(|session| session.no).collect()));
        }
        if !query.filter.names_project() {
            return Ok(None);
        }
        // The index may not know the project of an imported session, which only its header contains. One call lists the
        // newest headers; headers beyond the end of a truncated list are read one by one.
        let listing = self.source().list().map_err(|why| listing_failure(&why))?;
        let listed = listing.headers.iter().map(|header| (&*header.id, header));
        let listed: HashMap<&str, _> = listed.collect();
        let mut selected = Vec::new();
        for session in index
            .state(SessionSelection::Within(&self.index_scope()))?
            .sessions
        {
            let key = &*session.entry.key;
            let passes = match listed.get(key) {
                Some(header) => query.filter.may_pass(header),
                None if listing.truncated => {
                    let header = self.header(key)?;
                    header.is_some_and(|header| query.filter.may_pass(&header))
                }
                None => false,
            };
            if passes {
                selected.push(session.no);
            }
        }
        Ok(Some(selected))
    }
}
