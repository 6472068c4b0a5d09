//! What a ledger holds, as far as a scope sees it.
//!
//! The owner stands in every statement that the index is asked with: what others have said is neither read nor counted.
//! Whoever is shown a session is asked for once more, by the ledger.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::Engine;
use filrouge_sources::ledger::{LedgerSource, header};
use filrouge_sources::library::{Catalog, Library, LibraryError};
use filrouge_sources::{Header, Source};
use filrouge_store::Scope;
use filrouge_store::text_index::{Reach, SessionNo, TextIndex, Which};
use filrouge_types::{ErrorCode, Failure, Session, SessionId, Timestamp};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::indexed::Look;
use super::{Asked, At, Everything, Found, Searcher};
use crate::answer::Hit;
use crate::ledger::{LedgerFeed, place, reach_of, realm_of};

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
    pub(super) fn header(&self, id: &str) -> Result<Option<Header>, Failure> {
        let Ok(id) = id.parse::<SessionId>() else {
            return Ok(None);
        };
        let read = self.engine.ledger().session(&self.scope, &id);
        seen(self.runtime.block_on(read))
    }

    /// The agent of a session's messages that name none, where somebody asks for agents.
    pub(super) fn agent(&self, asked: &Asked<'_>, id: &str) -> Result<Option<Box<str>>, Failure> {
        if !asked.filter.asks_agent() {
            return Ok(None);
        }
        Ok(self.header(id)?.and_then(|header| header.agent))
    }

    /// [`LedgerSearch::header`] of several sessions, read side by side.
    pub(super) fn headers(&self, ids: &[&str]) -> Headers {
        let mut reads = JoinSet::new();
        let mut headers = Headers::new();
        self.runtime.block_on(async {
            for id in ids {
                let id: Box<str> = Box::from(*id);
                let Ok(session) = id.parse::<SessionId>() else {
                    headers.insert(id, Ok(None));
                    continue;
                };
                let (engine, scope) = (self.engine.clone(), self.scope.clone());
                reads.spawn(async move {
                    let read = engine.ledger().session(&scope, &session).await;
                    (id, seen(read))
                });
            }
            while let Some(read) = reads.join_next().await {
                headers.extend(read);
            }
        });
        headers
    }

    /// Names the items of the excerpts of these sessions, side by side.
    pub(super) fn place(&self, hits: &mut [Hit]) -> Result<(), Failure> {
        let mut reads = JoinSet::new();
        self.runtime.block_on(async {
            for (at, hit) in hits.iter_mut().enumerate() {
                let Ok(session) = hit.session.id.parse::<SessionId>() else {
                    continue;
                };
                if hit.session.source != NAME {
                    continue;
                }
                let (engine, scope) = (self.engine.clone(), self.scope.clone());
                let mut excerpts = std::mem::take(&mut hit.excerpts);
                reads.spawn(async move {
                    let placed = place(&engine, &scope, &session, &mut excerpts).await;
                    (at, excerpts, placed)
                });
            }
            let mut placed = Ok(());
            while let Some(read) = reads.join_next().await {
                let (at, excerpts, told) = read.map_err(|why| {
                    Failure::new(ErrorCode::Internal, format!("an item was not named: {why}"))
                })?;
                if let Some(hit) = hits.get_mut(at) {
                    hit.excerpts = excerpts;
                }
                placed = placed.and(told);
            }
            placed
        })
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
        let sessions = self.index().known(Which::Within(&self.reach()))?.sessions;
        Ok(sessions.iter().all(|session| session.entry.stamp != [0, 0]))
    }
}

/// Sessions by their ids, as far as the caller may see them.
pub(super) type Headers = HashMap<Box<str>, Result<Option<Header>, Failure>>;

fn seen(read: Result<Session, Failure>) -> Result<Option<Header>, Failure> {
    match read {
        Ok(session) => Ok(Some(header(&session))),
        // A store that does not answer tells nothing of the session.
        Err(why) if why.code.retry() => Err(why),
        Err(_) => Ok(None),
    }
}

/// The sessions that are asked, where not all are.
pub(super) struct Only(pub(super) Option<Vec<SessionNo>>);

impl Asked<'_> {
    /// Whether a session of the ledger is shown from there: it is not left out, nor shown from a source.
    pub(super) fn is_shown_from_ledger(&self, catalog: &Catalog, id: &str) -> bool {
        let mut left_out = self.filter.sessions(true);
        !self.is_shown_from_source(catalog, id) && left_out.all(|other| other != id)
    }

    fn is_shown_from_source(&self, catalog: &Catalog, id: &str) -> bool {
        let entry = catalog.get(id);
        entry.is_ok_and(|entry| self.filter.lets_source(entry.header.source))
    }
}

impl Searcher {
    /// The ledger, where it is asked by its index.
    pub(super) fn indexed_ledger(&self) -> Option<&LedgerSearch> {
        self.ledger.as_ref().filter(|_| !self.scans_ledger)
    }

    /// This one, which looks through the ledger as through a source.
    pub(super) fn scanning(&self, asked: &Asked<'_>, ledger: &LedgerSearch) -> Self {
        let lets = |source: &&Arc<dyn Source>| asked.filter.lets_source(source.name());
        let sources = self.library.sources();
        let source = Arc::new(ledger.source());
        let mut this = self.clone();
        this.scans_ledger = true;
        this.library = match sources.iter().all(|source| lets(&source)) {
            true => self.library.with(source),
            // What a source has that is left out is shown from the ledger.
            false => {
                this.indexes = None;
                let some = sources.iter().filter(lets).cloned().collect();
                Library::new(some, 0).with(source)
            }
        };
        this
    }

    /// Readies the ledger's index for a question; `None` when it is not asked.
    pub(super) fn ledger_asked(
        &self,
        asked: &Asked<'_>,
        catalog: &Catalog,
    ) -> Result<Option<Only>, LibraryError> {
        for id in asked.filter.sessions(false) {
            if !self.has(catalog, id)? {
                return Err(LibraryError::NoSession(id.to_owned()));
            }
        }
        let ledger = self.indexed_ledger();
        let Some(ledger) = ledger.filter(|_| asked.filter.lets_source(NAME)) else {
            return Ok(None);
        };
        let mut ids = asked.filter.sessions(false);
        if ids.any(|id| asked.is_shown_from_source(catalog, id)) {
            return Ok(None);
        }
        ledger.only(asked).map(Some).map_err(unanswered)
    }

    /// Whether there is a session of this id that the caller may see.
    pub(super) fn has(&self, catalog: &Catalog, id: &str) -> Result<bool, LibraryError> {
        match &self.ledger {
            _ if catalog.get(id).is_ok() => Ok(true),
            Some(ledger) => Ok(ledger.header(id).map_err(unanswered)?.is_some()),
            None => Ok(false),
        }
    }

    pub(super) fn in_ledger<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
        only: Option<&[SessionNo]>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let Some(ledger) = self.indexed_ledger() else {
            return Ok(());
        };
        let look = Look {
            index: ledger.index(),
            reach: &ledger.reach(),
            sessions: only,
            asked,
            agent: &|no| ledger.agent_of(asked, no),
            most: self.most,
        };
        let find = || {
            let inside = look.find()?;
            let numbers: Vec<SessionNo> = inside.iter().map(|one| one.session).collect();
            let which = Which::Numbers(look.reach, &numbers);
            Ok((inside, ledger.index().known(which)?.sessions))
        };
        let (inside, sessions) = find().map_err(unanswered)?;
        let mut inside: HashMap<_, _> = inside.into_iter().map(|one| (one.session, one)).collect();
        for session in sessions.iter() {
            let is_asked = asked.is_shown_from_ledger(catalog, &session.entry.key);
            if let Some(inside) = inside.remove(&session.no).filter(|_| is_asked) {
                all.sessions.push(Found {
                    evidence: inside.evidence,
                    updated: session.entry.updated,
                    id: Cow::Owned(session.entry.key.to_string()),
                    score: 0,
                    at: At::Ledger(inside),
                });
            }
        }
        Ok(())
    }
}

impl LedgerSearch {
    /// [`LedgerSearch::agent`] by a session's number. One that cannot be read has none: it is not shown either.
    fn agent_of(&self, asked: &Asked<'_>, no: SessionNo) -> Option<Box<str>> {
        if !asked.filter.asks_agent() {
            return None;
        }
        let known = self.index().known(Which::Numbers(&self.reach(), &[no]));
        let sessions = known.ok()?.sessions;
        self.agent(asked, &sessions.first()?.entry.key).ok()?
    }

    fn only(&self, asked: &Asked<'_>) -> Result<Only, Failure> {
        if let Some(id) = asked.filter.session() {
            let key = (realm_of(&self.scope.tenant), id.into());
            let sessions = self.index().known(Which::Named(&[key]))?.sessions;
            let reach = self.reach();
            let header = self.header(id)?;
            let passes = header.is_some_and(|header| asked.filter.lets(&header));
            let mut seen = sessions.to_vec();
            seen.retain(|session| passes && reach.holds(&session.shard));
            return Ok(Only(Some(seen.iter().map(|session| session.no).collect())));
        }
        if !asked.filter.asks_project() {
            return Ok(Only(None));
        }
        // What an import noted of a project is in the session's header alone. The newest are listed together.
        let listing = self.source().list().map_err(|why| unlisted(&why))?;
        let listed = listing.headers.iter().map(|header| (&*header.id, header));
        let listed: HashMap<&str, _> = listed.collect();
        let mut only = Vec::new();
        for session in self.index().known(Which::Within(&self.reach()))?.sessions.iter() {
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
        Ok(Only(Some(only)))
    }
}

fn unlisted(why: &filrouge_sources::SourceError) -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, why.to_string()).with_hint(why.hint())
}

pub(super) fn unanswered(why: Failure) -> LibraryError {
    LibraryError::Unavailable(why)
}
