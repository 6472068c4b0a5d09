//! One index, asked: the documents that may hold what is looked for, and of those the ones that do.
//!
//! Few candidates are all looked through. Of many, some of every session are, the likeliest sessions first; how many of
//! the others hold it is estimated from those, and said so. Whoever shows a session looks through what is left of it, so
//! that nothing is shown that does not hold it, and everything is shown in the end.

use std::collections::HashMap;

use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, Reach, SessionNo, TITLE, TextIndex, narrows,
};
use filrouge_types::Failure;

use super::Asked;
use super::rank::Evidence;
use crate::spoken::Spoken;
use crate::spoken::kind;
use filrouge_sources::Role;

/// How many candidates are looked through at most before the rest is estimated.
const LOOKED_THROUGH: usize = 1_000;
/// How many of a session are looked through in a row, where there are too many in all.
const IN_A_ROW: usize = 4;

/// What is looked for in one index.
pub(super) struct Look<'a> {
    pub(super) index: &'a dyn TextIndex,
    pub(super) reach: &'a Reach,
    /// Only in these sessions.
    pub(super) sessions: Option<&'a [SessionNo]>,
    pub(super) asked: &'a Asked<'a>,
    /// Of a session: the agent of its messages that name none.
    pub(super) agent: &'a dyn Fn(SessionNo) -> Option<Box<str>>,
}

/// What one session holds.
#[derive(Debug, Default)]
pub(super) struct InSession {
    /// Its number in the index.
    pub(super) session: SessionNo,
    pub(super) evidence: Evidence,
    /// The documents that hold it: the title, then in the order they were said.
    pub(super) held: Vec<DocumentNo>,
    /// Those that may hold it and were not looked through, in the same order and behind the others.
    pub(super) open: Vec<DocumentNo>,
}

impl Look<'_> {
    /// The sessions that hold it, or may.
    pub(super) fn find(&self) -> Result<HashMap<SessionNo, InSession>, Failure> {
        let candidates = self.candidates()?;
        let total = candidates.len();
        let mut sessions = by_session(candidates);
        let all = total <= LOOKED_THROUGH || self.sessions.is_some_and(|own| own.len() == 1);
        let mut found = HashMap::with_capacity(sessions.len());
        if all {
            for (no, documents) in sessions {
                let numbers: Vec<_> = documents.iter().map(|c| c.document).collect();
                let mut one = InSession {
                    session: no,
                    evidence: Evidence::NONE,
                    ..InSession::default()
                };
                self.look_through(no, &numbers, usize::MAX, &mut one)?;
                if !one.held.is_empty() {
                    found.insert(no, one);
                }
                if (self.asked.stopped)() {
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
            let mut one = InSession {
                session: no,
                ..InSession::default()
            };
            let some = if looked < LOOKED_THROUGH { IN_A_ROW } else { 0 };
            if some > 0 && !(self.asked.stopped)() {
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
            let spoken = Spoken::decode(body).ok();
            if let Some(evidence) = spoken.and_then(|s| self.asked.weigh(agent.as_deref(), &s)) {
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

    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let filter = self.asked.filter;
        self.index.candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: filter.kinds(),
            since: filter.since(),
            until: filter.until(),
            terms: &narrowing(&self.asked.question.matcher.literals()),
            any: false,
        })
    }
}

/// The terms that an index can narrow by.
fn narrowing(terms: &[Vec<String>]) -> Vec<Vec<String>> {
    let narrow = terms
        .iter()
        .filter(|term| term.iter().all(|literal| narrows(literal)));
    narrow.cloned().collect()
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

/// The first message of an agent behind a question, in the order they were said: what was answered.
pub(super) fn answer_to(
    index: &dyn TextIndex,
    reach: &Reach,
    session: SessionNo,
    question: &Spoken<'_>,
) -> Result<Option<DocumentNo>, Failure> {
    let candidates = index.candidates(&CandidateQuery {
        reach,
        sessions: Some(&[session]),
        kinds: 1 << kind(Some(Role::Assistant)) | 1 << kind(Some(Role::User)),
        since: Some(question.created),
        until: None,
        terms: &[],
        any: false,
    })?;
    let behind = |c: &&Candidate| c.kind == kind(Some(Role::Assistant));
    let first = candidates
        .iter()
        .filter(behind)
        .min_by_key(|c| (c.created, c.document));
    Ok(first.map(|candidate| candidate.document))
}
