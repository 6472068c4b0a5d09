//! Finds candidates: the documents that the index names for a query and that pass the query's other conditions.

use std::cmp::Reverse;
use std::collections::HashSet;

use filrouge_store::text_index::{Candidate, CandidateQuery, SessionNo};
use filrouge_types::Failure;
use rusqlite::Connection;

use super::document_cache::{ResolvedScope, read_document};
use super::files::IndexFile;
use super::terms::{Hit, Terms};

/// If there are at most this many hits, their documents are read one by one. If there are more, the cached list of all
/// documents of the scope is used.
const DOCUMENT_LOOKUPS_MAX: usize = 256;
/// If a query names at most this many sessions, their documents are read session by session, instead of those of the
/// entire scope.
const SESSION_LOOKUPS_MAX: usize = 64;

/// The conditions of a query other than its terms and its owner.
pub(super) struct CandidateConditions<'a> {
    /// The query, without its sessions.
    query: CandidateQuery<'a>,
    /// The query's sessions, as a set; `None`: all.
    sessions: Option<HashSet<SessionNo>>,
}

impl<'a> CandidateConditions<'a> {
    pub(super) fn new(query: &CandidateQuery<'a>) -> Self {
        Self {
            query: CandidateQuery {
                sessions: None,
                ..query.clone()
            },
            sessions: query
                .sessions
                .map(|numbers| numbers.iter().copied().collect()),
        }
    }

    pub(super) fn accepts(&self, candidate: &Candidate) -> bool {
        let sessions = self.sessions.as_ref();
        self.query.accepts(candidate)
            && sessions.is_none_or(|sessions| sessions.contains(&candidate.session))
    }
}

/// Finds the candidates in one snapshot of an index, in the order that the query requests.
pub(super) fn find(
    file: &IndexFile,
    conn: &Connection,
    query: &CandidateQuery<'_>,
) -> Result<Vec<Candidate>, Failure> {
    let scope = ResolvedScope::resolve(conn, query.reach)?;
    let terms = Terms::new(query);
    let conditions = CandidateConditions::new(query);
    let few_sessions = query
        .sessions
        .filter(|sessions| sessions.len() <= SESSION_LOOKUPS_MAX);
    if terms.is_everything() {
        let matching = |documents: &[Candidate]| {
            let newest_first = documents.iter().rev().filter(|c| conditions.accepts(c));
            newest_first.copied().collect()
        };
        return Ok(match few_sessions {
            Some(sessions) => matching(&scope.documents_of_sessions(conn, sessions)?),
            None => matching(&scope.documents(file, conn, query.reach)?),
        });
    }
    let mut hits: Vec<Hit> = Vec::new();
    for shard in &scope.shards {
        hits.extend(terms.hits(file, conn, *shard)?);
    }
    if scope.shards.len() > 1 {
        hits.sort_unstable_by_key(|hit| hit.document);
    }
    let mut found = match few_sessions {
        Some(sessions) => hits_among(&hits, &scope.documents_of_sessions(conn, sessions)?),
        None if hits.len() <= DOCUMENT_LOOKUPS_MAX => {
            let mut found = Vec::with_capacity(hits.len());
            for hit in &hits {
                found.extend(read_document(conn, hit.document)?.map(|d| (*hit, d)));
            }
            found
        }
        None => hits_among(&hits, &scope.documents(file, conn, query.reach)?),
    };
    found.retain(|(_, candidate)| conditions.accepts(candidate));
    found.reverse();
    if query.wanted.is_any() {
        found.sort_by_key(|(hit, _)| Reverse(hit.count));
    }
    let with_match = |(hit, candidate): (Hit, Candidate)| Candidate {
        met: hit.met,
        whole_words: hit.whole_words,
        ..candidate
    };
    Ok(found.into_iter().map(with_match).collect())
}

/// The hits whose documents are in `documents`. Both lists are sorted by the documents' numbers.
fn hits_among(hits: &[Hit], documents: &[Candidate]) -> Vec<(Hit, Candidate)> {
    let mut found = Vec::with_capacity(hits.len().min(documents.len()));
    let mut remaining = documents.iter().peekable();
    for hit in hits {
        while remaining.next_if(|d| d.document < hit.document).is_some() {}
        if let Some(candidate) = remaining.next_if(|d| d.document == hit.document) {
            found.push((*hit, *candidate));
        }
    }
    found
}
