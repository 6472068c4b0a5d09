//! Collects the excerpts of one session for a page.

use filrouge_sources::ledger::loose_seq;
use filrouge_sources::library::{Entry, LibraryError};
use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;

use super::answer::{IndexQuestion, find_answer};
use super::found::{FoundIn, FoundSession};
use super::ledger::LEDGER_NAME;
use super::query::PreparedQuery;
use super::search_space::{SearchSpace, SearchedIndex};
use super::session_candidates::SessionCandidates;
use crate::answer::Excerpt;
use crate::excerpt::ExcerptBuilder;
use crate::search_document::SearchDocument;
use crate::texts::session_documents;

/// The default and the maximum number of excerpts of a session.
pub(crate) const DEFAULT_EXCERPTS: usize = 5;
pub(super) const MAX_EXCERPTS: usize = 1_000;

/// Collects excerpts of one session as they are found.
pub(super) struct ExcerptCollector {
    pub(super) excerpts: Vec<Excerpt>,
    /// The number of matches seen so far, including those that earlier pages show.
    pub(super) match_count: usize,
    /// The number of matches seen before the first one that did not fit on the page; 0 if all fitted.
    pub(super) end: usize,
    max_excerpts: usize,
    /// The number of matches shown on earlier pages.
    skip: usize,
}

impl ExcerptCollector {
    /// Creates an empty collection of at most `max_excerpts` excerpts, for the matches after the first `skip`.
    pub(super) const fn after(skip: usize, max_excerpts: usize) -> Self {
        Self {
            excerpts: Vec::new(),
            match_count: 0,
            end: 0,
            max_excerpts,
            skip,
        }
    }

    /// Counts a match, and adds its excerpts unless an earlier page shows them. Returns true if the maximum was reached
    /// before, so that they did not fit.
    fn add_match(&mut self, excerpts: impl FnOnce() -> Vec<Excerpt>) -> bool {
        self.match_count += 1;
        let is_full = self.excerpts.len() >= self.max_excerpts;
        if is_full && self.end == 0 {
            self.end = self.match_count - 1;
        }
        if self.match_count > self.skip && !is_full {
            self.excerpts.extend(excerpts());
            self.excerpts.truncate(self.max_excerpts);
        }
        is_full
    }

    /// Whether the next match would be shown.
    const fn shows_next(&self) -> bool {
        self.match_count >= self.skip && self.excerpts.len() < self.max_excerpts
    }
}

/// The way in which a session was found.
pub(super) enum FoundBy {
    /// It contains the words.
    Words,
    /// Its meaning is similar.
    Meaning,
    /// It was read from its source, because its index does not answer.
    Source(Failure),
}

/// Collects the excerpts of a session in `collector`. Returns how the session was found.
pub(super) fn collect_excerpts(
    space: &SearchSpace<'_>,
    query: &PreparedQuery<'_>,
    found: &FoundSession<'_>,
    collector: &mut ExcerptCollector,
) -> Result<FoundBy, LibraryError> {
    let searched = match &found.found_in {
        FoundIn::Index(at, candidates) => space
            .indexed
            .get(*at)
            .map(|searched| (searched, candidates)),
        FoundIn::Source => None,
    };
    let Some((searched, candidates)) = searched else {
        if let Some(entry) = found.shown.entry {
            collect_from_source(space, query, entry, collector);
        }
        return Ok(FoundBy::Words);
    };
    match (
        collect_from_index(searched, query, &found.shown.id, candidates, collector),
        found.shown.entry,
    ) {
        (Ok(by), _) => Ok(by),
        (Err(why), None) => Err(LibraryError::Unavailable(why)),
        (Err(why), Some(entry)) => {
            *collector = ExcerptCollector::after(collector.skip, collector.max_excerpts);
            // The source is read instead of the index, except for a session that was found only because it is similar.
            if candidates.may_match() {
                collect_from_source(space, query, entry, collector);
            }
            Ok(FoundBy::Source(why))
        }
    }
}

/// Collects the excerpts of a session that is read from its source; none when it no longer exists.
fn collect_from_source(
    space: &SearchSpace<'_>,
    query: &PreparedQuery<'_>,
    entry: &Entry,
    collector: &mut ExcerptCollector,
) {
    let header = &entry.header;
    let excerpt_builder = new_excerpt_builder(query, &header.id, header.source == LEDGER_NAME);
    if let Ok(conversation) = space.library.conversation(entry) {
        for doc in session_documents(header, &conversation, query.searches_titles()) {
            let matches = query.matches(header.agent.as_deref(), &doc);
            if matches && collector.add_match(|| excerpt_builder.match_excerpts(&doc)) {
                break;
            }
        }
    }
}

fn new_excerpt_builder<'a>(
    query: &'a PreparedQuery<'_>,
    session: &'a str,
    is_ledger: bool,
) -> ExcerptBuilder<'a> {
    ExcerptBuilder {
        matcher: &query.parsed.matcher,
        session,
        mask: query.request.mask,
        is_ledger,
    }
}

/// Collects the excerpts of the documents that match; if none matches, those of the documents that are similar to the
/// question.
fn collect_from_index(
    searched: &SearchedIndex<'_>,
    query: &PreparedQuery<'_>,
    id: &str,
    candidates: &SessionCandidates,
    collector: &mut ExcerptCollector,
) -> Result<FoundBy, Failure> {
    let excerpt_builder = new_excerpt_builder(query, id, searched.is_ledger());
    let agent = searched.agent(query, candidates.session);
    let documents: Vec<(DocumentNo, bool)> = candidates.documents().collect();
    let numbers: Vec<DocumentNo> = documents.iter().map(|(document, _)| *document).collect();
    let mut candidates_left = documents.into_iter();
    searched.texts().each(&numbers, &mut |document, doc| {
        let candidate = candidates_left.find(|(no, _)| *no == document);
        let is_match = candidate.is_some_and(|(_, is_match)| is_match);
        let matches = || query.matches(agent.as_deref(), doc);
        let is_full =
            (is_match || matches()) && collector.add_match(|| excerpt_builder.match_excerpts(doc));
        !is_full && !(query.stopped)()
    })?;
    if collector.match_count > 0 || candidates.similar.is_empty() {
        return Ok(FoundBy::Words);
    }
    collect_similar(searched, query, (id, candidates), collector)?;
    Ok(FoundBy::Meaning)
}

/// Collects the excerpts of the messages that are similar to the question. In a search for similar questions, the
/// answer follows each of them.
fn collect_similar(
    searched: &SearchedIndex<'_>,
    query: &PreparedQuery<'_>,
    (id, candidates): (&str, &SessionCandidates),
    collector: &mut ExcerptCollector,
) -> Result<(), Failure> {
    let excerpt_builder = new_excerpt_builder(query, id, searched.is_ledger());
    let similar = candidates.similar.iter();
    let numbers: Vec<DocumentNo> = similar.map(|one| one.document).collect();
    let mut questions = Vec::with_capacity(numbers.len());
    searched.texts().each(&numbers, &mut |document, doc| {
        let question = IndexQuestion {
            session: candidates.session,
            document,
            created: doc.created,
        };
        questions.push((question, excerpt_builder.similar_excerpts(doc)));
        true
    })?;
    if query.request.similar.is_some() {
        // A question and its answer count as one excerpt, so twice as many fit.
        collector.max_excerpts *= 2;
    }
    for (question, mut excerpts) in questions {
        if query.request.similar.is_some() && collector.shows_next() {
            excerpts.truncate(1);
            if let Some(excerpt) = excerpts.first_mut() {
                let mut similar = candidates.similar.iter();
                let found = similar.find(|one| one.document == question.document);
                excerpt.score = found.and_then(|found| found.score);
                excerpt.turn_ordinal = turn_ordinal(searched, question.document)?;
            }
            let excerpt = |answer: &SearchDocument<'_>| excerpt_builder.first_text(answer);
            excerpts.extend(find_answer(searched, &question, excerpt)?);
        }
        if collector.add_match(|| excerpts) {
            break;
        }
    }
    Ok(())
}

/// The number, in its session, of the turn to which a document of the ledger's index belongs.
fn turn_ordinal(
    searched: &SearchedIndex<'_>,
    document: DocumentNo,
) -> Result<Option<u64>, Failure> {
    if !searched.is_ledger() {
        return Ok(None);
    }
    let documents = searched.index().documents(&[document])?;
    let unit = documents.first().map(|document| document.unit);
    Ok(unit.filter(|unit| loose_seq(*unit).is_none()))
}
