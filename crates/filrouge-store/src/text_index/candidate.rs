//! Queries for candidates: documents that may match a search.

use super::{DocumentNo, IndexScope, SessionNo, TITLE};

/// A query for candidate documents.
#[derive(Debug, Clone)]
pub struct CandidateQuery<'a> {
    /// The owners whose documents match; [`CandidateFilter::WithoutVector`] ignores it.
    pub reach: &'a IndexScope,
    /// If given, only documents of these sessions match.
    pub sessions: Option<&'a [SessionNo]>,
    /// The requested kinds: bit `n` selects the kind `n`.
    pub kinds: u32,
    /// If given, only documents created at or after this time (milliseconds since 1970) match; titles always match.
    pub since: Option<i64>,
    /// If given, only documents created before this time match; titles always match.
    pub until: Option<i64>,
    /// The condition on the text or the vector, and the order of the results.
    pub wanted: CandidateFilter<'a>,
}

/// The condition that makes a document a candidate. A term is a list of folded literals; a document meets it if it
/// contains at least one of them. The caller leaves out terms by which an index cannot narrow ([`super::can_narrow`]).
#[derive(Debug, Clone, Copy)]
pub enum CandidateFilter<'a> {
    /// A candidate meets all terms; without terms, every document is a candidate. Newest first.
    All(&'a [Vec<String>]),
    /// A candidate meets at least one term. Sorted by the number of met terms, then newest first.
    Any(&'a [Vec<String>]),
    /// An embedder's id, a vector and a limit. The candidates are the documents whose vectors by this embedder have the
    /// greatest products with the vector: at most as many as the limit, greatest first.
    Nearest(&'a str, &'a [i8], usize),
    /// An embedder's id and a limit. The candidates are documents of all owners without a stored vector by this
    /// embedder: at most as many as the limit, newest first.
    WithoutVector(&'a str, usize),
}

impl<'a> CandidateFilter<'a> {
    /// The terms of the condition; empty for conditions on vectors.
    pub const fn terms(&self) -> &'a [Vec<String>] {
        match self {
            Self::All(terms) | Self::Any(terms) => terms,
            Self::Nearest(..) | Self::WithoutVector(..) => &[],
        }
    }

    /// Whether a document needs to meet only one term.
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Any(_))
    }
}

/// A document that may match a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub document: DocumentNo,
    /// Its session.
    pub session: SessionNo,
    /// [`super::NewDocument::kind`].
    pub kind: u8,
    /// [`super::NewDocument::created`].
    pub created: i64,
    /// Bit `n` is set if the document may meet term `n`, for the first 64 terms.
    pub met: u64,
    /// Whether it certainly contains all words of the query as complete words; `false` if the index cannot decide.
    pub whole_words: bool,
    /// The product of its vector with the query's, for [`CandidateFilter::Nearest`]; otherwise 0.
    pub near: i32,
}

impl CandidateQuery<'_> {
    /// Whether a document passes all conditions except the owner and the terms.
    #[must_use]
    pub fn accepts(&self, candidate: &Candidate) -> bool {
        let bit = 1_u32.checked_shl(u32::from(candidate.kind)).unwrap_or(0);
        let is_title = candidate.kind == TITLE;
        self.kinds & bit != 0
            && (is_title || self.since.is_none_or(|since| candidate.created >= since))
            && (is_title || self.until.is_none_or(|until| candidate.created < until))
            && self
                .sessions
                .is_none_or(|sessions| sessions.contains(&candidate.session))
    }
}

/// The product of two vectors of equal length; `None` for vectors of different lengths or without elements.
pub fn product(a: &[i8], b: &[i8]) -> Option<i32> {
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let pairs = a.iter().zip(b);
    Some(pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
}
