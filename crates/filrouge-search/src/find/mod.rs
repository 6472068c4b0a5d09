//! One search over everything: the histories of other programs, and the ledger. It uses their indexes for the sessions
//! whose current state is indexed, and scans the other sessions.

mod answer;
mod confirmed;
mod cursor;
mod found;
mod indexed;
mod ledger;
mod meaning;
mod named;
mod page;
mod query;
mod scan;
mod search_space;
mod session_candidates;
mod show;
mod similar;

use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::Source;
use filrouge_sources::ledger::is_session;
use filrouge_sources::library::{Library, LibraryError};
use filrouge_store::text_index::SessionNo;
use filrouge_types::{Clock, Failure, SystemClock};

use crate::answer::Results;
use crate::embed::Embedder;
use crate::feed::Indexes;
use crate::parsed_search::ParsedSearch;
use crate::rank::rounded;
use crate::request::SearchRequest;
use crate::similar_turns::SimilarTurns;
use crate::weigh::Words;
use cursor::Cursor;
pub use cursor::started_at;
use found::{FoundIn, FoundSession, FoundSessions, Remarks};
use indexed::IndexSearch;
pub use ledger::LedgerSearch;
use named::NamedSearch;
use page::Page;
use query::PreparedQuery;
use search_space::{SearchSpace, SearchedIndex};
#[cfg(test)]
pub(crate) use show::DEFAULT_EXCERPTS;

/// The default of [`Searcher::max_age`]. It bounds the age of [`Results::as_of`].
const MAX_AGE: Duration = Duration::from_secs(1);

/// Searches the sources of a library and, if there is one, a ledger. Cheap to clone.
#[derive(Clone)]
pub struct Searcher {
    library: Library,
    indexes: Option<Arc<Indexes>>,
    ledger: Option<LedgerSearch>,
    /// Whether the ledger is scanned as one of the sources of `library`, instead of searched by its index.
    scans_ledger: bool,
    embedder: Option<Arc<dyn Embedder>>,
    similar_turns: Option<Arc<dyn SimilarTurns>>,
    /// As in [`IndexSearch::max_candidates`].
    max_candidates: usize,
    /// The time for which a listing of a source, and the comparison of its index with it, is used again.
    pub(crate) max_age: Duration,
}

impl Searcher {
    /// Creates a searcher that scans the sources of `library`.
    #[must_use]
    pub fn new(library: Library) -> Self {
        Self {
            library,
            indexes: None,
            ledger: None,
            scans_ledger: false,
            embedder: None,
            similar_turns: None,
            max_candidates: indexed::DEFAULT_MAX_CANDIDATES,
            max_age: MAX_AGE,
        }
    }

    /// Uses these indexes. They must belong to the first sources of the library, in the same order; other sources are
    /// scanned.
    #[must_use]
    pub fn with_indexes(mut self, indexes: impl Into<Option<Arc<Indexes>>>) -> Self {
        self.indexes = indexes.into();
        self
    }

    /// Searches a ledger in addition. If a source of the library has a session with the same id as one of the ledger,
    /// the source's session is shown, unless the query excludes the source.
    #[must_use]
    pub fn with_ledger(mut self, ledger: LedgerSearch) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Also finds documents by their meaning, if this embedder has embedded them.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        self.embedder = embedder;
        self
    }

    /// Lets this name turns of the ledger in searches for similar questions. It needs an embedder, and vectors of the
    /// same one. If it does not answer, or does not have the caller's turns, the ledger's index is used.
    #[must_use]
    pub fn with_similar_turns(mut self, similar: Option<Arc<dyn SimilarTurns>>) -> Self {
        self.similar_turns = similar;
        self
    }

    /// Sets the maximum number of candidates of an index that are scanned before a page is built; the default is 300.
    /// If there are more candidates, scanning may stop after 100 of them, once their matches fill a page, and the
    /// number of matches among the others is estimated. A session is never shown because of an estimate: only real
    /// matches are.
    #[must_use]
    pub const fn with_max_candidates(mut self, candidates: usize) -> Self {
        self.max_candidates = candidates;
        self
    }

    /// Searches, and returns a page of at most 500 sessions, the best first. The totals cover all pages, and say
    /// whether they were counted or estimated. Fails with `Cancelled` once `stopped` returns true.
    ///
    /// # Errors
    /// [`LibraryError::Invalid`] for a query, a cursor or a limit that cannot be accepted; for a query, the message
    /// names the character. [`LibraryError::NoSession`] if the query requires a session that does not exist.
    /// [`LibraryError::Unavailable`] if the ledger does not answer, or if the page needs the question's embedding and
    /// the embedder does not answer. [`LibraryError::Cancelled`].
    pub fn search(
        &self,
        request: &SearchRequest,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Results, LibraryError> {
        if let Some(filter) = request.first_blank_filter() {
            let text = format!("{filter} is empty: name one, or leave it out");
            return Err(LibraryError::Invalid(text));
        }
        let cursor = request
            .cursor
            .as_deref()
            .map(|c| Cursor::parse(c, request))
            .transpose()?;
        let now = match &cursor {
            Some(cursor) => cursor.now,
            None => request.now.unwrap_or_else(|| SystemClock.now().as_millis()),
        };
        // `today` is the same day on all pages.
        let request = &SearchRequest {
            now: Some(now),
            ..request.clone()
        };
        let parsed = ParsedSearch::new(request, stopped)
            .map_err(|error| LibraryError::Invalid(error.to_string()))?;
        let filter = parsed.filter();
        let page = Page::new(request, &filter, cursor.as_ref())?;
        let (mut remarks, text) = (Remarks::default(), parsed.text_to_embed(request));
        let vector = match text.is_empty() {
            true => None,
            false => {
                let embedder = self.embedder.as_deref();
                meaning::embed_question(embedder, &text, cursor.as_ref(), &mut remarks)?
            }
        };
        let named = NamedSearch {
            ledger: self.ledger.as_ref(),
            projection: self.similar_turns.as_deref(),
            request,
            filter: &filter,
            question: vector.as_ref(),
            cursor: cursor.as_ref(),
        };
        let named = named.turns(&mut remarks)?;
        let query = PreparedQuery {
            request,
            parsed: &parsed,
            filter: &filter,
            words: &Words::new(&parsed),
            stopped,
            now,
            text: &text,
            vector: vector.as_ref(),
            named: named.as_deref(),
        };
        self.search_prepared(&query, &page, remarks)
    }

    /// Searches the ledger by its index and the library by its indexes. If the ledger's index is not complete, or does
    /// not answer, the ledger is scanned like a source.
    fn search_prepared(
        &self,
        query: &PreparedQuery<'_>,
        page: &Page<'_>,
        remarks: Remarks,
    ) -> Result<Results, LibraryError> {
        let ledger = self.ledger.as_ref();
        let Some(ledger) = ledger.filter(|_| query.filter.may_pass_source(ledger::LEDGER_NAME))
        else {
            return self.search_all(query, page, remarks);
        };
        let mut scan_remarks = remarks.clone();
        match ledger.catch_up(query.stopped) {
            Ok(Some(as_of)) => {
                let mut remarks = remarks;
                remarks.limit_as_of(as_of);
                match self.search_all(query, page, remarks) {
                    Err(LibraryError::Unavailable(why)) => scan_remarks.add_unanswered(&why),
                    results => return results,
                }
            }
            Ok(None) => {}
            Err(why) => scan_remarks.add_unanswered(&why),
        }
        self.with_scanned_ledger(query, ledger)
            .search_all(query, page, scan_remarks)
    }

    /// Returns a copy of this searcher that scans the ledger as a source.
    fn with_scanned_ledger(&self, query: &PreparedQuery<'_>, ledger: &LedgerSearch) -> Self {
        let may_pass = |source: &&Arc<dyn Source>| query.filter.may_pass_source(source.name());
        let sources = self.library.sources();
        let source = Arc::new(ledger.source());
        let mut searcher = self.clone();
        searcher.scans_ledger = true;
        searcher.library = match sources.iter().all(|source| may_pass(&source)) {
            true => self.library.with(source),
            // Sessions of an excluded source are shown from the ledger.
            false => {
                searcher.indexes = None;
                let passing_sources = sources.iter().filter(may_pass).cloned().collect();
                Library::new(passing_sources, 0).with(source)
            }
        };
        searcher
    }

    /// Reads, compares and ranks candidates, and returns a page of them.
    fn search_all(
        &self,
        query: &PreparedQuery<'_>,
        page: &Page<'_>,
        remarks: Remarks,
    ) -> Result<Results, LibraryError> {
        let indexes = self
            .indexes
            .as_deref()
            .map(|indexes| (indexes, self.max_age));
        let catalog = match indexes {
            Some(_) => self.library.catalog_within(self.max_age),
            None => self.library.catalog(),
        };
        let mut all = FoundSessions {
            sessions: Vec::new(),
            remarks,
        };
        let history = (&self.library, &*catalog);
        let ledger = (self.ledger.as_ref(), !self.scans_ledger);
        let space = SearchSpace::new(query, history, indexes, ledger, &mut all.remarks)?;
        all.remarks.lacks_sessions |=
            query.filter.session().is_none() && catalog.skipped.iter().any(is_session);
        if query.is_by_words() {
            self.find_by_words(query, &space, &mut all)?;
        }
        if !query.text.is_empty() {
            meaning::add_meaning(query, &space, &mut all)?;
        }
        if (query.stopped)() {
            return Err(LibraryError::Cancelled);
        }
        all.sort(query);
        page.results(&space, query, all)
    }

    /// Finds the sessions that contain all words and pass the filters: by the indexes, and by scanning the sessions
    /// that no index covers.
    fn find_by_words<'c>(
        &self,
        query: &PreparedQuery<'_>,
        space: &SearchSpace<'c>,
        all: &mut FoundSessions<'c>,
    ) -> Result<(), LibraryError> {
        let mut unindexed = space.unindexed.clone();
        for (at, searched) in space.indexed.iter().enumerate() {
            match self.search_index(query, space, (at, searched)) {
                Ok(found) => {
                    all.sessions.extend(found);
                    if let Some(as_of) = searched.as_of {
                        all.remarks.limit_as_of(as_of);
                    }
                }
                Err(why) if searched.is_ledger() => return Err(LibraryError::Unavailable(why)),
                Err(why) => {
                    all.remarks.add_unanswered(&why);
                    unindexed.extend(searched.entries());
                }
            }
        }
        scan::add_matches(&self.library, query, &unindexed, all);
        for found in &mut all.sessions {
            found.score = rounded(found.evidence.score(found.shown.updated, query.now));
        }
        Ok(())
    }

    /// Returns the sessions of one index that match or may match. `at` is the position of `searched` in
    /// `space.indexed`.
    fn search_index<'c>(
        &self,
        query: &PreparedQuery<'_>,
        space: &SearchSpace<'c>,
        (at, searched): (usize, &SearchedIndex<'c>),
    ) -> Result<Vec<FoundSession<'c>>, Failure> {
        let search = IndexSearch {
            texts: searched.texts(),
            reach: &searched.reach,
            sessions: searched.sessions.as_deref(),
            query,
            agent: &|no| searched.agent(query, no),
            max_candidates: self.max_candidates,
        };
        let candidates = search.find()?;
        let numbers: Vec<SessionNo> = candidates.iter().map(|one| one.session).collect();
        // A session that is not among them no longer exists, or is shown from another source.
        let mut shown_sessions = searched.shown_sessions(query, space.catalog, &numbers)?;
        let found = candidates.into_iter().filter_map(|candidates| {
            let shown = shown_sessions.remove(&candidates.session)?;
            Some(FoundSession {
                shown,
                evidence: candidates.evidence,
                score: 0,
                found_in: FoundIn::Index(at, candidates),
            })
        });
        Ok(found.collect())
    }
}

/// Searches the sources of a library by scanning them.
#[cfg(test)]
pub(crate) fn search(library: &Library, request: &SearchRequest) -> Result<Results, LibraryError> {
    Searcher::new(library.clone()).search(request, &|| false)
}
