//! The sessions that a search found, and its notices.

use std::borrow::Cow;

use filrouge_sources::library::Entry;
use filrouge_types::Failure;

use super::inside::InSession;
use super::query::PreparedQuery;
use crate::ask::Order;
use crate::rank::Evidence;

/// A session that a search found.
pub(super) struct Found<'c> {
    pub(super) id: Cow<'c, str>,
    pub(super) updated: i64,
    /// Its entry in the catalog; `None` for a session that the ledger's index found.
    pub(super) entry: Option<&'c Entry>,
    pub(super) evidence: Evidence,
    pub(super) score: i64,
    pub(super) found_in: FoundIn,
}

/// Where a session was found.
pub(super) enum FoundIn {
    /// In its source: the complete session was read.
    Source,
    /// In the index at this position in `Places::indexed`.
    Index(usize, InSession),
}

impl<'c> Found<'c> {
    /// Creates the result for a session whose documents were all read from its source.
    pub(super) fn read(entry: &'c Entry, evidence: Evidence) -> Self {
        Self {
            id: Cow::Borrowed(&entry.header.id),
            updated: entry.header.updated,
            entry: Some(entry),
            evidence,
            score: 0,
            found_in: FoundIn::Source,
        }
    }

    /// The documents that an index found in the session.
    pub(super) const fn inside(&self) -> Option<&InSession> {
        match &self.found_in {
            FoundIn::Source => None,
            FoundIn::Index(_, inside) => Some(inside),
        }
    }

    /// Returns the probability that the session matches, and the estimated number of its matching documents.
    pub(super) fn estimated(&self) -> (f64, f64) {
        match self.inside() {
            #[allow(clippy::cast_precision_loss)]
            None => (1.0, self.evidence.matches as f64),
            Some(inside) => (inside.likely, inside.about),
        }
    }

    /// Whether it is certain, without a further scan, that the session has something to show.
    pub(super) fn is_sure(&self) -> bool {
        self.inside()
            .is_none_or(|inside| inside.has_match() || !inside.near.is_empty())
    }
}

/// All sessions that were found.
#[derive(Default)]
pub(super) struct FoundSessions<'c> {
    pub(super) sessions: Vec<Found<'c>>,
    pub(super) remarks: Remarks,
}

impl FoundSessions<'_> {
    /// Sorts the sessions into the requested order: the best first, or the newest.
    pub(super) fn order(&mut self, query: &PreparedQuery<'_>) {
        if query.ask.order == Order::Newest {
            self.sessions
                .iter_mut()
                .for_each(|one| one.score = one.updated);
        }
        let rank = |one: &Found<'_>| (one.score, one.updated);
        self.sessions
            .sort_unstable_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| a.id.cmp(&b.id)));
    }
}

/// The notices of a search, and the time for which its results are valid.
#[derive(Clone, Default)]
pub(super) struct Remarks {
    pub(super) notices: Vec<String>,
    /// The time up to which all used indexes are current, in milliseconds since 1970: the earliest of their times.
    /// `None` if no index was used.
    pub(super) as_of: Option<i64>,
}

impl Remarks {
    /// Records that a used index is current up to the time `at`.
    pub(super) fn known_at(&mut self, at: i64) {
        self.as_of = Some(self.as_of.map_or(at, |other| other.min(at)));
    }

    /// Adds a notice unless an equal one exists.
    pub(super) fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }

    /// Adds the notice that an index does not answer. The reason is only logged: the operator may know it, callers may
    /// not.
    pub(super) fn unanswered(&mut self, why: &Failure) {
        tracing::warn!(code = why.code.as_str(), detail = %why.detail, "a search index does not answer");
        let text = "a search index does not answer: its history was scanned";
        self.notice(text.to_owned());
    }
}
