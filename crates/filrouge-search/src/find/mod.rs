//! One question put to everything: foreign histories and the ledger, by their indexes where these know them as they are,
//! by looking through the rest.

mod ahead;
mod answered;
mod bodies;
mod cursor;
mod indexed;
mod inside;
mod ledger;
mod meaning;
mod near;
mod page;
pub(crate) mod rank;
mod show;
mod sources;
pub(crate) mod weigh;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use filrouge_sources::library::{Catalog, Entry, Library, LibraryError};
use filrouge_store::text_index::TITLE;
use filrouge_types::{Clock, Failure, SystemClock};

use crate::answer::Results;
use crate::ask::{Ask, Mode, Order};
use crate::embed::Embedder;
use crate::feed::Indexes;
use crate::filter::Filter;
use crate::question::Question;
use crate::spoken::Spoken;
use cursor::Cursor;
pub use cursor::begun;
use inside::InSession;
pub use ledger::LedgerSearch;
use meaning::Meant;
use page::Page;
use rank::{Evidence, rounded};
#[cfg(test)]
pub(crate) use show::EXCERPTS;
use weigh::{Words, weigh};

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
    clock: Arc<dyn Clock>,
    /// How many candidates of an index are looked through.
    most: usize,
    /// How long what an index or a listing tells is used without another look.
    fresh: Duration,
    /// Whether the indexes are opened while the histories are listed.
    looks_ahead: bool,
    memory: Arc<sources::Memory>,
}

/// A question, ready to be answered.
struct Asked<'a> {
    ask: &'a Ask,
    question: &'a Question<'a>,
    filter: &'a Filter<'a>,
    words: &'a Words,
    stopped: &'a (dyn Fn() -> bool + Sync),
    now: i64,
    /// What is to mean the like; empty where nothing is.
    text: &'a str,
    meant: Option<&'a Meant>,
}

/// A session in which something was found.
struct Found<'c> {
    id: Cow<'c, str>,
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
    told: Told,
}

/// What is told beside what was found.
#[derive(Clone, Default)]
struct Told {
    notices: Vec<String>,
    /// When what an index told was known to be so, the oldest; milliseconds since 1970.
    as_of: Option<i64>,
}

impl Told {
    fn known_at(&mut self, at: i64) {
        self.as_of = Some(self.as_of.map_or(at, |other| other.min(at)));
    }

    /// Tells it once.
    fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }

    /// Says that an index does not answer; why, is for the operator.
    fn unanswered(&mut self, why: &Failure) {
        tracing::warn!(code = why.code.as_str(), detail = %why.detail, "a search index does not answer");
        let text = "a search index does not answer: its history was looked through";
        self.notice(text.to_owned());
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
            scans_ledger: false,
            embedder: None,
            clock: Arc::new(SystemClock),
            most: indexed::LOOKED_THROUGH,
            fresh: FRESH,
            looks_ahead: false,
            memory: Arc::default(),
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

    /// Tells the time by this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Looks through at most so many candidates of an index before it answers, and estimates how many of the others hold
    /// what is looked for; 300 unless told, of more 100 where these fill a page. What is shown is never estimated.
    #[must_use]
    pub const fn looking_through(mut self, candidates: usize) -> Self {
        self.most = candidates;
        self
    }

    /// Believes for so long what was found out of histories with indexes: which sessions there are and what has become of
    /// them; one second unless told. No time: looks again for each answer.
    #[must_use]
    pub const fn believing_for(mut self, fresh: Duration) -> Self {
        self.fresh = fresh;
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
            None => ask.now.unwrap_or_else(|| self.clock.now().as_millis()),
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
            false => self.embedded(&text, cursor.as_ref(), &mut told)?,
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

    fn found(
        &self,
        asked: &Asked<'_>,
        page: &Page<'_>,
        told: Told,
    ) -> Result<Results, LibraryError> {
        let catalog = self.meanwhile(asked, || match self.indexes {
            Some(_) => self.library.catalog_within(self.fresh),
            None => self.library.catalog(),
        });
        let mut all = Everything {
            sessions: Vec::new(),
            told,
        };
        self.everything(asked, &catalog, &mut all)?;
        if (asked.stopped)() {
            return Err(LibraryError::GivenUp);
        }
        asked.order(&mut all.sessions);
        page.results(self, asked, &catalog, all)
    }

    fn everything<'c>(
        &self,
        asked: &Asked<'_>,
        catalog: &'c Arc<Catalog>,
        all: &mut Everything<'c>,
    ) -> Result<(), LibraryError> {
        let ledger = self.ledger_asked(asked, catalog)?;
        if asked.is_by_words() {
            self.in_sources(asked, catalog, all);
            if let Some(only) = &ledger {
                self.in_ledger(asked, catalog, only.0.as_deref(), all)?;
            }
            for found in &mut all.sessions {
                found.score = rounded(found.evidence.score(found.updated, asked.now));
            }
        }
        if !asked.text.is_empty() {
            self.by_meaning(asked, catalog, ledger, all)?;
        }
        Ok(())
    }
}

impl Asked<'_> {
    /// Whether what holds all words is looked for. Where nothing has a meaning, filters alone are asked.
    fn is_by_words(&self) -> bool {
        let by_meaning = self.ask.mode == Mode::Meaning && !self.text.is_empty();
        self.ask.similar.is_none() && !by_meaning
    }

    /// The kinds of documents that are looked at: titles only for what stands in them.
    fn kinds(&self) -> u32 {
        let titles = u32::from(self.question.matcher.wanted != 0) << TITLE;
        self.filter.kinds() & (titles | !(1 << TITLE))
    }

    /// What speaks for a message or a title of a session whose agent is `agent`, if it passes.
    fn weigh(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> Option<Evidence> {
        let passes = self.filter.lets_spoken(agent, spoken);
        passes
            .then(|| weigh(&self.question.matcher, self.words, spoken))
            .flatten()
    }

    /// Whether a message or a title of a session whose agent is `agent` is one that is looked for.
    fn holds(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> bool {
        self.filter.lets_spoken(agent, spoken) && self.question.matcher.is_in(spoken)
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
