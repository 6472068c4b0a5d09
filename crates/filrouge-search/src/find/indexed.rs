//! Searches one index: reads its candidates and keeps those that match.
//!
//! To scan a candidate is to read its text and to compare it with the query. If there are few candidates, all are
//! scanned. If there are many, a few per session are scanned, the likeliest sessions first; the number of matches among
//! the others is estimated, and marked as an estimate. Showing a session scans its remaining candidates, so that only
//! matching documents are shown, and the pages together show all of them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use filrouge_sources::on_two_threads;
use filrouge_store::text_index::{
    Candidate, CandidateFilter, CandidateQuery, DocumentNo, IndexScope, SessionNo, TITLE,
    TextIndex, narrows,
};
use filrouge_types::Failure;

use super::inside::{InSession, Shares};
use super::query::PreparedQuery;
use super::texts::read;
use crate::rank::Evidence;

/// The default of [`IndexSearch::max_candidates`].
pub(super) const MAX_SCANNED: usize = 300;
/// If there are too many candidates to scan all, scanning stops as soon as it has scanned at least the first number of
/// candidates, and found matches in at least the second number of sessions, a full page.
const SAMPLE: (usize, usize) = (100, 20);
/// The number of candidates of each session that the first round scans, and the number of matches in a session from
/// which no more of its candidates are scanned.
const SCANNED_PER_SESSION: (usize, usize) = (2, 4);

/// A search in one index.
pub(super) struct IndexSearch<'a> {
    pub(super) index: &'a dyn TextIndex,
    pub(super) reach: &'a IndexScope,
    /// The sessions to search; `None` for all within `reach`.
    pub(super) sessions: Option<&'a [SessionNo]>,
    pub(super) query: &'a PreparedQuery<'a>,
    /// Returns the agent of a session, to which its messages without an agent belong.
    pub(super) agent: &'a (dyn Fn(SessionNo) -> Option<Box<str>> + Sync),
    /// If there are at most this many candidates, all are scanned; if there are more, at most this many are scanned. A
    /// search of one session scans all, however many.
    pub(super) max_candidates: usize,
}

/// The number of documents that a thread reads in one call of the index.
const READ_TOGETHER: usize = 32;

/// Documents, each by the position of its session and its position among that session's candidates.
type Batch = Vec<(usize, usize)>;
/// The agents of sessions, by the sessions' positions.
type Agents = HashMap<usize, Option<Box<str>>>;
/// Documents by the positions of a [`Batch`], each with its evidence; `None` for a document that does not match.
type Weighed = Vec<((usize, usize), Option<Evidence>)>;

/// Iterates over the sessions in rounds, a few documents of each at a time.
struct Round {
    /// The position of the next session.
    next: usize,
    /// The number of documents that this round takes of each session.
    per_session: usize,
}

impl IndexSearch<'_> {
    /// Returns the sessions that match or may match, with the results of the scan.
    pub(super) fn find(&self) -> Result<Vec<InSession>, Failure> {
        if self.sessions.is_some_and(<[_]>::is_empty) {
            return Ok(Vec::new());
        }
        let candidates = self.candidates()?;
        let total = candidates.len();
        let alone = self.sessions.is_some_and(|own| own.len() == 1);
        let mut sessions;
        if total <= self.max_candidates || alone {
            sessions = by_session(candidates, false);
            let all = sessions.iter().enumerate();
            let all = all.flat_map(|(session_at, one)| {
                (0..one.candidates().len()).map(move |at| (session_at, at))
            });
            let all = all.collect();
            self.scan(&mut sessions, &all)?;
            let none = Shares::default();
            sessions.iter_mut().for_each(|one| one.sum_up(&none));
        } else {
            sessions = by_session(candidates, true);
            self.sample(&mut sessions)?;
        }
        sessions.retain(InSession::may_match);
        Ok(sessions)
    }

    /// Scans some candidates of each session until enough were scanned, and estimates how many of the others match.
    fn sample(&self, sessions: &mut [InSession]) -> Result<(), Failure> {
        let (enough, page) = SAMPLE;
        let (mut scanned, mut round) = (0, Round::new());
        while scanned < self.max_candidates && !(self.query.stopped)() {
            let holding = sessions.iter().filter(|one| one.has_match());
            let limit = match scanned < enough {
                true => self.max_candidates.min(enough),
                false if holding.count() >= page => break,
                false => self.max_candidates,
            };
            let batch = round.batch(sessions, limit - scanned);
            if batch.is_empty() {
                break;
            }
            scanned += self.scan(sessions, &batch)?;
        }
        let shares = Shares::of(sessions);
        sessions.iter_mut().for_each(|one| one.sum_up(&shares));
        Ok(())
    }

    /// Scans a batch, and records the results in `sessions`. Returns the number of scanned documents, which excludes
    /// those that no longer exist.
    fn scan(&self, sessions: &mut [InSession], batch: &Batch) -> Result<usize, Failure> {
        let agents = self.agents(sessions, batch);
        let pieces: Vec<&[(usize, usize)]> = batch.chunks(READ_TOGETHER).collect();
        let weighed = on_two_threads(&pieces, 1, |piece| self.weighed(sessions, piece, &agents));
        let mut seen = Vec::with_capacity(batch.len());
        for piece in weighed {
            seen.extend(piece?);
        }
        let scanned = seen.len();
        let mut seen = seen.into_iter().peekable();
        for (session_at, at) in batch {
            let evidence = seen.next_if(|(one, _)| *one == (*session_at, *at));
            if let Some(one) = sessions.get_mut(*session_at) {
                one.record(*at, evidence.map(|(_, evidence)| evidence));
            }
        }
        Ok(scanned)
    }

    /// Reads documents and compares them with the query; omits those that no longer exist. Ends early once the query is
    /// stopped.
    fn weighed(
        &self,
        sessions: &[InSession],
        piece: &[(usize, usize)],
        agents: &Agents,
    ) -> Result<Weighed, Failure> {
        let document = |(session_at, at): &(usize, usize)| {
            sessions.get(*session_at)?.candidates().get(*at).copied()
        };
        let numbers: Vec<DocumentNo> = piece.iter().filter_map(document).collect();
        let mut all = numbers.iter().zip(piece);
        let mut weighed = Weighed::with_capacity(piece.len());
        read(self.index, &numbers, &mut |document, doc| {
            let Some((_, one)) = all.find(|(no, _)| **no == document) else {
                return false;
            };
            let agent = agents.get(&one.0).and_then(Option::as_deref);
            weighed.push((*one, self.query.weigh(agent, doc)));
            !(self.query.stopped)()
        })?;
        Ok(weighed)
    }

    /// Returns the agents of a batch's sessions; empty unless a filter names an agent.
    fn agents(&self, sessions: &[InSession], batch: &Batch) -> Agents {
        let mut agents = Agents::new();
        if self.query.filter.names_agent() {
            for (session_at, _) in batch {
                if let Some(one) = sessions.get(*session_at) {
                    let agent = || (self.agent)(one.session);
                    agents.entry(*session_at).or_insert_with(agent);
                }
            }
        }
        agents
    }

    /// Asks the index for the documents that may match.
    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let filter = self.query.filter;
        self.index.candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: self.query.kinds(),
            since: filter.since(),
            until: filter.until(),
            wanted: CandidateFilter::All(&narrowing(self.query.question.matcher.literals())),
        })
    }
}

impl Round {
    const fn new() -> Self {
        let (per_session, _) = SCANNED_PER_SESSION;
        Self {
            next: 0,
            per_session,
        }
    }

    /// Returns the next documents to scan, at most `room`, of sessions that do not have enough matches yet; empty when
    /// none is left. A new round takes twice as many documents of each session.
    fn batch(&mut self, sessions: &[InSession], room: usize) -> Batch {
        let mut batch = self.rest_of_round(sessions, room);
        if batch.is_empty() {
            *self = Self {
                next: 0,
                per_session: self.per_session * 2,
            };
            batch = self.rest_of_round(sessions, room);
        }
        batch
    }

    fn rest_of_round(&mut self, sessions: &[InSession], mut room: usize) -> Batch {
        let (mut batch, (_, enough)) = (Batch::new(), SCANNED_PER_SESSION);
        for (session_at, one) in sessions.iter().enumerate().skip(self.next) {
            if room == 0 {
                break;
            }
            self.next = session_at + 1;
            if one.has_unscanned() && one.match_count() < enough {
                let next = one.next(self.per_session.min(room));
                room -= next.len();
                batch.extend(next.into_iter().map(|at| (session_at, at)));
            }
        }
        batch
    }
}

/// Drops the terms by which an index cannot narrow a search.
fn narrowing(mut terms: Vec<Vec<String>>) -> Vec<Vec<String>> {
    terms.retain(|term| term.iter().all(|literal| narrows(literal)));
    terms
}

/// Groups candidates by session, in the order in which a session shows them: the title, then messages by time. With
/// `likely`, it also sorts the sessions by how likely they match: first the sessions whose title is a candidate, then
/// those with a candidate that is known to contain the query's terms as whole words, then those with the newest
/// candidates.
fn by_session(mut candidates: Vec<Candidate>, likely: bool) -> Vec<InSession> {
    // Candidates arrive with the newest number first; reversed, they are mostly sorted already.
    candidates.reverse();
    candidates.sort_by_key(|c| (c.session, c.kind != TITLE, c.created, c.document));
    let all: Arc<[DocumentNo]> = candidates.iter().map(|c| c.document).collect();
    let mut end = 0;
    let own = candidates.chunk_by(|a, b| a.session == b.session);
    let own = own.map(|own| {
        end += own.len();
        (own, end - own.len()..end)
    });
    let mut own: Vec<(&[Candidate], Range<usize>)> = own.collect();
    if likely {
        own.sort_by_cached_key(|(own, _)| {
            let (first, last) = (own.first(), own.last());
            let titled = first.is_some_and(|c| c.kind == TITLE);
            let whole_words = own.iter().any(|c| c.whole_words);
            Reverse((titled, whole_words, last.map(|c| (c.created, c.session))))
        });
    }
    let one = |(own, at): (&[Candidate], Range<usize>)| {
        let session = own.first().map_or(0, |c| c.session);
        InSession::of(session, (all.clone(), at))
    };
    own.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
