//! The candidates of one session of an index: which of them match, and which were not scanned yet.

use std::ops::Range;
use std::sync::Arc;

use filrouge_store::text_index::{DocumentNo, SessionNo};

use crate::rank::Evidence;

/// A document that is similar to the question.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimilarDocument {
    pub(super) document: DocumentNo,
    /// How similar its meaning is, from 0 to 1; `None` if only words were compared.
    pub(super) score: Option<f64>,
}

/// The candidates of one session, and the evidence of those that match.
#[derive(Debug)]
pub(super) struct SessionCandidates {
    /// The session's number in the index.
    pub(super) session: SessionNo,
    pub(super) evidence: Evidence,
    /// The documents that may match, the title first, then messages by time: an array that all sessions share, and this
    /// session's range in it.
    candidates: (Arc<[DocumentNo]>, Range<usize>),
    /// The positions of the scanned candidates among the session's candidates, and whether each matches; `None` for a
    /// document that no longer existed.
    scanned: Vec<(usize, Option<bool>)>,
    /// The number of matching candidates, of which those not scanned are estimated.
    pub(super) estimated_matches: f64,
    /// The probability that any candidate matches, from 0 to 1.
    pub(super) match_probability: f64,
    /// The documents that are similar to the question, the nearest first. They are shown only when no candidate
    /// matches.
    pub(super) similar: Vec<SimilarDocument>,
}

impl SessionCandidates {
    /// Creates a session of which no candidate was scanned yet.
    pub(super) fn new(session: SessionNo, candidates: (Arc<[DocumentNo]>, Range<usize>)) -> Self {
        Self {
            session,
            evidence: Evidence::NONE,
            candidates,
            scanned: Vec::new(),
            estimated_matches: 0.0,
            match_probability: 1.0,
            similar: Vec::new(),
        }
    }

    /// Creates a session without candidates, which was found because this document is similar to the question.
    pub(super) fn from_similar(session: SessionNo, document: SimilarDocument) -> Self {
        Self {
            similar: vec![document],
            ..Self::new(session, (Arc::default(), 0..0))
        }
    }

    /// Returns the matching documents and the candidates that were not scanned, in the order of the candidates; true
    /// for a document that is known to match.
    pub(super) fn documents(&self) -> impl Iterator<Item = (DocumentNo, bool)> {
        let mut scanned = self.scanned.iter().peekable();
        let numbered = self.candidates().iter().enumerate();
        numbered.filter_map(move |(at, document)| {
            match scanned.next_if(|(position, _)| *position == at) {
                Some((_, Some(true))) => Some((*document, true)),
                Some(_) => None,
                None => Some((*document, false)),
            }
        })
    }

    /// Whether a document is known to match.
    pub(super) fn has_match(&self) -> bool {
        self.match_count() > 0
    }

    /// Whether a document matches or may match.
    pub(super) fn may_match(&self) -> bool {
        self.has_match() || self.has_unscanned()
    }

    /// All candidates, in order.
    pub(super) fn candidates(&self) -> &[DocumentNo] {
        let (all, range) = &self.candidates;
        all.get(range.clone()).unwrap_or_default()
    }

    /// Whether some candidates were not scanned yet.
    pub(super) fn has_unscanned(&self) -> bool {
        self.scanned.len() < self.candidates.1.len()
    }

    /// The number of documents that are known to match.
    pub(super) fn match_count(&self) -> usize {
        let scanned = self.scanned.iter();
        scanned
            .filter(|(_, matches)| *matches == Some(true))
            .count()
    }

    /// Records the result of scanning the candidate at position `at`: its evidence, `Some(None)` if it does not match,
    /// or `None` if the document no longer existed.
    pub(super) fn record(&mut self, at: usize, evidence: Option<Option<Evidence>>) {
        let matches = evidence.map(|evidence| evidence.is_some());
        self.scanned.push((at, matches));
        if let Some(evidence) = evidence.flatten() {
            self.evidence.add(evidence);
        }
    }

    /// Returns the positions of the next candidates to scan, at most `limit`: the first candidate, which often is the
    /// title or the question, and others at equal distances, as a sample of the rest.
    pub(super) fn next_positions(&self, limit: usize) -> Vec<usize> {
        let is_unscanned = |at: &usize| self.scanned.iter().all(|(scanned, _)| scanned != at);
        let unscanned: Vec<usize> = (0..self.candidates.1.len()).filter(is_unscanned).collect();
        let (first, rest) = match unscanned.split_first() {
            Some((0, rest)) if limit > 0 => (Some(0), rest),
            _ => (None, &*unscanned),
        };
        let count = (limit - first.map_or(0, |_| 1)).min(rest.len());
        let middles = (0..count).filter_map(|n| rest.get((2 * n + 1) * rest.len() / (2 * count)));
        first.into_iter().chain(middles.copied()).collect()
    }

    /// Computes the session's totals. `shares` estimates how many of the candidates that were not scanned match.
    pub(super) fn compute_totals(&mut self, shares: &Shares) {
        self.scanned.sort_unstable();
        let unscanned = self.candidates.1.len() - self.scanned.len();
        let first = match self.scanned.first() {
            Some((0, _)) => 0,
            _ => unscanned.min(1),
        };
        #[allow(clippy::cast_precision_loss)]
        let [matched, first, rest] =
            [self.match_count(), first, unscanned - first].map(|n| n as f64);
        self.estimated_matches = rest.mul_add(
            shares.rest.value(),
            first.mul_add(shares.first.value(), matched),
        );
        self.match_probability = match self.has_match() {
            true => 1.0,
            false => 1.0 - (-self.estimated_matches).exp(),
        };
        self.evidence.exact = unscanned == 0;
        self.evidence.matches = round_to_count(self.estimated_matches);
    }
}

/// Rounds to the nearest integer.
pub(super) fn round_to_count(estimated_matches: f64) -> usize {
    // `as` saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rounded = estimated_matches.round() as usize;
    rounded
}

/// The shares of matching documents among the scanned candidates: one for the first candidate of every session, one for
/// all other candidates.
#[derive(Default)]
pub(super) struct Shares {
    first: Share,
    rest: Share,
}

#[derive(Default)]
struct Share {
    matched: usize,
    scanned: usize,
}

impl Shares {
    pub(super) fn from_sessions(sessions: &[SessionCandidates]) -> Self {
        let mut shares = Self::default();
        for (at, matches) in sessions.iter().flat_map(|one| &one.scanned) {
            let share = match at {
                0 => &mut shares.first,
                _ => &mut shares.rest,
            };
            share.scanned += usize::from(matches.is_some());
            share.matched += usize::from(*matches == Some(true));
        }
        shares
    }
}

impl Share {
    /// Returns the share, computed as if one more candidate had been scanned and had half matched: a candidate that was
    /// not scanned may match even if no scanned one did.
    #[allow(clippy::cast_precision_loss)]
    fn value(&self) -> f64 {
        (self.matched as f64 + 0.5) / (self.scanned as f64 + 1.0)
    }
}
