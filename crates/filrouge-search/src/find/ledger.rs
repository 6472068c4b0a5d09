//! What a ledger holds, as far as a caller sees it.
//!
//! The owner stands in every statement that the index is asked with: what others have said is neither read nor counted.
//! Whoever is shown a session is asked for once more, by the ledger.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_sources::ledger::{LedgerSource, header};
use filrouge_sources::library::LibraryError;
use filrouge_sources::{Header, Source};
use filrouge_store::text_index::{Reach, SessionNo, TextIndex, Which};
use filrouge_types::{Failure, Session, SessionId, Timestamp};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::asked::Asked;
use crate::feed::unlisted;
use crate::ledger::{LedgerFeed, reach_of, realm_of};

/// What the ledger is called among the sources.
pub(super) const NAME: &str = "ledger";
/// How long a question waits for the index to learn what was written last.
const CATCH_UP: Duration = Duration::from_millis(250);

/// A ledger's index, asked by one caller. Its methods block: call it outside the worker threads of the runtime.
#[derive(Clone)]
pub struct LedgerSearch {
    pub(super) engine: Arc<Engine>,
    pub(super) feed: Option<Arc<LedgerFeed>>,
    pub(super) caller: Caller,
    runtime: Handle,
}

impl LedgerSearch {
    /// What `caller` sees of the engine's ledger, found by the index that `feed` keeps; without one the ledger is looked
    /// through. `runtime` is the engine's.
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

    pub(super) fn index(&self) -> Option<&dyn TextIndex> {
        Some(self.feed.as_ref()?.index())
    }

    /// The session, if the caller may see it.
    pub(super) fn header(&self, id: &str) -> Result<Option<Header>, Failure> {
        let Ok(id) = id.parse::<SessionId>() else {
            return Ok(None);
        };
        let read = self.engine.sessions.get(&self.caller, &id);
        let session = seen(self.runtime.block_on(read))?;
        Ok(session.as_ref().map(header))
    }

    /// Waits for all of these, which may be done at once; in any order.
    pub(super) fn side_by_side<T: Send + 'static>(
        &self,
        work: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let mut done = JoinSet::new();
        self.runtime.block_on(async {
            work.for_each(|one| drop(done.spawn(one)));
            done.join_all().await
        })
    }

    pub(super) fn reach(&self) -> Reach {
        reach_of(&self.engine.index_feed, &self.caller)
    }

    /// The ledger as a source that is looked through: for as long as its index was never complete.
    pub(super) fn source(&self) -> LedgerSource {
        LedgerSource::new(
            self.engine.clone(),
            self.caller.clone(),
            self.runtime.clone(),
        )
    }

    /// Lets the index learn what was written last; when what it knows was so, milliseconds since 1970.
    pub(super) fn caught_up(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<i64>, Failure> {
        let Some(feed) = &self.feed else {
            return Ok(None);
        };
        let progress = self.runtime.block_on(feed.catch_up(CATCH_UP, stopped))?;
        let knows = !progress.forgotten || self.knows_all(feed.index())?;
        Ok(progress.as_of.filter(|_| knows).map(Timestamp::as_millis))
    }

    /// Whether the index holds every session that the caller sees: none was forgotten and waits to be read again.
    fn knows_all(&self, index: &dyn TextIndex) -> Result<bool, Failure> {
        let sessions = index.known(Which::Within(&self.reach()))?.sessions;
        Ok(sessions.iter().all(|session| session.entry.stamp != [0, 0]))
    }
}

/// A session, if the caller may see it.
pub(super) fn seen(read: Result<Session, Failure>) -> Result<Option<Session>, Failure> {
    match read {
        Ok(session) => Ok(Some(session)),
        // A store that does not answer tells nothing of the session.
        Err(why) if why.code.retry() => Err(why),
        Err(_) => Ok(None),
    }
}

impl LedgerSearch {
    /// The numbers of the sessions that are asked, where not all are.
    pub(super) fn only(
        &self,
        index: &dyn TextIndex,
        asked: &Asked<'_>,
    ) -> Result<Option<Vec<SessionNo>>, Failure> {
        if let Some(id) = asked.filter.session() {
            let key = (realm_of(self.caller.tenant()), id.into());
            let mut sessions = index.known(Which::Named(&[key]))?.sessions;
            let reach = self.reach();
            let header = self.header(id)?;
            let passes = header.is_some_and(|header| asked.filter.lets(&header));
            sessions.retain(|session| passes && reach.holds(&session.shard));
            return Ok(Some(sessions.iter().map(|session| session.no).collect()));
        }
        if !asked.filter.asks_project() {
            return Ok(None);
        }
        // What an import noted of a project is in the session's header alone. The newest are listed together.
        let listing = self.source().list().map_err(|why| unlisted(&why))?;
        let listed = listing.headers.iter().map(|header| (&*header.id, header));
        let listed: HashMap<&str, _> = listed.collect();
        let mut only = Vec::new();
        for session in index.known(Which::Within(&self.reach()))?.sessions {
            let key = &*session.entry.key;
            let passes = match listed.get(key) {
                Some(header) => asked.filter.lets(header),
                None if listing.truncated => {
                    let header = self.header(key)?;
                    header.is_some_and(|header| asked.filter.lets(&header))
                }
                None => false,
            };
            if passes {
                only.push(session.no);
            }
        }
        Ok(Some(only))
    }
}

pub(super) fn unanswered(why: Failure) -> LibraryError {
    LibraryError::Unavailable(why)
}
