//! One index, asked: the documents that may hold what is looked for, and of those the ones that do.
//!
//! Few candidates are all looked through. Of many, some of every session are, the likeliest sessions first; how many of
//! the others hold it is estimated from those, and said so. Whoever shows a session looks through what is left of it, so
//! that nothing is shown that does not hold it, and everything is shown in the end.

use std::cmp::Reverse;

use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, Reach, SessionNo, TITLE, TextIndex, narrows,
};
use filrouge_types::{ErrorCode, Failure};

use super::Asked;
use super::rank::Evidence;
use crate::spoken::Spoken;

/// More candidates than these are not all looked through before an answer, unless [`super::Searcher`] is told otherwise.
pub(super) const LOOKED_THROUGH: usize = 300;
/// Where there are more, so many of a session are looked through at first, and none when so many were found to hold it.
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
    /// More candidates are not all looked through, but for those of one session that is searched alone.
    pub(super) most: usize,
}

/// What one session holds.
#[derive(Debug)]
pub(super) struct InSession {
    /// Its number in the index.
    pub(super) session: SessionNo,
    pub(super) evidence: Evidence,
    /// The documents that hold it: the title, then in the order they were said.
    pub(super) held: Vec<DocumentNo>,
    /// Those that may hold it and were not looked through, in the same order and behind the others.
    pub(super) open: Vec<DocumentNo>,
    /// How many hold it in all, those of `open` estimated.
    pub(super) about: f64,
    /// How likely it is that one does, from 0 to 1.
    pub(super) likely: f64,
    /// Those that mean the like, the nearest first; shown when none holds it.
    pub(super) near: Vec<DocumentNo>,
}

impl InSession {
    /// One of which nothing is known.
    pub(super) const fn of(session: SessionNo) -> Self {
        Self {
            session,
            evidence: Evidence::NONE,
            held: Vec::new(),
            open: Vec::new(),
            about: 0.0,
            likely: 1.0,
            near: Vec::new(),
        }
    }

    /// Sums up what was found; of `open` that share holds it.
    fn sum_up(&mut self, share: f64) {
        #[allow(clippy::cast_precision_loss)]
        let (held, open) = (self.held.len() as f64, self.open.len() as f64);
        self.about = open.mul_add(share, held);
        self.likely = match self.held.is_empty() {
            true => 1.0 - (-self.about).exp(),
            false => 1.0,
        };
        self.evidence.exact = self.open.is_empty();
        self.evidence.matches = whole(self.about);
    }
}

/// The nearest whole number.
pub(super) fn whole(about: f64) -> usize {
    // `as` keeps within the bounds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = about.round() as usize;
    whole
}

/// Some of the next documents of some sessions, by the places of these.
type Turn = Vec<(usize, usize)>;

impl Look<'_> {
    /// The sessions that hold it, or may.
    pub(super) fn find(&self) -> Result<Vec<InSession>, Failure> {
        if self.sessions.is_some_and(<[_]>::is_empty) {
            return Ok(Vec::new());
        }
        let candidates = self.candidates()?;
        let total = candidates.len();
        let alone = self.sessions.is_some_and(|own| own.len() == 1);
        let mut sessions;
        if total <= self.most || alone {
            sessions = by_session(candidates, false);
            let all = sessions.iter().enumerate();
            let all = all.map(|(at, one)| (at, one.open.len())).collect();
            self.look_through(&mut sessions, &all)?;
            sessions.iter_mut().for_each(|one| one.sum_up(0.0));
        } else {
            sessions = by_session(candidates, true);
            self.sample(&mut sessions)?;
        }
        sessions.retain(|one| !one.held.is_empty() || !one.open.is_empty());
        Ok(sessions)
    }

    /// Looks through some of each session until enough was looked through, and estimates the rest.
    fn sample(&self, sessions: &mut [InSession]) -> Result<(), Failure> {
        let (mut looked, mut row) = (0, IN_A_ROW);
        while looked < self.most && !(self.asked.stopped)() {
            let turn = turn(sessions, row, self.most - looked);
            if turn.is_empty() {
                break;
            }
            looked += self.look_through(sessions, &turn)?;
            row *= 2;
        }
        let held: usize = sessions.iter().map(|one| one.held.len()).sum();
        // One more that half holds it: what was found nowhere may still be somewhere.
        #[allow(clippy::cast_precision_loss)]
        let share = (held as f64 + 0.5) / (looked as f64 + 1.0);
        sessions.iter_mut().for_each(|one| one.sum_up(share));
        Ok(())
    }

    /// Looks through a turn; how many documents were still there.
    fn look_through(&self, sessions: &mut [InSession], turn: &Turn) -> Result<usize, Failure> {
        let (mut numbers, mut owners, mut agents) = (Vec::new(), Vec::new(), Vec::new());
        for (place, count) in turn {
            let Some(one) = sessions.get_mut(*place) else {
                continue;
            };
            let next = one.open.drain(..(*count).min(one.open.len()));
            numbers.extend(next);
            owners.resize(numbers.len(), (*place, agents.len()));
            agents.push((self.agent)(one.session));
        }
        let mut all = numbers.iter().zip(&owners);
        let (mut looked, mut malformed) = (0, false);
        self.index.bodies(&numbers, &mut |document, body| {
            // What went meanwhile is left out.
            let Some((_, (place, agent))) = all.find(|(no, _)| **no == document) else {
                return false;
            };
            looked += 1;
            let agent = agents.get(*agent).and_then(Option::as_deref);
            let Ok(spoken) = Spoken::decode(body) else {
                malformed = true;
                return false;
            };
            let evidence = self.asked.weigh(agent, &spoken);
            if let (Some(evidence), Some(one)) = (evidence, sessions.get_mut(*place)) {
                one.evidence.add(evidence);
                one.held.push(document);
            }
            !(self.asked.stopped)()
        })?;
        if malformed {
            // Whoever asks looks through everything instead, and says so: nothing is missed for a damaged index.
            let what = "the search index holds a document that cannot be read: rebuild it";
            return Err(Failure::new(ErrorCode::Internal, what));
        }
        Ok(looked)
    }

    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let filter = self.asked.filter;
        self.index.candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: self.asked.kinds(),
            since: filter.since(),
            until: filter.until(),
            terms: &narrowing(self.asked.question.matcher.literals()),
            any: false,
        })
    }
}

/// The next `row` documents of each session that is not known to hold enough, `room` in all.
fn turn(sessions: &[InSession], row: usize, mut room: usize) -> Turn {
    let mut turn = Turn::new();
    for (place, one) in sessions.iter().enumerate() {
        if room == 0 {
            break;
        }
        let count = row.min(one.open.len()).min(room);
        if count > 0 && one.held.len() < IN_A_ROW {
            turn.push((place, count));
            room -= count;
        }
    }
    turn
}

/// The terms that an index can narrow by.
fn narrowing(mut terms: Vec<Vec<String>>) -> Vec<Vec<String>> {
    terms.retain(|term| term.iter().all(|literal| narrows(literal)));
    terms
}

/// Candidates by their sessions, in the order they are shown: the title, then as they were said. With `likely`, sessions
/// whose title is among them come first, then those that are known to have whole words, then those in which something was
/// said last.
fn by_session(mut candidates: Vec<Candidate>, likely: bool) -> Vec<InSession> {
    // They come the newest number first, and numbers mostly follow the order that is wanted.
    candidates.reverse();
    candidates.sort_by_key(|c| (c.session, c.kind != TITLE, c.created, c.document));
    let mut own: Vec<&[Candidate]> = candidates.chunk_by(|a, b| a.session == b.session).collect();
    if likely {
        own.sort_by_cached_key(|own| {
            let (first, last) = (own.first(), own.last());
            let titled = first.is_some_and(|c| c.kind == TITLE);
            let whole = own.iter().any(|c| c.whole);
            Reverse((titled, whole, last.map(|c| (c.created, c.session))))
        });
    }
    let one = |own: &[Candidate]| InSession {
        open: own.iter().map(|c| c.document).collect(),
        ..InSession::of(own.first().map_or(0, |c| c.session))
    };
    own.into_iter().map(one).collect()
}
