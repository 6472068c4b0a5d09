//! Collects the excerpts of one session for a page.

use filrouge_sources::library::{Entry, LibraryError};
use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;

use super::answered::{IndexQuestion, answer_to};
use super::found::{Found, FoundIn};
use super::inside::InSession;
use super::ledger::{NAME, unanswered};
use super::place::{Place, Places};
use super::query::PreparedQuery;
use super::texts::{read, session_documents};
use crate::answer::Excerpt;
use crate::excerpt::Cutter;
use crate::search_document::SearchDocument;

/// The default and the maximum number of excerpts of a session.
pub(crate) const EXCERPTS: usize = 5;
pub(super) const EXCERPTS_MAX: usize = 1_000;

/// Collects excerpts of one session as they are found.
pub(super) struct Shown {
    pub(super) excerpts: Vec<Excerpt>,
    /// The number of matches seen so far, including those that earlier pages show.
    pub(super) seen: usize,
    /// The number of matches seen before the first one that did not fit on the page; 0 if all fitted.
    pub(super) end: usize,
    max_excerpts: usize,
    /// The number of matches shown on earlier pages.
    skip: usize,
}

impl Shown {
    /// Creates an empty collection of at most `max_excerpts` excerpts, for the matches after the first `skip`.
    pub(super) const fn after(skip: usize, max_excerpts: usize) -> Self {
        Self {
            excerpts: Vec::new(),
            seen: 0,
            end: 0,
            max_excerpts,
            skip,
        }
    }

    /// Counts a match, and adds its excerpts unless an earlier page shows them. Returns true if the maximum was reached
    /// before, so that they did not fit.
    fn take(&mut self, excerpts: impl FnOnce() -> Vec<Excerpt>) -> bool {
        self.seen += 1;
        let full = self.excerpts.len() >= self.max_excerpts;
        if full && self.end == 0 {
            self.end = self.seen - 1;
        }
        if self.seen > self.skip && !full {
            self.excerpts.extend(excerpts());
            self.excerpts.truncate(self.max_excerpts);
        }
        full
    }

    /// Whether the next match would be shown.
    const fn takes_next(&self) -> bool {
        self.seen >= self.skip && self.excerpts.len() < self.max_excerpts
    }
}

/// The way in which a session was found.
pub(super) enum By {
    /// It contains the words.
    Words,
    /// Its meaning is similar.
    Meaning,
    /// It was read from its source, because its index does not answer.
    Source(Failure),
}

/// Collects the excerpts of a session in `shown`. Returns how the session was found.
pub(super) fn show(
    places: &Places<'_>,
    query: &PreparedQuery<'_>,
    found: &Found<'_>,
    shown: &mut Shown,
) -> Result<By, LibraryError> {
    let place = match &found.found_in {
        FoundIn::Index(at, inside) => places.indexed.get(*at).map(|place| (place, inside)),
        FoundIn::Source => None,
    };
    let Some((place, inside)) = place else {
        if let Some(entry) = found.entry {
            read_whole(places, query, entry, shown);
        }
        return Ok(By::Words);
    };
    match (indexed(place, query, &found.id, inside, shown), found.entry) {
        (Ok(by), _) => Ok(by),
        (Err(why), None) => Err(unanswered(why)),
        (Err(why), Some(entry)) => {
            *shown = Shown::after(shown.skip, shown.max_excerpts);
            // The source is read instead of the index, except for a session that was found only because it is similar.
            if inside.may_match() {
                read_whole(places, query, entry, shown);
            }
            Ok(By::Source(why))
        }
    }
}

/// Collects the excerpts of a session that is read from its source; none when it no longer exists.
fn read_whole(places: &Places<'_>, query: &PreparedQuery<'_>, entry: &Entry, shown: &mut Shown) {
    let header = &entry.header;
    let cutter = cutter(query, header.source == NAME);
    if let Ok(conversation) = places.library.conversation(entry) {
        for doc in session_documents(header, &conversation, query.searches_titles()) {
            let holds = query.holds(header.agent.as_deref(), &doc);
            if holds && shown.take(|| cutter.of_matches(&header.id, &doc)) {
                break;
            }
        }
    }
}

fn cutter<'a>(query: &'a PreparedQuery<'_>, is_ledger: bool) -> Cutter<'a> {
    Cutter {
        matcher: &query.question.matcher,
        mask: query.ask.mask,
        is_ledger,
    }
}

/// Collects the excerpts of the documents that match, as the index stores them; if none matches, those of the documents
/// that are similar to the question.
fn indexed(
    place: &Place<'_>,
    query: &PreparedQuery<'_>,
    id: &str,
    inside: &InSession,
    shown: &mut Shown,
) -> Result<By, Failure> {
    let (cutter, index) = (cutter(query, place.is_ledger()), place.index());
    let agent = place.agent(query, inside.session);
    let all: Vec<(DocumentNo, bool)> = inside.documents().collect();
    let numbers: Vec<DocumentNo> = all.iter().map(|(document, _)| *document).collect();
    let mut all = all.into_iter();
    read(index, &numbers, &mut |document, doc| {
        let sure = all.find(|(no, _)| *no == document);
        let sure = sure.is_some_and(|(_, sure)| sure);
        let holds = || query.holds(agent.as_deref(), doc);
        let full = (sure || holds()) && shown.take(|| cutter.of_matches(id, doc));
        !full && !(query.stopped)()
    })?;
    if shown.seen > 0 || inside.near.is_empty() {
        return Ok(By::Words);
    }
    near(place, query, (id, inside), shown)?;
    Ok(By::Meaning)
}

/// Collects the excerpts of the messages that are similar to the question. In a search for similar questions, the
/// answer follows each of them.
fn near(
    place: &Place<'_>,
    query: &PreparedQuery<'_>,
    (id, inside): (&str, &InSession),
    shown: &mut Shown,
) -> Result<(), Failure> {
    let cutter = cutter(query, place.is_ledger());
    let mut found = Vec::with_capacity(inside.near.len());
    read(place.index(), &inside.near, &mut |document, doc| {
        let question = IndexQuestion {
            session: inside.session,
            document,
            created: doc.created,
        };
        found.push((question, cutter.of_near(id, doc)));
        true
    })?;
    if query.ask.similar.is_some() {
        // A question and its answer count as one excerpt, so twice as many fit.
        shown.max_excerpts *= 2;
    }
    for (question, mut excerpts) in found {
        if query.ask.similar.is_some() && shown.takes_next() {
            excerpts.truncate(1);
            let answer = |answer: &SearchDocument<'_>| cutter.first_text(id, answer);
            excerpts.extend(answer_to(place, &question, answer)?);
        }
        if shown.take(|| excerpts) {
            break;
        }
    }
    Ok(())
}
