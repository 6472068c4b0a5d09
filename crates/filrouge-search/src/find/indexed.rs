//! One index, asked: the documents that may hold what is looked for, and of those the ones that do.
//!
//! Few candidates are all looked through. Of many, some of every session are, the likeliest sessions first; how many of
//! the others hold it is estimated from those, and said so. Whoever shows a session looks through what is left of it, so
//! that nothing is shown that does not hold it, and everything is shown in the end.

use std::collections::HashMap;

use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, Reach, SessionNo, TITLE, TextIndex,
};
use filrouge_types::Failure;

use super::rank::Evidence;
use crate::filter::Filter;
use crate::literals::Run;
use crate::matcher::Matcher;
use crate::spoken::{Spoken, kind};

/// How many candidates are looked through at most before the rest is estimated.
const LOOKED_THROUGH: usize = 1_000;
/// How many of a session are looked through in a row, where there are too many in all.
const IN_A_ROW: usize = 4;

/// What is looked for in one index.
pub(crate) struct Look<'a> {
    pub(crate) index: &'a dyn TextIndex,
    pub(crate) reach: &'a Reach,
    /// Only in these sessions.
    pub(crate) sessions: Option<&'a [SessionNo]>,
    pub(crate) matcher: &'a Matcher,
    pub(crate) filter: &'a Filter<'a>,
    /// Of a session: the agent of its messages that name none.
    pub(crate) agent: &'a (dyn Fn(SessionNo) -> Option<Box<str>> + Sync),
    pub(crate) stopped: &'a (dyn Fn() -> bool + Sync),
}

/// What one session holds.
#[derive(Debug, Default)]
pub(crate) struct InSession {
    pub(crate) evidence: Evidence,
    /// The documents that hold it: the title, then in the order they were said.
    pub(crate) held: Vec<DocumentNo>,
    /// Those that may hold it and were not looked through, in the same order and behind the others.
    pub(crate) open: Vec<DocumentNo>,
}

impl Look<'_> {
    /// The sessions that hold it, or may.
    pub(crate) fn find(&self) -> Result<HashMap<SessionNo, InSession>, Failure> {
        let candidates = self.candidates()?;
        let total = candidates.len();
        let mut sessions = by_session(candidates);
        let all = total <= LOOKED_THROUGH || self.sessions.is_some_and(|own| own.len() == 1);
        let mut found = HashMap::with_capacity(sessions.len());
        if all {
            for (no, documents) in sessions {
                let numbers: Vec<_> = documents.iter().map(|c| c.document).collect();
                let mut one = InSession {
                    evidence: Evidence {
                        exact: true,
                        ..Evidence::default()
                    },
                    ..InSession::default()
                };
                self.look_through(no, &numbers, usize::MAX, &mut one)?;
                if !one.held.is_empty() {
                    found.insert(no, one);
                }
                if (self.stopped)() {
                    break;
                }
            }
            return Ok(found);
        }
        // Titles first, then what was said last.
        sessions.sort_unstable_by_key(|(no, documents)| {
            let titled = documents.first().is_some_and(|c| c.kind == TITLE);
            let newest = documents.iter().map(|c| c.created).max();
            std::cmp::Reverse((titled, newest, *no))
        });
        self.sample(sessions, &mut found)?;
        Ok(found)
    }

    /// Looks through some of each session until enough was looked through, and estimates the rest.
    fn sample(
        &self,
        sessions: Vec<(SessionNo, Vec<Candidate>)>,
        found: &mut HashMap<SessionNo, InSession>,
    ) -> Result<(), Failure> {
        let (mut looked, mut held) = (0, 0);
        for (no, documents) in sessions {
            let numbers: Vec<_> = documents.iter().map(|c| c.document).collect();
            let mut one = InSession::default();
            let some = if looked < LOOKED_THROUGH { IN_A_ROW } else { 0 };
            if some > 0 && !(self.stopped)() {
                looked += self.look_through(no, &numbers, some, &mut one)?;
                held += one.held.len();
            } else {
                one.open = numbers;
            }
            if !one.held.is_empty() || !one.open.is_empty() {
                found.insert(no, one);
            }
        }
        for one in found.values_mut() {
            one.evidence.matches = one.held.len() + estimate(one.open.len(), held, looked);
            one.evidence.exact = one.open.is_empty();
        }
        Ok(())
    }

    /// Looks through documents of a session until `most` were found to hold it; how many were looked through.
    fn look_through(
        &self,
        session: SessionNo,
        documents: &[DocumentNo],
        most: usize,
        one: &mut InSession,
    ) -> Result<usize, Failure> {
        let agent = (self.agent)(session);
        let mut looked = 0;
        self.index.bodies(documents, &mut |document, body| {
            looked += 1;
            if let Some(evidence) = self.weigh(agent.as_deref(), body) {
                one.evidence.add(Evidence {
                    exact: one.evidence.exact,
                    ..evidence
                });
                one.held.push(document);
            }
            one.held.len() < most
        })?;
        // What went meanwhile was skipped and not counted: the last one shown tells where it ended.
        if one.held.len() >= most {
            let last = one.held.last().copied();
            let at = documents.iter().position(|d| Some(*d) == last);
            one.open = documents
                .get(at.map_or(0, |at| at + 1)..)
                .unwrap_or_default()
                .to_vec();
        }
        Ok(looked)
    }

    /// What speaks for a document, if it holds what is looked for.
    fn weigh(&self, agent: Option<&str>, body: &[u8]) -> Option<Evidence> {
        let spoken = Spoken::decode(body).ok()?;
        if !self.filter.lets_spoken(agent, &spoken) {
            return None;
        }
        self.matcher.weigh(&spoken)
    }

    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let terms: Vec<Vec<String>> = self
            .matcher
            .runs()
            .filter_map(|(_, runs)| literals(runs))
            .collect();
        self.index.candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: self.filter.kinds(),
            since: self.filter.since(),
            until: self.filter.until(),
            terms: &terms,
            any: false,
        })
    }
}

/// The literals of a term as an index looks for them; `None` when one of them narrows nothing.
fn literals(runs: &[Run]) -> Option<Vec<String>> {
    let folded = runs.iter().map(|run| {
        let text: String = run.iter().collect();
        crate::spoken::folded_literal(&text)
    });
    let folded: Vec<String> = folded.collect();
    let narrow = folded
        .iter()
        .all(|one| filrouge_store::text_index::narrows(one));
    (narrow && !folded.is_empty()).then_some(folded)
}

/// Candidates by their sessions, in the order they are shown: the title, then as they were said.
fn by_session(candidates: Vec<Candidate>) -> Vec<(SessionNo, Vec<Candidate>)> {
    let mut sessions: HashMap<SessionNo, Vec<Candidate>> = HashMap::new();
    for candidate in candidates {
        sessions
            .entry(candidate.session)
            .or_default()
            .push(candidate);
    }
    let mut sessions: Vec<_> = sessions.into_iter().collect();
    for (_, documents) in &mut sessions {
        documents.sort_unstable_by_key(|c| (c.kind != TITLE, c.created, c.document));
    }
    sessions.sort_unstable_by_key(|(no, _)| *no);
    sessions
}

/// How many of `open` hold it when `held` of `looked` did.
fn estimate(open: usize, held: usize, looked: usize) -> usize {
    (open * held).checked_div(looked).unwrap_or(open)
}
