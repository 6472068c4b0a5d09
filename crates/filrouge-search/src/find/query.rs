//! The parts of a search that are prepared once: its filters, its terms and its vector.

use filrouge_sources::library::Catalog;
use filrouge_store::text_index::TITLE;

use crate::filter::Filter;
use crate::parsed_search::ParsedSearch;
use crate::rank::Evidence;
use crate::request::{Mode, SearchRequest};
use crate::search_document::SearchDocument;
use crate::similar_turns::NamedTurn;
use crate::weigh::{Words, weigh};

/// A search, prepared once for everything that it covers.
pub(super) struct PreparedQuery<'a> {
    pub(super) request: &'a SearchRequest,
    pub(super) parsed: &'a ParsedSearch<'a>,
    pub(super) filter: &'a Filter<'a>,
    pub(super) words: &'a Words,
    pub(super) stopped: &'a (dyn Fn() -> bool + Sync),
    /// The time at which the first page was built, in milliseconds since 1970.
    pub(super) now: i64,
    /// The text to search for by meaning; empty when there is none.
    pub(super) text: &'a str,
    /// The question's vector; `None` if it was not embedded.
    pub(super) vector: Option<&'a QuestionVector>,
    /// The turns of the ledger that are similar to the question, as a projection names them; `None` if the index of the
    /// ledger compares vectors.
    pub(super) named: Option<&'a [NamedTurn]>,
}

/// A question as a vector.
pub(super) struct QuestionVector {
    /// The id of its embedder.
    pub(super) embedder: String,
    pub(super) vector: Vec<i8>,
    /// The vector as the embedder computed it.
    pub(super) exact: Vec<f32>,
}

impl PreparedQuery<'_> {
    /// Whether to search for documents that contain all words. In [`Mode::Meaning`] this is true only if the query has
    /// no text, so that its filters alone select. It is false in a search for similar questions.
    pub(super) fn is_by_words(&self) -> bool {
        let by_meaning = self.request.mode == Mode::Meaning && !self.text.is_empty();
        self.request.similar.is_none() && !by_meaning
    }

    /// Whether titles are searched: only when the query has terms.
    pub(super) const fn searches_titles(&self) -> bool {
        self.parsed.matcher.required != 0
    }

    /// The kinds of documents that are searched.
    pub(super) fn kinds(&self) -> u32 {
        let titles = u32::from(self.searches_titles()) << TITLE;
        self.filter.kinds() & (titles | !(1 << TITLE))
    }

    /// Returns the evidence of a message or a title in a session whose agent is `agent`; `None` if it does not match.
    pub(super) fn weigh(&self, agent: Option<&str>, doc: &SearchDocument<'_>) -> Option<Evidence> {
        let passes = self.filter.passes_document(agent, doc);
        passes
            .then(|| weigh(&self.parsed.matcher, self.words, doc))
            .flatten()
    }

    /// Whether a message or a title matches. `agent` is the agent of its session.
    pub(super) fn matches(&self, agent: Option<&str>, doc: &SearchDocument<'_>) -> bool {
        self.filter.passes_document(agent, doc) && self.parsed.matcher.is_in(doc)
    }

    /// Whether a session of the ledger is shown from the ledger: no filter excludes it, and it is not shown from a
    /// source of the library that has the same session.
    pub(super) fn is_shown_from_ledger(&self, catalog: &Catalog, id: &str) -> bool {
        let mut excluded_sessions = self.filter.sessions(true);
        !self.is_shown_from_source(catalog, id) && excluded_sessions.all(|other| other != id)
    }

    /// Whether a session is shown from a source of the library: one has it, and no filter excludes this source.
    pub(super) fn is_shown_from_source(&self, catalog: &Catalog, id: &str) -> bool {
        let entry = catalog.get(id);
        entry.is_ok_and(|entry| self.filter.may_pass_source(entry.header.source))
    }
}
