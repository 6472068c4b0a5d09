//! One search over everything: the histories of other programs, and the ledger. It uses their indexes for the sessions
//! whose current state is indexed, and scans the other sessions.

mod answered;
mod cursor;
mod found;
mod indexed;
mod inside;
mod ledger;
mod meaning;
mod near;
mod page;
mod place;
mod query;
mod records;
mod scan;
mod show;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::Source;
use filrouge_sources::library::{Library, LibraryError};
use filrouge_store::text_index::SessionNo;
use filrouge_types::{Clock, Failure, SystemClock};

use crate::answer::Results;
use crate::ask::Ask;
use crate::embed::Embedder;
use crate::feed::Indexes;
use crate::question::Question;
use crate::rank::rounded;
use crate::weigh::Words;
use cursor::Cursor;
pub use cursor::started_at;
use found::{Found, FoundIn, FoundSessions, Remarks};
use indexed::IndexSearch;
pub use ledger::LedgerSearch;
use page::Page;
use place::{Place, Places};
use query::PreparedQuery;
#[cfg(test)]
pub(crate) use show::EXCERPTS;

/// The default of [`Searcher::fresh`]. It bounds the age of [`Results::as_of`].
const FRESH: Duration = Duration::from_secs(1);

/// Searches the sources of a library and, if there is one, a ledger. Cheap to clone.
#[derive(Clone)]
pub struct Searcher {
    library: Library,
    indexes: Option<Arc<Indexes>>,
    ledger: Option<LedgerSearch>,
    /// Whether the ledger is scanned as one of the sources of `library`, instead of searched by its index.
    scans_ledger: bool,
    embedder: Option<Arc<dyn Embedder>>,
    /// As in [`IndexSearch::max_candidates`].
    max_candidates: usize,
    /// The time for which a listing of a source, and the comparison of its index with it, is used again.
    pub(crate) fresh: Duration,
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
            max_candidates: indexed::MAX_SCANNED,
            fresh: FRESH,
        }
    }

    /// Uses these indexes. They must belong to the first sources of the library, in the same order; other sources are
    /// scanned.
    #[must_use]
    pub fn with_indexes(mut self, indexes: Arc<Indexes>) -> Self {
        self.indexes = Some(indexes);
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
        ask: &Ask,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Results, LibraryError> {
        if let Some(what) = ask.blank() {
            let text = format!("{what} is empty: name one, or leave it out");
            return Err(LibraryError::Invalid(text));
        }
        let cursor = ask
            .cursor
            .as_deref()
            .map(|c| Cursor::read(c, ask))
            .transpose()?;
        let now = match &cursor {
            Some(cursor) => cursor.now,
            None => ask.now.unwrap_or_else(|| SystemClock.now().as_millis()),
        };
        // `today` is the same day on all pages.
        let ask = &Ask {
            now: Some(now),
            ..ask.clone()
        };
        let question =
            Question::of(ask, stopped).map_err(|wrong| LibraryError::Invalid(wrong.to_string()))?;
        let filter = question.filter();
        let page = Page::of(ask, &filter, cursor.as_ref())?;
        let (mut remarks, text) = (Remarks::default(), question.text_to_embed(ask));
        let vector = match text.is_empty() {
            true => None,
            false => {
                let embedder = self.embedder.as_deref();
                meaning::embedded(embedder, &text, cursor.as_ref(), &mut remarks)?
            }
        };
        let query = PreparedQuery {
            ask,
            question: &question,
            filter: &filter,
            words: &Words::of(&question),
            stopped,
            now,
            text: &text,
            vector: vector.as_ref(),
        };
        self.answer(&query, &page, remarks)
    }

    /// Searches the ledger by its index and the library by its indexes. If the ledger's index is not complete, or does
    /// not answer, the ledger is scanned like a source.
    fn answer(
        &self,
        query: &PreparedQuery<'_>,
        page: &Page<'_>,
        remarks: Remarks,
    ) -> Result<Results, LibraryError> {
        let ledger = self.ledger.as_ref();
        let Some(ledger) = ledger.filter(|_| query.filter.may_pass_source(ledger::NAME)) else {
            return self.search_places(query, page, remarks);
        };
        let mut without = remarks.clone();
        match ledger.catch_up(query.stopped) {
            Ok(Some(as_of)) => {
                let mut remarks = remarks;
                remarks.known_at(as_of);
                match self.search_places(query, page, remarks) {
                    Err(LibraryError::Unavailable(why)) => without.unanswered(&why),
                    answer => return answer,
                }
            }
            Ok(None) => {}
            Err(why) => without.unanswered(&why),
        }
        self.scanning(query, ledger)
            .search_places(query, page, without)
    }

    /// Returns a copy of this searcher that scans the ledger as a source.
    fn scanning(&self, query: &PreparedQuery<'_>, ledger: &LedgerSearch) -> Self {
        let may_pass = |source: &&Arc<dyn Source>| query.filter.may_pass_source(source.name());
        let sources = self.library.sources();
        let source = Arc::new(ledger.source());
        let mut this = self.clone();
        this.scans_ledger = true;
        this.library = match sources.iter().all(|source| may_pass(&source)) {
            true => self.library.with(source),
            // Sessions of an excluded source are shown from the ledger.
            false => {
                this.indexes = None;
                let some = sources.iter().filter(may_pass).cloned().collect();
                Library::new(some, 0).with(source)
            }
        };
        this
    }

    /// Reads, compares and ranks candidates, and returns a page of them.
    fn search_places(
        &self,
        query: &PreparedQuery<'_>,
        page: &Page<'_>,
        remarks: Remarks,
    ) -> Result<Results, LibraryError> {
        let indexes = self.indexes.as_deref().map(|all| (all, self.fresh));
        let catalog = match indexes {
            Some(_) => self.library.catalog_within(self.fresh),
            None => self.library.catalog(),
        };
        let mut all = FoundSessions {
            sessions: Vec::new(),
            remarks,
        };
        let history = (&self.library, &*catalog);
        let ledger = (self.ledger.as_ref(), !self.scans_ledger);
        let places = Places::of(query, history, indexes, ledger, &mut all.remarks)?;
        if query.is_by_words() {
            self.by_words(query, &places, &mut all)?;
        }
        if !query.text.is_empty() {
            meaning::add_meaning(query, &places, &mut all)?;
        }
        if (query.stopped)() {
            return Err(LibraryError::Cancelled);
        }
        all.order(query);
        page.results(&places, query, all)
    }

    /// Finds the sessions that contain all words and pass the filters: by the indexes, and by scanning the sessions
    /// that no index covers.
    fn by_words<'c>(
        &self,
        query: &PreparedQuery<'_>,
        places: &Places<'c>,
        all: &mut FoundSessions<'c>,
    ) -> Result<(), LibraryError> {
        let mut unindexed = places.unindexed.clone();
        for (at, place) in places.indexed.iter().enumerate() {
            match self.search_index(query, places, (at, place)) {
                Ok(found) => {
                    all.sessions.extend(found);
                    if let Some(as_of) = place.as_of {
                        all.remarks.known_at(as_of);
                    }
                }
                Err(why) if place.is_ledger() => return Err(ledger::unanswered(why)),
                Err(why) => {
                    all.remarks.unanswered(&why);
                    unindexed.extend(place.entries());
                }
            }
        }
        scan::add_matches(&self.library, query, &unindexed, all);
        for found in &mut all.sessions {
            found.score = rounded(found.evidence.score(found.updated, query.now));
        }
        Ok(())
    }

    /// Returns the sessions of one index that match or may match. `at` is the position of `place` in `places.indexed`.
    fn search_index<'c>(
        &self,
        query: &PreparedQuery<'_>,
        places: &Places<'c>,
        (at, place): (usize, &Place<'c>),
    ) -> Result<Vec<Found<'c>>, Failure> {
        let search = IndexSearch {
            index: place.index(),
            reach: &place.reach,
            sessions: place.only.as_deref(),
            query,
            agent: &|no| place.agent(query, no),
            max_candidates: self.max_candidates,
        };
        let inside = search.find()?;
        let numbers: Vec<SessionNo> = inside.iter().map(|one| one.session).collect();
        // A session that is not among them no longer exists, or is shown from another source.
        let mut named = place.shown_sessions(query, places.catalog, &numbers)?;
        let found = inside.into_iter().filter_map(|inside| {
            let session = named.remove(&inside.session)?;
            Some(Found {
                id: session.id,
                updated: session.updated,
                entry: session.entry,
                evidence: inside.evidence,
                score: 0,
                found_in: FoundIn::Index(at, inside),
            })
        });
        Ok(found.collect())
    }
}

/// Searches the sources of a library by scanning them.
#[cfg(test)]
pub(crate) fn search(library: &Library, ask: &Ask) -> Result<Results, LibraryError> {
    Searcher::new(library.clone()).search(ask, &|| false)
}
