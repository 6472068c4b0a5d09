//! What a ledger holds, as far as a scope sees it.
//!
//! The owner stands in every statement that the index is asked with: what others have said is neither read nor counted.
//! Whoever is shown a session is asked for once more, by the ledger.

use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Engine;
use filrouge_sources::Header;
use filrouge_sources::ledger::{LedgerSource, header};
use filrouge_sources::library::{Catalog, LibraryError};
use filrouge_store::Scope;
use filrouge_store::text_index::{IndexedSession, Reach, SessionNo, TextIndex};
use filrouge_types::{Failure, SessionId, Timestamp};
use tokio::runtime::Handle;

use super::indexed::Look;
use super::{Asked, At, Everything, Found, Searcher};
use crate::answer::Excerpt;
use crate::ledger::{LedgerFeed, reach_of, realm_of, seq_of};

/// What the ledger is called among the sources.
pub(super) const NAME: &str = "ledger";
/// How long a question waits for the index to learn what was written last.
const CATCH_UP: Duration = Duration::from_millis(250);

/// A ledger's index, asked by one caller. Its methods block: call it outside the worker threads of the runtime.
#[derive(Clone)]
pub struct LedgerSearch {
    engine: Arc<Engine>,
    feed: Arc<LedgerFeed>,
    scope: Scope,
    runtime: Handle,
}

impl LedgerSearch {
    /// What `scope` sees of the engine's ledger, found by the index that `feed` keeps; `runtime` is the engine's.
    #[must_use]
    pub const fn new(
        engine: Arc<Engine>,
        feed: Arc<LedgerFeed>,
        scope: Scope,
        runtime: Handle,
    ) -> Self {
        Self {
            engine,
            feed,
            scope,
            runtime,
        }
    }

    pub(super) fn index(&self) -> &dyn TextIndex {
        self.feed.index()
    }

    /// The session, if the caller may see it.
    pub(super) fn header(&self, id: &str) -> Option<Header> {
        let id = id.parse::<SessionId>().ok()?;
        let read = self.engine.ledger().session(&self.scope, &id);
        self.runtime
            .block_on(read)
            .ok()
            .map(|session| header(&session))
    }

    /// Names the items of excerpts.
    pub(super) fn place(&self, session: &str, excerpts: &mut [Excerpt]) -> Result<(), Failure> {
        let Ok(session) = session.parse::<SessionId>() else {
            return Ok(());
        };
        for excerpt in excerpts {
            let id = excerpt.part_id.as_deref().or(excerpt.message_id.as_deref());
            if let Some(id) = id.filter(|id| !id.is_empty()) {
                let seq = seq_of(&self.engine, &self.scope, &session, id);
                excerpt.seq = self.runtime.block_on(seq)?;
            }
        }
        Ok(())
    }

    pub(super) fn reach(&self) -> Reach {
        reach_of(&self.scope, self.engine.ledger().keyring())
    }

    /// The ledger as a source that is looked through: for as long as its index was never complete.
    pub(super) fn source(&self) -> LedgerSource {
        LedgerSource::new(
            self.engine.clone(),
            self.scope.clone(),
            self.runtime.clone(),
        )
    }

    /// Lets the index learn what was written last; when what it knows was so, milliseconds since 1970.
    pub(super) fn caught_up(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<i64>, Failure> {
        let progress = self
            .runtime
            .block_on(self.feed.catch_up(CATCH_UP, stopped))?;
        let knows = !progress.forgotten || self.knows_all()?;
        Ok(progress.as_of.filter(|_| knows).map(Timestamp::as_millis))
    }

    /// Whether the index holds every session that the caller sees: none was forgotten and waits to be read again.
    fn knows_all(&self) -> Result<bool, Failure> {
        let sessions = self.index().sessions(&self.reach())?;
        Ok(sessions.iter().all(|session| session.entry.stamp != [0, 0]))
    }
}

/// The sessions that are asked, where not all are.
pub(super) struct Only(pub(super) Option<Vec<SessionNo>>);

impl Searcher {
    /// Readies the ledger's index for a question; `None` when the ledger is not asked.
    pub(super) fn ledger_asked(
        &self,
        asked: &Asked<'_>,
        catalog: &Catalog,
    ) -> Result<Option<Only>, LibraryError> {
        let ids: Vec<&str> = asked.filter.sessions(false).collect();
        if let Some(id) = ids.iter().find(|id| !self.has(catalog, id)) {
            return Err(LibraryError::NoSession((*id).to_owned()));
        }
        let Some(ledger) = self
            .ledger
            .as_ref()
            .filter(|_| asked.filter.lets_source(NAME))
        else {
            return Ok(None);
        };
        if ids.iter().any(|id| catalog.get(id).is_ok()) {
            return Ok(None);
        }
        ledger.only(asked).map(Some).map_err(|why| unanswered(&why))
    }

    /// Whether there is a session of this id that the caller may see.
    pub(super) fn has(&self, catalog: &Catalog, id: &str) -> bool {
        let in_ledger = |ledger: &LedgerSearch| ledger.header(id).is_some();
        catalog.get(id).is_ok() || self.ledger.as_ref().is_some_and(in_ledger)
    }

    pub(super) fn in_ledger<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
        only: Option<&[SessionNo]>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        let look = Look {
            index: ledger.index(),
            reach: &ledger.reach(),
            sessions: only,
            asked,
            agent: &|_| None,
        };
        let find = || {
            let inside = look.find()?;
            let numbers: Vec<SessionNo> = inside.keys().copied().collect();
            Ok((inside, ledger.index().sessions_by_no(&numbers)?))
        };
        let (mut inside, sessions) = find().map_err(|why| unanswered(&why))?;
        let excluded: Vec<&str> = asked.filter.sessions(true).collect();
        for session in sessions {
            let key = &*session.entry.key;
            if catalog.get(key).is_ok() || excluded.contains(&key) {
                continue;
            }
            if let Some(inside) = inside.remove(&session.no) {
                all.sessions.push(Found {
                    evidence: inside.evidence,
                    updated: session.entry.updated,
                    id: session.entry.key,
                    score: 0,
                    at: At::Ledger(inside),
                });
            }
        }
        Ok(())
    }
}

impl LedgerSearch {
    fn only(&self, asked: &Asked<'_>) -> Result<Only, Failure> {
        if let Some(id) = asked.filter.session() {
            let session = self.index().session(&realm_of(&self.scope.tenant), id)?;
            let reach = self.reach();
            let seen = session.filter(|session| reach.holds(&session.shard));
            return Ok(Only(Some(seen.iter().map(|session| session.no).collect())));
        }
        if !asked.filter.asks_project() {
            return Ok(Only(None));
        }
        // What an import noted of a project is in the session's header alone.
        let sessions = self.index().sessions(&self.reach())?;
        let is_of = |session: &&IndexedSession| {
            self.header(&session.entry.key)
                .is_some_and(|header| asked.filter.lets(&header))
        };
        Ok(Only(Some(
            sessions
                .iter()
                .filter(is_of)
                .map(|session| session.no)
                .collect(),
        )))
    }
}

pub(super) fn unanswered(why: &Failure) -> LibraryError {
    LibraryError::Unavailable(why.clone())
}
