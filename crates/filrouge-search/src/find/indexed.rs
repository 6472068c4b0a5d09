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
    can_narrow,
};
use filrouge_types::Result;

use super::query::PreparedQuery;
use super::session_candidates::{SessionCandidates, Shares};
use crate::rank::Evidence;
use crate::texts::Texts;

/// The default of [`IndexSearch::max_candidates`].
pub(super) const DEFAULT_MAX_CANDIDATES: usize = 300;
/// If there are too many candidates to scan all, scanning stops as soon as it has scanned at least the first number of
/// candidates, and found matches in at least the second number of sessions, a full page.
const SAMPLE_GOAL: (usize, usize) = (100, 20);
/// The number of candidates of each session that the first round scans, and the number of matches in a session from
/// which no more of its candidates are scanned.
const SCANNED_PER_SESSION: (usize, usize) = (2, 4);

/// A search in one index.
pub(super) struct IndexSearch<'a> {
    /// The index, and the texts of the documents that it names.
    pub(super) texts: Texts<'a>,
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

/// The number of documents that a thread reads at once.
const DOCUMENTS_PER_READ: usize = 32;

/// Documents, each by the position of its session and its position among that session's candidates.
type Positions = Vec<(usize, usize)>;
/// The agents of sessions, by the sessions' positions.
type Agents = HashMap<usize, Option<Box<str>>>;
/// Documents by their [`Positions`], each with its evidence; `None` for a document that does not match.
type ScannedDocuments = Vec<((usize, usize), Option<Evidence>)>;

/// Iterates over the sessions in rounds, a few documents of each at a time.
struct SamplingRound {
    /// The position of the next session.
    next: usize,
    /// The number of documents that this round takes of each session.
    per_session: usize,
}

impl IndexSearch<'_> {
    /// Returns the sessions that match or may match, with the results of the scan.
    pub(super) fn find(&self) -> Result<Vec<SessionCandidates>> {
        if self.sessions.is_some_and(<[_]>::is_empty) {
            return Ok(Vec::new());
        }
        let candidates = self.candidates()?;
        let total = candidates.len();
        let is_single_session = self.sessions.is_some_and(|own| own.len() == 1);
        let mut sessions;
        if total <= self.max_candidates || is_single_session {
            sessions = group_by_session(candidates, false);
            let all = sessions.iter().enumerate();
            let all = all.flat_map(|(session_at, one)| {
                (0..one.candidates().len()).map(move |at| (session_at, at))
            });
            let all = all.collect();
            self.scan(&mut sessions, &all)?;
            let no_shares = Shares::default();
            sessions
                .iter_mut()
                .for_each(|one| one.compute_totals(&no_shares));
        } else {
            sessions = group_by_session(candidates, true);
            self.sample(&mut sessions)?;
        }
        sessions.retain(SessionCandidates::may_match);
        Ok(sessions)
    }

    /// Scans some candidates of each session until enough were scanned, and estimates how many of the others match.
    fn sample(&self, sessions: &mut [SessionCandidates]) -> Result<()> {
        let (enough, page) = SAMPLE_GOAL;
        let (mut scanned, (per_session, _)) = (0, SCANNED_PER_SESSION);
        let mut round = SamplingRound {
            next: 0,
            per_session,
        };
        while scanned < self.max_candidates && !(self.query.stopped)() {
            let matching = sessions.iter().filter(|one| one.has_match());
            let limit = match scanned < enough {
                true => self.max_candidates.min(enough),
                false if matching.count() >= page => break,
                false => self.max_candidates,
            };
            let batch = round.batch(sessions, limit - scanned);
            if batch.is_empty() {
                break;
            }
            scanned += self.scan(sessions, &batch)?;
        }
        let shares = Shares::from_sessions(sessions);
        sessions
            .iter_mut()
            .for_each(|one| one.compute_totals(&shares));
        Ok(())
    }

    /// Scans a batch, and records the results in `sessions`. Returns the number of scanned documents, which excludes
    /// those that no longer exist.
    fn scan(&self, sessions: &mut [SessionCandidates], batch: &Positions) -> Result<usize> {
        let agents = self.agents(sessions, batch);
        let pieces: Vec<&[(usize, usize)]> = batch.chunks(DOCUMENTS_PER_READ).collect();
        let scanned = on_two_threads(&pieces, 1, |piece| {
            self.scan_piece(sessions, piece, &agents)
        });
        let mut results = Vec::with_capacity(batch.len());
        for piece in scanned {
            results.extend(piece?);
        }
        let scanned = results.len();
        let mut results = results.into_iter().peekable();
        for (session_at, at) in batch {
            let evidence = results.next_if(|(one, _)| *one == (*session_at, *at));
            if let Some(one) = sessions.get_mut(*session_at) {
                one.record(*at, evidence.map(|(_, evidence)| evidence));
            }
        }
        Ok(scanned)
    }

    /// Reads documents and compares them with the query; omits those that no longer exist. Ends early once the query is
    /// stopped.
    fn scan_piece(
        &self,
        sessions: &[SessionCandidates],
        piece: &[(usize, usize)],
        agents: &Agents,
    ) -> Result<ScannedDocuments> {
        let document = |(session_at, at): &(usize, usize)| {
            sessions.get(*session_at)?.candidates().get(*at).copied()
        };
        let numbers: Vec<DocumentNo> = piece.iter().filter_map(document).collect();
        let mut positions = numbers.iter().zip(piece);
        let mut scanned = ScannedDocuments::with_capacity(piece.len());
        self.texts.each(&numbers, &mut |document, doc| {
            let Some((_, position)) = positions.find(|(no, _)| **no == document) else {
                return false;
            };
            let agent = agents.get(&position.0).and_then(Option::as_deref);
            scanned.push((*position, self.query.weigh(agent, doc)));
            !(self.query.stopped)()
        })?;
        Ok(scanned)
    }

    /// Returns the agents of a batch's sessions; empty unless a filter names an agent.
    fn agents(&self, sessions: &[SessionCandidates], batch: &Positions) -> Agents {
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

    /// Requests from the index the documents that may match.
    fn candidates(&self) -> Result<Vec<Candidate>> {
        let filter = self.query.filter;
        // The other terms cannot narrow a search.
        let mut terms = self.query.parsed.matcher.literals();
        terms.retain(|term| term.iter().all(|literal| can_narrow(literal)));
        self.texts.index().candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: self.query.kinds(),
            since: filter.since(),
            until: filter.until(),
            wanted: CandidateFilter::All(&terms),
        })
    }
}

impl SamplingRound {
    /// Returns the next documents to scan, at most `room`, of sessions that do not have enough matches yet; empty when
    /// none is left. A new round takes twice as many documents of each session.
    fn batch(&mut self, sessions: &[SessionCandidates], room: usize) -> Positions {
        let mut batch = self.rest_of_pass(sessions, room);
        if batch.is_empty() {
            (self.next, self.per_session) = (0, self.per_session * 2);
            batch = self.rest_of_pass(sessions, room);
        }
        batch
    }

    fn rest_of_pass(&mut self, sessions: &[SessionCandidates], mut room: usize) -> Positions {
        let (mut batch, (_, enough)) = (Positions::new(), SCANNED_PER_SESSION);
        for (session_at, one) in sessions.iter().enumerate().skip(self.next) {
            if room == 0 {
                break;
            }
            self.next = session_at + 1;
            if one.has_unscanned() && one.match_count() < enough {
                let next = one.next_positions(self.per_session.min(room));
                room -= next.len();
                batch.extend(next.into_iter().map(|at| (session_at, at)));
            }
        }
        batch
    }
}

/// Groups candidates by session, in the order in which a session shows them: the title, then messages by time. With
/// `by_likelihood`, it also sorts the sessions by how likely they match: first the sessions whose title is a candidate,
/// then those with a candidate that is known to contain the query's terms as whole words, then those with the newest
/// candidates.
fn group_by_session(mut candidates: Vec<Candidate>, by_likelihood: bool) -> Vec<SessionCandidates> {
    // Candidates arrive with the newest number first; reversed, they are mostly sorted already.
    candidates.reverse();
    candidates.sort_by_key(|c| (c.session, c.kind != TITLE, c.created, c.document));
    let all: Arc<[DocumentNo]> = candidates.iter().map(|c| c.document).collect();
    let mut end = 0;
    let groups = candidates.chunk_by(|a, b| a.session == b.session);
    let groups = groups.map(|group| {
        end += group.len();
        (group, end - group.len()..end)
    });
    let mut groups: Vec<(&[Candidate], Range<usize>)> = groups.collect();
    if by_likelihood {
        groups.sort_by_cached_key(|(group, _)| {
            let (first, last) = (group.first(), group.last());
            let titled = first.is_some_and(|c| c.kind == TITLE);
            let whole_words = group.iter().any(|c| c.whole_words);
            Reverse((titled, whole_words, last.map(|c| (c.created, c.session))))
        });
    }
    let session_candidates = |(group, range): (&[Candidate], Range<usize>)| {
        let session = group.first().map_or(0, |c| c.session);
        SessionCandidates::new(session, (all.clone(), range))
    };
    groups.into_iter().map(session_candidates).collect()
}

#[cfg(test)]
mod tests;
