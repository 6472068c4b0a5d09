//! What is remembered of an index between questions: where its documents belong.
//!
//! Remembered by reach, with the counts that tell whether it is still so. All of it can be read again.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::sync::Arc;

use filrouge_store::text_index::{Candidate, DocumentNo, IndexedSession, Reach, SessionNo};
use filrouge_types::Failure;
use rusqlite::{Connection, Row};

use super::files::{Files, lock};
use super::rows::{all, of_shard, one, shard_of};

/// So many documents are remembered at most: 32 bytes each.
const DOCUMENTS_MAX: usize = 2 << 20;
/// So many reaches.
const REACHES_MAX: usize = 16;
/// So many ranges of documents that have vectors.
const RANGES_MAX: usize = 64;

/// The documents within a reach in their order, without what they meet.
pub(super) type Documents = Arc<Vec<Candidate>>;

/// What is remembered.
#[derive(Default)]
pub(super) struct Listed {
    documents: Vec<(Reach, Counts, Documents)>,
    filled: Vec<(i64, u32, Filled)>,
}

impl Listed {
    /// What is known of an embedder and these kinds.
    pub(super) fn filled(&self, embedder: i64, kinds: u32) -> Filled {
        let mut known = self.filled.iter();
        let known = known.find(|(of, which, _)| (*of, *which) == (embedder, kinds));
        known
            .map(|(_, _, filled)| filled.clone())
            .unwrap_or_default()
    }

    /// Remembers that no document among these is without a vector.
    pub(super) fn fill(&mut self, embedder: i64, kinds: u32, documents: RangeInclusive<u64>) {
        let mut filled = self.filled(embedder, kinds);
        filled.add(documents);
        self.filled
            .retain(|(of, which, _)| (*of, *which) != (embedder, kinds));
        if self.filled.len() >= REACHES_MAX {
            self.filled.remove(0);
        }
        self.filled.push((embedder, kinds, filled));
    }
}

/// Ranges of numbers, the greatest first, in which no document is without a vector. That stays so: no number is given
/// twice, and vectors go with their documents, or all at once with their embedder's number.
#[derive(Clone, Default)]
pub(super) struct Filled(Vec<RangeInclusive<DocumentNo>>);

impl Filled {
    /// What lies between the ranges, up to `newest`, the greatest first.
    pub(super) fn gaps(&self, newest: DocumentNo) -> Vec<RangeInclusive<DocumentNo>> {
        let mut gaps = Vec::new();
        let mut last = Some(newest);
        for range in &self.0 {
            gaps.extend(last.map(|last| range.end().saturating_add(1)..=last));
            last = range.start().checked_sub(1);
        }
        gaps.extend(last.map(|last| 0..=last));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Adds a range that goes up to the newest number.
    fn add(&mut self, range: RangeInclusive<DocumentNo>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = range.into_inner();
        self.0.retain(|known| {
            let apart = *known.end() < start.saturating_sub(1) || *known.start() > end + 1;
            if !apart {
                (start, end) = (start.min(*known.start()), end.max(*known.end()));
            }
            apart
        });
        self.0.push(start..=end);
        self.0.sort_unstable_by_key(|known| Reverse(*known.end()));
        self.0.truncate(RANGES_MAX);
    }
}

/// A reach as an index has it.
pub(super) struct Within {
    pub(super) shards: Vec<i64>,
    counts: Counts,
}

/// What tells whether a reach has other documents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// The least number of a shard: after the index was emptied, shards have others.
    shard: i64,
    removals: i64,
    newest: i64,
}

impl Within {
    pub(super) fn find(conn: &Connection, reach: &Reach) -> Result<Self, Failure> {
        let mut within = Self {
            shards: Vec::new(),
            counts: Counts {
                shard: i64::MAX,
                removals: 0,
                newest: 0,
            },
        };
        let mut add = |row: &Row<'_>| {
            let shard = row.get(0)?;
            within.shards.push(shard);
            within.counts.shard = within.counts.shard.min(shard);
            within.counts.removals += row.get::<_, i64>(1)?;
            within.counts.newest = within.counts.newest.max(row.get(2)?);
            Ok(())
        };
        match reach {
            Reach::Shard(shard) => {
                if let Some(id) = shard_of(conn, shard)? {
                    let sql = "SELECT id, removals, newest FROM shard WHERE id = ?1";
                    one(conn, sql, [id], &mut add)?;
                }
            }
            Reach::Realm(realm) => {
                let sql = "SELECT id, removals, newest FROM shard WHERE realm = ?1";
                all(conn, sql, [realm], add)?;
            }
        }
        Ok(within)
    }

    /// All documents within it.
    pub(super) fn documents(
        &self,
        files: &Files,
        conn: &Connection,
        reach: &Reach,
    ) -> Result<Documents, Failure> {
        let known = {
            let listed = lock(&files.listed);
            let known = listed.documents.iter().find(|(of, _, _)| of == reach);
            known.map(|(_, counts, documents)| (*counts, documents.clone()))
        };
        let mut documents = match known {
            Some((counts, documents)) if counts == self.counts => return Ok(documents),
            // Others came, none went.
            Some((counts, documents))
                if (counts.shard, counts.removals) == (self.counts.shard, self.counts.removals)
                    && counts.newest < self.counts.newest =>
            {
                documents.to_vec()
            }
            _ => Vec::new(),
        };
        let after = documents.last().map_or(0, |d| d.document.cast_signed());
        let sql = "SELECT id, session, kind, created FROM document WHERE shard = ?1 AND id > ?2 ORDER BY id";
        for shard in &self.shards {
            documents.extend(all(conn, sql, [*shard, after], candidate)?);
        }
        if !documents.is_sorted_by_key(|d| d.document) {
            documents.sort_unstable_by_key(|d| d.document);
        }
        let documents = Arc::new(documents);
        let mut listed = lock(&files.listed);
        listed.documents.retain(|(of, _, _)| of != reach);
        listed
            .documents
            .push((reach.clone(), self.counts, documents.clone()));
        let mut sum: usize = listed.documents.iter().map(|(_, _, d)| d.len()).sum();
        while sum > DOCUMENTS_MAX || listed.documents.len() > REACHES_MAX {
            sum -= listed.documents.remove(0).2.len();
        }
        Ok(documents)
    }

    /// All sessions within it, in the order of their numbers.
    pub(super) fn sessions(&self, conn: &Connection) -> Result<Vec<IndexedSession>, Failure> {
        let mut sessions = Vec::new();
        for shard in &self.shards {
            sessions.extend(of_shard(conn, *shard)?);
        }
        sessions.sort_unstable_by_key(|s| s.no);
        Ok(sessions)
    }

    /// The documents of a few sessions, in their order.
    pub(super) fn of_sessions(
        &self,
        conn: &Connection,
        sessions: &[SessionNo],
    ) -> Result<Vec<Candidate>, Failure> {
        let mut documents = Vec::new();
        let sql =
            "SELECT id, session, kind, created FROM document WHERE shard = ?1 AND session = ?2";
        for session in sessions {
            let shards = match self.shards.as_slice() {
                [shard] => Some(*shard),
                _ => {
                    let sql = "SELECT shard FROM session WHERE id = ?1";
                    one(conn, sql, [session.cast_signed()], |row| row.get(0))?
                        .filter(|shard| self.shards.contains(shard))
                }
            };
            if let Some(shard) = shards {
                documents.extend(all(conn, sql, [shard, session.cast_signed()], candidate)?);
            }
        }
        documents.sort_unstable_by_key(|d| d.document);
        documents.dedup_by_key(|d| d.document);
        Ok(documents)
    }
}

/// A document that is known to be within reach, if it is still there.
pub(super) fn document(conn: &Connection, no: DocumentNo) -> Result<Option<Candidate>, Failure> {
    let sql = "SELECT id, session, kind, created FROM document WHERE id = ?1";
    one(conn, sql, [no.cast_signed()], candidate)
}

pub(super) fn candidate(row: &Row<'_>) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        document: row.get::<_, i64>(0)?.cast_unsigned(),
        session: row.get::<_, i64>(1)?.cast_unsigned(),
        kind: row.get(2)?,
        created: row.get(3)?,
        met: 0,
        whole: false,
        near: 0,
    })
}
