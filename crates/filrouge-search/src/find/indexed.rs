//! One index, asked: the documents that may hold what is looked for, and of those the ones that do.
//!
//! Few candidates are all looked through. Of many, a few of each session are, the likeliest sessions first; how many of
//! the others hold it is estimated from those, and said so. Whoever shows a session looks through what is left of it, so
//! that nothing is shown that does not hold it, and everything is shown in the end.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use filrouge_sources::by_two;
use filrouge_store::text_index::{
    Candidate, CandidateQuery, DocumentNo, Reach, SessionNo, TITLE, TextIndex, Wanted, narrows,
};
use filrouge_types::Failure;

use super::asked::Asked;
use super::inside::{InSession, Shares};
use super::texts::read;
use crate::rank::Evidence;

/// More candidates than these are not all looked through before an answer, unless a searcher is given another number.
pub(super) const LOOKED_THROUGH: usize = 300;
/// Where there are more, so many are enough if so many sessions were found to hold it: they fill a page.
const SAMPLE: (usize, usize) = (100, 20);
/// So many of a session are looked through at first, and none when so many were found to hold it.
const OF_SESSION: (usize, usize) = (2, 4);

/// What is looked for in one index.
pub(super) struct Look<'a> {
    pub(super) index: &'a dyn TextIndex,
    pub(super) reach: &'a Reach,
    /// Only in these sessions.
    pub(super) sessions: Option<&'a [SessionNo]>,
    pub(super) asked: &'a Asked<'a>,
    /// Of a session: the agent of its messages that name none.
    pub(super) agent: &'a (dyn Fn(SessionNo) -> Option<Box<str>> + Sync),
    /// More candidates are not all looked through, but for those of one session that is searched alone.
    pub(super) most: usize,
}

/// So many documents are read together: a thread takes the next ones.
const PIECE: usize = 32;

/// Documents by the places of their sessions, and their own among the candidates of these.
type Turn = Vec<(usize, usize)>;
/// The agents of sessions, by their places.
type Agents = HashMap<usize, Option<Box<str>>>;
/// What speaks for documents, by the same places.
type Weighed = Vec<((usize, usize), Option<Evidence>)>;

/// Goes round the sessions, a few documents of each at a time.
struct Round {
    /// The place of the session that comes next.
    next: usize,
    /// How many of each.
    row: usize,
}

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
            let all =
                all.flat_map(|(place, one)| (0..one.candidates().len()).map(move |at| (place, at)));
            let all = all.collect();
            self.look_through(&mut sessions, &all)?;
            let none = Shares::default();
            sessions.iter_mut().for_each(|one| one.sum_up(&none));
        } else {
            sessions = by_session(candidates, true);
            self.sample(&mut sessions)?;
        }
        sessions.retain(InSession::may_hold);
        Ok(sessions)
    }

    /// Looks through some of each session until enough was looked through, and estimates the rest.
    fn sample(&self, sessions: &mut [InSession]) -> Result<(), Failure> {
        let (enough, page) = SAMPLE;
        let (mut looked, mut round) = (0, Round::new());
        while looked < self.most && !(self.asked.stopped)() {
            let holding = sessions.iter().filter(|one| one.holds());
            let most = match looked < enough {
                true => self.most.min(enough),
                false if holding.count() >= page => break,
                false => self.most,
            };
            let turn = round.turn(sessions, most - looked);
            if turn.is_empty() {
                break;
            }
            looked += self.look_through(sessions, &turn)?;
        }
        let shares = Shares::of(sessions);
        sessions.iter_mut().for_each(|one| one.sum_up(&shares));
        Ok(())
    }

    /// Looks through a turn; how many documents were still there.
    fn look_through(&self, sessions: &mut [InSession], turn: &Turn) -> Result<usize, Failure> {
        let agents = self.agents(sessions, turn);
        let pieces: Vec<&[(usize, usize)]> = turn.chunks(PIECE).collect();
        let weighed = by_two(&pieces, 1, |piece| self.weighed(sessions, piece, &agents));
        let mut seen = Vec::with_capacity(turn.len());
        for piece in weighed {
            seen.extend(piece?);
        }
        let looked = seen.len();
        let mut seen = seen.into_iter().peekable();
        for (place, at) in turn {
            let evidence = seen.next_if(|(one, _)| *one == (*place, *at));
            if let Some(one) = sessions.get_mut(*place) {
                one.look(*at, evidence.map(|(_, evidence)| evidence));
            }
        }
        Ok(looked)
    }

    /// What speaks for those documents that are still there.
    fn weighed(
        &self,
        sessions: &[InSession],
        piece: &[(usize, usize)],
        agents: &Agents,
    ) -> Result<Weighed, Failure> {
        let document =
            |(place, at): &(usize, usize)| sessions.get(*place)?.candidates().get(*at).copied();
        let numbers: Vec<DocumentNo> = piece.iter().filter_map(document).collect();
        let mut all = numbers.iter().zip(piece);
        let mut weighed = Weighed::with_capacity(piece.len());
        read(self.index, &numbers, &mut |document, spoken| {
            let Some((_, one)) = all.find(|(no, _)| **no == document) else {
                return false;
            };
            let agent = agents.get(&one.0).and_then(Option::as_deref);
            weighed.push((*one, self.asked.weigh(agent, spoken)));
            !(self.asked.stopped)()
        })?;
        Ok(weighed)
    }

    /// The agents of the sessions of a turn, where somebody asks for agents.
    fn agents(&self, sessions: &[InSession], turn: &Turn) -> Agents {
        let mut agents = Agents::new();
        if self.asked.filter.asks_agent() {
            for (place, _) in turn {
                if let Some(one) = sessions.get(*place) {
                    let agent = || (self.agent)(one.session);
                    agents.entry(*place).or_insert_with(agent);
                }
            }
        }
        agents
    }

    /// The documents that may hold it.
    fn candidates(&self) -> Result<Vec<Candidate>, Failure> {
        let filter = self.asked.filter;
        self.index.candidates(&CandidateQuery {
            reach: self.reach,
            sessions: self.sessions,
            kinds: self.asked.kinds(),
            since: filter.since(),
            until: filter.until(),
            wanted: Wanted::All(&narrowing(self.asked.question.matcher.literals())),
        })
    }
}

impl Round {
    const fn new() -> Self {
        let (row, _) = OF_SESSION;
        Self { next: 0, row }
    }

    /// The next documents of the sessions that come next and are not known to hold enough, `room` in all; none when there
    /// are none any more.
    fn turn(&mut self, sessions: &[InSession], room: usize) -> Turn {
        let mut turn = self.rest_of_it(sessions, room);
        if turn.is_empty() {
            *self = Self {
                next: 0,
                row: self.row * 2,
            };
            turn = self.rest_of_it(sessions, room);
        }
        turn
    }

    fn rest_of_it(&mut self, sessions: &[InSession], mut room: usize) -> Turn {
        let (mut turn, (_, enough)) = (Turn::new(), OF_SESSION);
        for (place, one) in sessions.iter().enumerate().skip(self.next) {
            if room == 0 {
                break;
            }
            self.next = place + 1;
            if one.is_open() && one.holding() < enough {
                let next = one.next(self.row.min(room));
                room -= next.len();
                turn.extend(next.into_iter().map(|at| (place, at)));
            }
        }
        turn
    }
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
            let whole = own.iter().any(|c| c.whole);
            Reverse((titled, whole, last.map(|c| (c.created, c.session))))
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
