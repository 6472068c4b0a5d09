//! What was found in one session of an index, and what was not looked through there.

use std::ops::Range;
use std::sync::Arc;

use filrouge_store::text_index::{DocumentNo, SessionNo};

use crate::rank::Evidence;

/// What one session holds.
#[derive(Debug)]
pub(super) struct InSession {
    /// Its number in the index.
    pub(super) session: SessionNo,
    pub(super) evidence: Evidence,
    /// The documents that may hold it, among those of other sessions: the title, then in the order they were said.
    candidates: (Arc<[DocumentNo]>, Range<usize>),
    /// The places of those that were looked through, and whether they hold it; `None` of those that went meanwhile.
    looked: Vec<(usize, Option<bool>)>,
    /// How many hold it in all, those that were not looked through estimated.
    pub(super) about: f64,
    /// How likely it is that one does, from 0 to 1.
    pub(super) likely: f64,
    /// Those that mean the like, the nearest first; shown when none holds it.
    pub(super) near: Vec<DocumentNo>,
}

impl InSession {
    /// One of which nothing is known but what may hold it.
    pub(super) fn of(session: SessionNo, candidates: (Arc<[DocumentNo]>, Range<usize>)) -> Self {
        Self {
            session,
            evidence: Evidence::NONE,
            candidates,
            looked: Vec::new(),
            about: 0.0,
            likely: 1.0,
            near: Vec::new(),
        }
    }

    /// One that was found by its meaning.
    pub(super) fn near(session: SessionNo, document: DocumentNo) -> Self {
        Self {
            near: vec![document],
            ..Self::of(session, (Arc::default(), 0..0))
        }
    }

    /// The documents that hold it, and those that may and were not looked through, in their order; whether each does.
    pub(super) fn documents(&self) -> impl Iterator<Item = (DocumentNo, bool)> {
        let mut looked = self.looked.iter().peekable();
        let all = self.candidates().iter().enumerate();
        all.filter_map(
            move |(at, document)| match looked.next_if(|(place, _)| *place == at) {
                Some((_, Some(true))) => Some((*document, true)),
                Some(_) => None,
                None => Some((*document, false)),
            },
        )
    }

    /// Whether a document is known to hold it.
    pub(super) fn holds(&self) -> bool {
        self.holding() > 0
    }

    /// Whether one holds it, or may.
    pub(super) fn may_hold(&self) -> bool {
        self.holds() || self.is_open()
    }

    /// All that may hold it, in their order.
    pub(super) fn candidates(&self) -> &[DocumentNo] {
        let (all, own) = &self.candidates;
        all.get(own.clone()).unwrap_or_default()
    }

    /// Whether some were not looked through.
    pub(super) fn is_open(&self) -> bool {
        self.looked.len() < self.candidates.1.len()
    }

    /// How many were found to hold it.
    pub(super) fn holding(&self) -> usize {
        let holding = self.looked.iter();
        holding.filter(|(_, holds)| *holds == Some(true)).count()
    }

    /// Notes what speaks for the document at a place; `None` when it went.
    pub(super) fn look(&mut self, at: usize, evidence: Option<Option<Evidence>>) {
        let holds = evidence.map(|found| found.is_some());
        self.looked.push((at, holds));
        if let Some(evidence) = evidence.flatten() {
            self.evidence.add(evidence);
        }
    }

    /// The places of the next `most` to be looked through: the first one, which often is the title or what was asked, and
    /// some in equal distances, which stand for the rest.
    pub(super) fn next(&self, most: usize) -> Vec<usize> {
        let is_left = |at: &usize| self.looked.iter().all(|(looked, _)| looked != at);
        let left: Vec<usize> = (0..self.candidates.1.len()).filter(is_left).collect();
        let (first, rest) = match left.split_first() {
            Some((0, rest)) if most > 0 => (Some(0), rest),
            _ => (None, &*left),
        };
        let count = (most - first.map_or(0, |_| 1)).min(rest.len());
        let middles = (0..count).filter_map(|n| rest.get((2 * n + 1) * rest.len() / (2 * count)));
        first.into_iter().chain(middles.copied()).collect()
    }

    /// Sums up what was found; of those that were not looked through these shares hold it.
    pub(super) fn sum_up(&mut self, shares: &Shares) {
        self.looked.sort_unstable();
        let open = self.candidates.1.len() - self.looked.len();
        let first = match self.looked.first() {
            Some((0, _)) => 0,
            _ => open.min(1),
        };
        #[allow(clippy::cast_precision_loss)]
        let [held, first, rest] = [self.holding(), first, open - first].map(|n| n as f64);
        self.about = rest.mul_add(
            shares.rest.value(),
            first.mul_add(shares.first.value(), held),
        );
        self.likely = match self.holds() {
            true => 1.0,
            false => 1.0 - (-self.about).exp(),
        };
        self.evidence.exact = open == 0;
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

/// How many of those that were looked through hold it: of the first candidates of sessions, and of the others.
#[derive(Default)]
pub(super) struct Shares {
    first: Share,
    rest: Share,
}

#[derive(Default)]
struct Share {
    held: usize,
    looked: usize,
}

impl Shares {
    pub(super) fn of(sessions: &[InSession]) -> Self {
        let mut shares = Self::default();
        for (at, holds) in sessions.iter().flat_map(|one| &one.looked) {
            let share = match at {
                0 => &mut shares.first,
                _ => &mut shares.rest,
            };
            share.looked += usize::from(holds.is_some());
            share.held += usize::from(*holds == Some(true));
        }
        shares
    }
}

impl Share {
    /// As if there was one more that half holds it: what was found nowhere may still be somewhere.
    #[allow(clippy::cast_precision_loss)]
    fn value(&self) -> f64 {
        (self.held as f64 + 0.5) / (self.looked as f64 + 1.0)
    }
}
