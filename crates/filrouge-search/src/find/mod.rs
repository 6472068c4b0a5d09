//! One question put to everything: foreign histories and the ledger, by their indexes where these know them as they are,
//! by looking through the rest.

mod cursor;
mod indexed;
mod ledger;
mod meaning;
mod page;
pub(crate) mod rank;
mod sources;
pub(crate) mod weigh;

use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::Header;
use filrouge_sources::library::{Catalog, Entry, Library, LibraryError};
use filrouge_types::{Clock, SystemClock};

use crate::answer::Results;
use crate::ask::{Ask, Mode, Order};
use crate::embed::Embedder;
use crate::feed::Indexes;
use crate::filter::Filter;
use crate::question::Question;
use crate::spoken::Spoken;
use cursor::Cursor;
use indexed::InSession;
pub use ledger::LedgerSearch;
#[cfg(test)]
pub(crate) use page::EXCERPTS;
use rank::{Evidence, rounded};
use weigh::{Words, weigh};

/// What an index tells of a history is used without another look for so long: the bound of [`Results::as_of`].
const FRESH: Duration = Duration::from_secs(1);

/// Searches the sources of a library, and a ledger. Cheap to clone.
#[derive(Clone)]
pub struct Searcher {
    library: Library,
    indexes: Option<Arc<Indexes>>,
    ledger: Option<LedgerSearch>,
    embedder: Option<Arc<dyn Embedder>>,
    clock: Arc<dyn Clock>,
}

/// A question, ready to be answered.
struct Asked<'a> {
    ask: &'a Ask,
    question: &'a Question,
    filter: &'a Filter<'a>,
    words: &'a Words,
    stopped: &'a (dyn Fn() -> bool + Sync),
    now: i64,
}

/// A session in which something was found.
struct Found<'c> {
    id: Box<str>,
    updated: i64,
    evidence: Evidence,
    score: i64,
    at: At<'c>,
}

/// Where a session was found.
enum At<'c> {
    /// In its source.
    Scanned(&'c Entry),
    /// In the index of its source.
    Indexed(&'c Entry, InSession),
    /// In the ledger's index.
    Ledger(InSession),
}

/// All that was found.
#[derive(Default)]
struct Everything<'c> {
    sessions: Vec<Found<'c>>,
    notices: Vec<String>,
    /// When what an index told was known to be so, the oldest; milliseconds since 1970.
    as_of: Option<i64>,
}

impl Everything<'_> {
    fn known_at(&mut self, at: i64) {
        self.as_of = Some(self.as_of.map_or(at, |other| other.min(at)));
    }
}

impl Searcher {
    /// Searches the sources of `library` by looking through them.
    #[must_use]
    pub fn new(library: Library) -> Self {
        Self {
            library,
            indexes: None,
            ledger: None,
            embedder: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// Uses these indexes: by the places of the library's sources, of which the first ones are those they were made for.
    #[must_use]
    pub fn with_indexes(mut self, indexes: Arc<Indexes>) -> Self {
        self.indexes = Some(indexes);
        self
    }

    /// Searches a ledger as well. What a source of the library has under the same id is shown from there.
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

    /// Tells the time by this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The sources.
    #[must_use]
    pub const fn library(&self) -> &Library {
        &self.library
    }

    /// Searches. A page shows at most 500 sessions, the best first; numbers count all pages, and say whether they were
    /// counted or estimated. Ends early when `stopped` says so.
    ///
    /// # Errors
    /// [`LibraryError::Invalid`] for a query or a cursor that cannot be understood; it names the character.
    /// [`LibraryError::NoSession`] for a session that is nowhere. [`LibraryError::GivenUp`].
    pub fn search(
        &self,
        ask: &Ask,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Results, LibraryError> {
        let cursor = ask
            .cursor
            .as_deref()
            .map(|c| Cursor::read(c, ask))
            .transpose()?;
        let now = match &cursor {
            Some(cursor) => cursor.now,
            None => ask.now.unwrap_or_else(|| self.clock.now().as_millis()),
        };
        // What `today` is holds from the first page to the last.
        let ask = &Ask {
            now: Some(now),
            ..ask.clone()
        };
        let question =
            Question::of(ask).map_err(|wrong| LibraryError::Invalid(wrong.to_string()))?;
        let filter = question.filter();
        let words = Words::of(&question);
        let asked = Asked {
            ask,
            question: &question,
            filter: &filter,
            words: &words,
            stopped,
            now,
        };
        let page = page::Page::of(ask, &filter)?;
        let mut all = Everything::default();
        let searcher = self.ready(&asked, &mut all);
        let catalog = searcher.library.catalog();
        searcher.everything(&asked, &catalog, &mut all)?;
        if stopped() {
            return Err(LibraryError::GivenUp);
        }
        asked.order(&mut all.sessions);
        page.results(&searcher, &asked, &catalog, all, cursor.as_ref())
    }

    /// Lets the ledger's index learn what was written last. While it was never complete, or when it does not answer, the
    /// ledger is looked through like every source.
    fn ready(&self, asked: &Asked<'_>, all: &mut Everything<'_>) -> Self {
        let ledger = self.ledger.as_ref();
        let Some(ledger) = ledger.filter(|_| asked.filter.lets_source(ledger::NAME)) else {
            return self.clone();
        };
        match ledger.caught_up(asked.stopped) {
            Ok(Some(as_of)) => {
                all.known_at(as_of);
                return self.clone();
            }
            Ok(None) => {}
            Err(why) => all.unanswered(&why),
        }
        Self {
            library: self.library.with(Arc::new(ledger.source())),
            ledger: None,
            ..self.clone()
        }
    }

    fn everything<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Catalog,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let ledger = self.ledger_asked(asked, catalog)?;
        let by_words = asked.ask.mode != Mode::Meaning && asked.ask.similar.is_none();
        if by_words {
            self.in_sources(asked, catalog, all);
            if let Some(only) = &ledger {
                self.in_ledger(asked, catalog, only.0.as_deref(), all)?;
            }
            for found in &mut all.sessions {
                found.score = rounded(found.evidence.score(found.updated, asked.now));
            }
        }
        if asked.ask.mode != Mode::Words || asked.ask.similar.is_some() {
            self.by_meaning(asked, catalog, ledger, all)?;
        }
        Ok(())
    }

    /// The header of a session that was found; `None` when it has gone, or is not the caller's to see.
    fn header(&self, found: &Found<'_>) -> Option<Arc<Header>> {
        match &found.at {
            At::Scanned(entry) | At::Indexed(entry, _) => Some(entry.header.clone()),
            At::Ledger(_) => self.ledger.as_ref()?.header(&found.id).map(Arc::new),
        }
    }
}

impl Asked<'_> {
    /// What speaks for a message or a title of a session whose agent is `agent`, if it passes.
    fn weigh(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> Option<Evidence> {
        let passes = self.filter.lets_spoken(agent, spoken);
        passes
            .then(|| weigh(&self.question.matcher, self.words, spoken))
            .flatten()
    }

    fn order(&self, found: &mut [Found<'_>]) {
        if self.ask.order == Order::Newest {
            found.iter_mut().for_each(|one| one.score = one.updated);
        }
        let place = |one: &Found<'_>| (one.score, one.updated);
        found.sort_unstable_by(|a, b| place(b).cmp(&place(a)).then_with(|| a.id.cmp(&b.id)));
    }
}

/// Searches the sources of a library by looking through them, to the end.
///
/// # Errors
/// As [`Searcher::search`].
pub fn search(library: &Library, ask: &Ask) -> Result<Results, LibraryError> {
    search_until(library, ask, &|| false)
}

/// As [`search`], given up as soon as `stopped` says so.
///
/// # Errors
/// As [`Searcher::search`].
pub fn search_until(
    library: &Library,
    ask: &Ask,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Results, LibraryError> {
    Searcher::new(library.clone()).search(ask, stopped)
}
