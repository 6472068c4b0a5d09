//! A question, ready to be answered.

use filrouge_sources::library::Catalog;
use filrouge_store::text_index::TITLE;

use crate::ask::{Ask, Mode};
use crate::filter::Filter;
use crate::question::Question;
use crate::rank::Evidence;
use crate::spoken::Spoken;
use crate::weigh::{Words, weigh};

/// A question, ready to be answered.
pub(super) struct Asked<'a> {
    pub(super) ask: &'a Ask,
    pub(super) question: &'a Question<'a>,
    pub(super) filter: &'a Filter<'a>,
    pub(super) words: &'a Words,
    pub(super) stopped: &'a (dyn Fn() -> bool + Sync),
    pub(super) now: i64,
    /// What is to mean the like; empty where nothing is.
    pub(super) text: &'a str,
    pub(super) meant: Option<&'a Meant>,
}

/// A question as a vector.
pub(super) struct Meant {
    /// By whom it was embedded.
    pub(super) embedder: String,
    pub(super) vector: Vec<i8>,
}

impl Asked<'_> {
    /// Whether what holds all words is looked for. Where nothing has a meaning, filters alone are asked.
    pub(super) fn is_by_words(&self) -> bool {
        let by_meaning = self.ask.mode == Mode::Meaning && !self.text.is_empty();
        self.ask.similar.is_none() && !by_meaning
    }

    /// Whether titles are looked at: only for what stands in them.
    pub(super) const fn looks_at_titles(&self) -> bool {
        self.question.matcher.wanted != 0
    }

    /// The kinds of documents that are looked at.
    pub(super) fn kinds(&self) -> u32 {
        let titles = u32::from(self.looks_at_titles()) << TITLE;
        self.filter.kinds() & (titles | !(1 << TITLE))
    }

    /// What speaks for a message or a title of a session whose agent is `agent`, if it passes.
    pub(super) fn weigh(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> Option<Evidence> {
        let passes = self.filter.lets_spoken(agent, spoken);
        passes
            .then(|| weigh(&self.question.matcher, self.words, spoken))
            .flatten()
    }

    /// Whether a message or a title of a session whose agent is `agent` is one that is looked for.
    pub(super) fn holds(&self, agent: Option<&str>, spoken: &Spoken<'_>) -> bool {
        self.filter.lets_spoken(agent, spoken) && self.question.matcher.is_in(spoken)
    }

    /// Whether a session of the ledger is shown from there: it is not left out, nor shown from a source.
    pub(super) fn is_shown_from_ledger(&self, catalog: &Catalog, id: &str) -> bool {
        let mut left_out = self.filter.sessions(true);
        !self.is_shown_from_source(catalog, id) && left_out.all(|other| other != id)
    }

    pub(super) fn is_shown_from_source(&self, catalog: &Catalog, id: &str) -> bool {
        let entry = catalog.get(id);
        entry.is_ok_and(|entry| self.filter.lets_source(entry.header.source))
    }
}
