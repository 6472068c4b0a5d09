//! One question put to everything: foreign histories and the ledger, by their indexes where these know them as they are,
//! by looking through the rest.

mod answered;
mod asked;
mod cursor;
mod found;
mod indexed;
mod inside;
mod ledger;
mod meaning;
mod near;
mod page;
mod place;
mod records;
mod show;
mod texts;
mod whole;

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
use asked::Asked;
use cursor::Cursor;
pub use cursor::begun;
use found::{At, Everything, Found, Told};
use indexed::Look;
pub use ledger::LedgerSearch;
use page::Page;
use place::{Place, Places};
#[cfg(test)]
pub(crate) use show::EXCERPTS;

/// What an index tells of a history is used without another look for so long: the bound of [`Results::as_of`].
const FRESH: Duration = Duration::from_secs(1);

/// Searches the sources of a library, and a ledger. Cheap to clone.
#[derive(Clone)]
pub struct Searcher {
    library: Library,
    indexes: Option<Arc<Indexes>>,
    ledger: Option<LedgerSearch>,
    /// Whether the ledger is among the sources of `library`, to be looked through.
    scans_ledger: bool,
    embedder: Option<Arc<dyn Embedder>>,
    /// How many candidates of an index are looked through.
    most: usize,
    /// How long what an index or a listing tells is used without another look.
    pub(crate) fresh: Duration,
}

impl Searcher {
    /// Searches the sources of `library` by looking through them.
    #[must_use]
    pub fn new(library: Library) -> Self {
        Self {
            library,
            indexes: None,
            ledger: None,
            scans_ledger: false,
            embedder: None,
            most: indexed::LOOKED_THROUGH,
            fresh: FRESH,
        }
    }

    /// Uses these indexes: by the places of the library's sources, of which the first ones are those they were made for.
    #[must_use]
    pub fn with_indexes(mut self, indexes: Arc<Indexes>) -> Self {
        self.indexes = Some(indexes);
        self
    }

    /// Searches a ledger as well. What a source of the library has under the same id is shown from there, unless that
    /// source is left out.
    #[must_use]
    pub fn with_ledger(mut self, ledger: LedgerSearch) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Finds by meaning, too, what was embedded by it.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        self.embedder = embedder;
        self
    }

    /// Looks through at most so many candidates of an index before it answers, and estimates how many of the others hold
    /// what is looked for; 300 unless told, of more 100 where these fill a page. What is shown is never estimated.
    #[must_use]
    pub const fn looking_through(mut self, candidates: usize) -> Self {
        self.most = candidates;
        self
    }

    /// Searches. A page shows at most 500 sessions, the best first; numbers count all pages, and say whether they were
    /// counted or estimated. Ends early when `stopped` says so.
    ///
    /// # Errors
    /// [`LibraryError::Invalid`] for a query or a cursor that cannot be understood; it names the character.
    /// [`LibraryError::NoSession`] for a session that is nowhere. [`LibraryError::Unavailable`] when the ledger does not
    /// answer, or an embedder that the page before was found by. [`LibraryError::GivenUp`].
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
        // What `today` is holds from the first page to the last.
        let ask = &Ask {
            now: Some(now),
            ..ask.clone()
        };
        let question =
            Question::of(ask, stopped).map_err(|wrong| LibraryError::Invalid(wrong.to_string()))?;
        let filter = question.filter();
        let page = Page::of(ask, &filter, cursor.as_ref())?;
        let (mut told, text) = (Told::default(), question.meant(ask));
        let meant = match text.is_empty() {
            true => None,
            false => {
                let embedder = self.embedder.as_deref();
                meaning::embedded(embedder, &text, cursor.as_ref(), &mut told)?
            }
        };
        let asked = Asked {
            ask,
            question: &question,
            filter: &filter,
            words: &Words::of(&question),
            stopped,
            now,
            text: &text,
            meant: meant.as_ref(),
        };
        self.answer(&asked, &page, told)
    }

    /// Answers by the ledger's index; while that was never complete, or when it does not answer, the ledger is looked
    /// through like every source.
    fn answer(
        &self,
        asked: &Asked<'_>,
        page: &Page<'_>,
        told: Told,
    ) -> Result<Results, LibraryError> {
        let ledger = self.ledger.as_ref();
        let Some(ledger) = ledger.filter(|_| asked.filter.lets_source(ledger::NAME)) else {
            return self.found(asked, page, told);
        };
        let mut without = told.clone();
        match ledger.caught_up(asked.stopped) {
            Ok(Some(as_of)) => {
                let mut told = told;
                told.known_at(as_of);
                match self.found(asked, page, told) {
                    Err(LibraryError::Unavailable(why)) => without.unanswered(&why),
                    answer => return answer,
                }
            }
            Ok(None) => {}
            Err(why) => without.unanswered(&why),
        }
        self.scanning(asked, ledger).found(asked, page, without)
    }

    /// This one, which reads the ledger as a source.
    fn scanning(&self, asked: &Asked<'_>, ledger: &LedgerSearch) -> Self {
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

    /// Candidates, read, compared, ranked, and of them a page.
    fn found(
        &self,
        asked: &Asked<'_>,
        page: &Page<'_>,
        told: Told,
    ) -> Result<Results, LibraryError> {
        let indexes = self.indexes.as_deref().map(|all| (all, self.fresh));
        let catalog = match indexes {
            Some(_) => self.library.catalog_within(self.fresh),
            None => self.library.catalog(),
        };
        let mut all = Everything {
            sessions: Vec::new(),
            told,
        };
        let history = (&self.library, &*catalog);
        let ledger = (self.ledger.as_ref(), !self.scans_ledger);
        let places = Places::of(asked, history, indexes, ledger, &mut all.told)?;
        if asked.is_by_words() {
            self.by_words(asked, &places, &mut all)?;
        }
        if !asked.text.is_empty() {
            meaning::add_meaning(asked, &places, &mut all)?;
        }
        if (asked.stopped)() {
            return Err(LibraryError::GivenUp);
        }
        all.order(asked);
        page.results(&places, asked, all)
    }

    fn by_words<'c>(
        &self,
        asked: &Asked<'_>,
        places: &Places<'c>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let mut unknown = places.unknown.clone();
        for (at, place) in places.indexed.iter().enumerate() {
            match self.in_place(asked, places, (at, place)) {
                Ok(found) => {
                    all.sessions.extend(found);
                    if let Some(as_of) = place.as_of {
                        all.told.known_at(as_of);
                    }
                }
                Err(why) if place.is_ledger() => return Err(ledger::unanswered(why)),
                Err(why) => {
                    all.told.unanswered(&why);
                    unknown.extend(place.entries());
                }
            }
        }
        whole::read(&self.library, asked, &unknown, all);
        for found in &mut all.sessions {
            found.score = rounded(found.evidence.score(found.updated, asked.now));
        }
        Ok(())
    }

    /// The sessions of one index that hold what is looked for, or may.
    fn in_place<'c>(
        &self,
        asked: &Asked<'_>,
        places: &Places<'c>,
        (at, place): (usize, &Place<'c>),
    ) -> Result<Vec<Found<'c>>, Failure> {
        let look = Look {
            index: place.index(),
            reach: &place.reach,
            sessions: place.only.as_deref(),
            asked,
            agent: &|no| place.agent(asked, no),
            most: self.most,
        };
        let inside = look.find()?;
        let numbers: Vec<SessionNo> = inside.iter().map(|one| one.session).collect();
        // What is not among them is not there any more, or another source's.
        let mut named = place.named(asked, places.catalog, &numbers)?;
        let found = inside.into_iter().filter_map(|inside| {
            let session = named.remove(&inside.session)?;
            Some(Found {
                id: session.id,
                updated: session.updated,
                entry: session.entry,
                evidence: inside.evidence,
                score: 0,
                at: At::Index(at, inside),
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
