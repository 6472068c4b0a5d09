//! The question that was answered last: who searches asks for the same candidates again, for the next page, or once it is
//! known which sessions count.

use std::sync::Arc;

use filrouge_store::text_index::{Candidate, CandidateQuery, Reach};

use super::listed::{Counts, Within};

/// Longer answers are not remembered: 40 bytes each.
const CANDIDATES_MAX: usize = 1 << 15;

/// What was asked of all sessions, and the answer.
pub(super) struct Answered {
    reach: Reach,
    within: (Counts, i64),
    kinds: u32,
    since: Option<i64>,
    until: Option<i64>,
    terms: Vec<Vec<String>>,
    any: bool,
    found: Arc<Vec<Candidate>>,
}

impl Answered {
    /// What is to be remembered of an answer.
    pub(super) fn of(
        query: &CandidateQuery<'_>,
        within: &Within,
        found: &[Candidate],
    ) -> Option<Self> {
        let is_whole = query.sessions.is_none() && found.len() <= CANDIDATES_MAX;
        is_whole.then(|| Self {
            reach: query.reach.clone(),
            within: within.state(),
            kinds: query.kinds,
            since: query.since,
            until: query.until,
            terms: query.terms.to_vec(),
            any: query.any,
            found: Arc::new(found.to_vec()),
        })
    }

    /// The answer of all sessions, if that is what `query` asks and nothing has changed since.
    pub(super) fn to(
        &self,
        query: &CandidateQuery<'_>,
        within: &Within,
    ) -> Option<Arc<Vec<Candidate>>> {
        let own = (self.kinds, self.since, self.until, self.any);
        let is_same = own == (query.kinds, query.since, query.until, query.any)
            && self.within == within.state()
            && self.reach == *query.reach
            && self.terms == query.terms;
        is_same.then(|| self.found.clone())
    }
}
