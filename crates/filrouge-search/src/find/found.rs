//! The sessions that a search found, and its notices.

use filrouge_sources::library::Entry;
use filrouge_types::Failure;

use super::query::PreparedQuery;
use super::search_space::ShownSession;
use super::session_candidates::SessionCandidates;
use crate::rank::Evidence;
use crate::request::Order;

/// A session that a search found.
pub(super) struct FoundSession<'c> {
    pub(super) shown: ShownSession<'c>,
    pub(super) evidence: Evidence,
    pub(super) score: i64,
    pub(super) found_in: FoundIn,
}

/// Where a session was found.
pub(super) enum FoundIn {
    /// In its source: the complete session was read.
    Source,
    /// In the index at this position in `SearchSpace::indexed`.
    Index(usize, SessionCandidates),
}

impl<'c> FoundSession<'c> {
    /// Creates the result for a session whose documents were all read from its source.
    pub(super) fn from_source(entry: &'c Entry, evidence: Evidence) -> Self {
        Self {
            shown: entry.into(),
            evidence,
            score: 0,
            found_in: FoundIn::Source,
        }
    }

    /// The documents that an index found in the session.
    pub(super) const fn candidates(&self) -> Option<&SessionCandidates> {
        match &self.found_in {
            FoundIn::Source => None,
            FoundIn::Index(_, candidates) => Some(candidates),
        }
    }

    /// Returns the probability that the session matches, and the estimated number of its matching documents.
    pub(super) fn estimates(&self) -> (f64, f64) {
        match self.candidates() {
            #[allow(clippy::cast_precision_loss)]
            None => (1.0, self.evidence.matches as f64),
            Some(candidates) => (candidates.match_probability, candidates.estimated_matches),
        }
    }

    /// Whether it is certain, without a further scan, that the session has something to show.
    pub(super) fn has_certain_excerpt(&self) -> bool {
        self.candidates()
            .is_none_or(|candidates| candidates.has_match() || !candidates.similar.is_empty())
    }
}

/// All sessions that were found.
#[derive(Default)]
pub(super) struct FoundSessions<'c> {
    pub(super) sessions: Vec<FoundSession<'c>>,
    pub(super) remarks: Remarks,
}

impl FoundSessions<'_> {
    /// Sorts the sessions into the requested order: the best first, or the newest.
    pub(super) fn sort(&mut self, query: &PreparedQuery<'_>) {
        if query.request.order == Order::Newest {
            self.sessions
                .iter_mut()
                .for_each(|one| one.score = one.shown.updated);
        }
        let rank = |one: &FoundSession<'_>| (one.score, one.shown.updated);
        self.sessions.sort_unstable_by(|a, b| {
            let by_id = || a.shown.id.cmp(&b.shown.id);
            rank(b).cmp(&rank(a)).then_with(by_id)
        });
    }
}

/// The notices of a search, and the time as of which its results are current.
#[derive(Clone, Default)]
pub(super) struct Remarks {
    pub(super) notices: Vec<String>,
    /// The time up to which all used indexes are current, in milliseconds since 1970: the earliest of their times.
    /// `None` if no index was used.
    pub(super) as_of: Option<i64>,
    /// Whether the results may lack sessions of the ledger, because they cannot be read.
    pub(super) lacks_sessions: bool,
}

impl Remarks {
    /// Records that a used index is current up to the time `at`.
    pub(super) fn limit_as_of(&mut self, at: i64) {
        self.as_of = Some(self.as_of.map_or(at, |other| other.min(at)));
    }

    /// Adds a notice unless an equal one exists.
    pub(super) fn add_notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }

    /// Records that the results may lack sessions of the ledger; `why` is for the caller.
    pub(super) fn add_missing(&mut self, why: &str) {
        self.lacks_sessions = true;
        self.add_notice(format!("sessions of the ledger may be missing: {why}"));
    }

    /// Adds the notice that an index does not answer. The reason is only logged, because callers must not see it.
    pub(super) fn add_unanswered(&mut self, why: &Failure) {
        tracing::warn!(code = why.code.as_str(), detail = %why.detail, "a search index does not answer");
        let text = "a search index does not answer: its history was scanned";
        self.add_notice(text.to_owned());
    }
}
