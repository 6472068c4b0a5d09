//! Candidates: what postings say, and of that what passes everything else that is asked.

use std::cmp::Reverse;
use std::collections::HashSet;

use filrouge_store::text_index::{Candidate, CandidateQuery, SessionNo};
use filrouge_types::Failure;
use rusqlite::Connection;

use super::ask::{Asked, Hit};
use super::files::Files;
use super::listed::{Within, document};

/// So many documents are looked up one by one; more by the list of all.
const LOOKED_UP: usize = 256;
/// So many sessions are gone through one by one.
const SESSIONS: usize = 64;

/// What a question lets through, but its terms and whose it is.
pub(super) struct Filter<'a> {
    query: CandidateQuery<'a>,
    sessions: Option<HashSet<SessionNo>>,
}

impl<'a> Filter<'a> {
    pub(super) fn of(query: &CandidateQuery<'a>) -> Self {
        Self {
            query: CandidateQuery {
                sessions: None,
                ..query.clone()
            },
            sessions: query.sessions.map(|of| of.iter().copied().collect()),
        }
    }

    pub(super) fn takes(&self, candidate: &Candidate) -> bool {
        let of = &self.sessions;
        self.query.takes(candidate) && of.as_ref().is_none_or(|of| of.contains(&candidate.session))
    }
}

/// The candidates in one sight of an index.
pub(super) fn find(
    files: &Files,
    conn: &Connection,
    query: &CandidateQuery<'_>,
) -> Result<Vec<Candidate>, Failure> {
    let within = Within::find(conn, query.reach)?;
    let asked = Asked::of(query);
    let filter = Filter::of(query);
    let few = query.sessions.filter(|sessions| sessions.len() <= SESSIONS);
    if asked.is_everything() {
        let keep = |all: &[Candidate]| {
            let newest_first = all.iter().rev().filter(|c| filter.takes(c));
            newest_first.copied().collect()
        };
        return Ok(match few {
            Some(sessions) => keep(&within.of_sessions(conn, sessions)?),
            None => keep(&within.documents(files, conn, query.reach)?),
        });
    }
    let mut hits: Vec<Hit> = Vec::new();
    for shard in &within.shards {
        hits.extend(asked.hits(files, conn, *shard)?);
    }
    if within.shards.len() > 1 {
        hits.sort_unstable_by_key(|hit| hit.document);
    }
    let mut found = match few {
        Some(sessions) => merged(&hits, &within.of_sessions(conn, sessions)?),
        None if hits.len() <= LOOKED_UP => {
            let mut found = Vec::with_capacity(hits.len());
            for hit in &hits {
                found.extend(document(conn, hit.document)?.map(|d| (*hit, d)));
            }
            found
        }
        None => merged(&hits, &within.documents(files, conn, query.reach)?),
    };
    found.retain(|(_, candidate)| filter.takes(candidate));
    found.reverse();
    if query.wanted.is_any() {
        found.sort_by_key(|(hit, _)| Reverse(hit.count));
    }
    let with_met = |(hit, candidate): (Hit, Candidate)| Candidate {
        met: hit.met,
        whole: hit.whole,
        ..candidate
    };
    Ok(found.into_iter().map(with_met).collect())
}

/// Those hits that are among these documents; both in the order of their numbers.
fn merged(hits: &[Hit], documents: &[Candidate]) -> Vec<(Hit, Candidate)> {
    let mut found = Vec::with_capacity(hits.len().min(documents.len()));
    let mut rest = documents.iter().peekable();
    for hit in hits {
        while rest.next_if(|d| d.document < hit.document).is_some() {}
        if let Some(candidate) = rest.next_if(|d| d.document == hit.document) {
            found.push((*hit, *candidate));
        }
    }
    found
}
