//! Caches, from one query to the next, which documents an index has, and which of them have vectors.
//!
//! Documents are cached for each scope, with counts that show whether they are still valid. A shard holds the documents
//! of one owner; a realm is a tenant, or the histories of other programs.

use std::cmp::Reverse;
use std::ops::RangeInclusive;
use std::sync::Arc;

use filrouge_store::text_index::{Candidate, DocumentNo, IndexScope, IndexedSession, SessionNo};
use filrouge_types::{Result, lock};
use rusqlite::{Connection, Row};

use super::files::IndexFile;
use super::rows::{query_all, query_optional, sessions_of_shard, shard_of};

/// The maximum number of cached documents: 32 bytes each.
const DOCUMENTS_MAX: usize = 2 << 20;
/// The maximum number of entries of each list.
const ENTRIES_MAX: usize = 16;
/// The maximum number of cached ranges for one embedder and set of kinds.
const RANGES_MAX: usize = 64;

/// The documents of a scope, in ascending order of their numbers. Their fields about a match (`met`, `whole_words`,
/// `near`) are not set.
pub(super) type Documents = Arc<Vec<Candidate>>;

/// The cache of one index file.
#[derive(Default)]
pub(super) struct DocumentCache {
    /// The documents of recently queried scopes, the oldest entry first.
    documents: Vec<(IndexScope, ScopeCounts, Documents)>,
    /// Ranges by the number of an embedder and the bits of the requested kinds, the oldest entry first.
    vector_ranges: Vec<(i64, u32, VectorRanges)>,
}

impl DocumentCache {
    /// The cached ranges for an embedder and these kinds of documents.
    pub(super) fn vector_ranges(&self, embedder: i64, kinds: u32) -> VectorRanges {
        let mut ranges = self.vector_ranges.iter();
        let ranges = ranges.find(|(cached_embedder, cached_kinds, _)| {
            (*cached_embedder, *cached_kinds) == (embedder, kinds)
        });
        ranges
            .map(|(_, _, ranges)| ranges.clone())
            .unwrap_or_default()
    }

    /// Records that all documents of these kinds with a number in `documents` have a vector.
    pub(super) fn add_vector_range(
        &mut self,
        embedder: i64,
        kinds: u32,
        documents: RangeInclusive<u64>,
    ) {
        let mut ranges = self.vector_ranges(embedder, kinds);
        ranges.add(documents);
        self.vector_ranges
            .retain(|(cached_embedder, cached_kinds, _)| {
                (*cached_embedder, *cached_kinds) != (embedder, kinds)
            });
        if self.vector_ranges.len() >= ENTRIES_MAX {
            self.vector_ranges.remove(0);
        }
        self.vector_ranges.push((embedder, kinds, ranges));
    }
}

/// Ranges of document numbers, highest first, in which every document has a vector. A range stays valid: numbers are
/// not reused, and a vector is deleted only with its document, or with its embedder, whose number is not reused either.
#[derive(Clone, Default)]
pub(super) struct VectorRanges(Vec<RangeInclusive<DocumentNo>>);

impl VectorRanges {
    /// The ranges of numbers up to `newest` that are not covered, highest first.
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

    /// Adds a range, and merges it with those that it overlaps or touches.
    fn add(&mut self, added: RangeInclusive<DocumentNo>) {
        if added.is_empty() {
            return;
        }
        let (mut start, mut end) = added.into_inner();
        self.0.retain(|range| {
            let is_apart = *range.end() < start.saturating_sub(1) || *range.start() > end + 1;
            if !is_apart {
                (start, end) = (start.min(*range.start()), end.max(*range.end()));
            }
            is_apart
        });
        self.0.push(start..=end);
        self.0.sort_unstable_by_key(|range| Reverse(*range.end()));
        self.0.truncate(RANGES_MAX);
    }
}

/// A scope, resolved to the numbers of its shards in the index.
pub(super) struct ResolvedScope {
    pub(super) shards: Vec<i64>,
    counts: ScopeCounts,
}

/// Counts that change whenever the documents of a scope change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ScopeCounts {
    /// The lowest number of a shard. It changes when the index is emptied, because shards then get new numbers.
    shard: i64,
    /// The number of documents removed so far.
    removals: i64,
    /// The number of the newest document.
    newest: i64,
}

impl ResolvedScope {
    pub(super) fn resolve(conn: &Connection, scope: &IndexScope) -> Result<Self> {
        let mut resolved = Self {
            shards: Vec::new(),
            counts: ScopeCounts {
                shard: i64::MAX,
                removals: 0,
                newest: 0,
            },
        };
        let mut add = |row: &Row<'_>| {
            let shard = row.get(0)?;
            resolved.shards.push(shard);
            resolved.counts.shard = resolved.counts.shard.min(shard);
            resolved.counts.removals += row.get::<_, i64>(1)?;
            resolved.counts.newest = resolved.counts.newest.max(row.get(2)?);
            Ok(())
        };
        match scope {
            IndexScope::Shard(shard) => {
                if let Some(id) = shard_of(conn, shard)? {
                    let sql = "SELECT id, removals, newest FROM shard WHERE id = ?1";
                    query_optional(conn, sql, [id], &mut add)?;
                }
            }
            IndexScope::Realm(realm) => {
                let sql = "SELECT id, removals, newest FROM shard WHERE realm = ?1";
                query_all(conn, sql, [realm], add)?;
            }
        }
        Ok(resolved)
    }

    /// All documents of the scope.
    pub(super) fn documents(
        &self,
        file: &IndexFile,
        conn: &Connection,
        scope: &IndexScope,
    ) -> Result<Documents> {
        let cached = {
            let cache = lock(&file.document_cache);
            let entry = cache
                .documents
                .iter()
                .find(|(cached_scope, _, _)| cached_scope == scope);
            entry.map(|(_, counts, documents)| (*counts, documents.clone()))
        };
        let mut documents = match cached {
            Some((counts, documents)) if counts == self.counts => return Ok(documents),
            // Documents were only added, so only the new ones are read.
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
            documents.extend(query_all(conn, sql, [*shard, after], read_candidate)?);
        }
        if !documents.is_sorted_by_key(|d| d.document) {
            documents.sort_unstable_by_key(|d| d.document);
        }
        let documents = Arc::new(documents);
        let mut cache = lock(&file.document_cache);
        cache
            .documents
            .retain(|(cached_scope, _, _)| cached_scope != scope);
        cache
            .documents
            .push((scope.clone(), self.counts, documents.clone()));
        let mut total: usize = cache.documents.iter().map(|(_, _, d)| d.len()).sum();
        while total > DOCUMENTS_MAX || cache.documents.len() > ENTRIES_MAX {
            total -= cache.documents.remove(0).2.len();
        }
        Ok(documents)
    }

    /// All sessions of the scope, in the order of their numbers.
    pub(super) fn sessions(&self, conn: &Connection) -> Result<Vec<IndexedSession>> {
        let mut sessions = Vec::new();
        for shard in &self.shards {
            sessions.extend(sessions_of_shard(conn, *shard)?);
        }
        sessions.sort_unstable_by_key(|s| s.no);
        Ok(sessions)
    }

    /// The documents of these sessions that belong to the scope, in ascending order; for a small number of sessions.
    pub(super) fn documents_of_sessions(
        &self,
        conn: &Connection,
        sessions: &[SessionNo],
    ) -> Result<Vec<Candidate>> {
        let mut documents = Vec::new();
        let sql =
            "SELECT id, session, kind, created FROM document WHERE shard = ?1 AND session = ?2";
        for session in sessions {
            let shards = match self.shards.as_slice() {
                [shard] => Some(*shard),
                _ => {
                    let sql = "SELECT shard FROM session WHERE id = ?1";
                    query_optional(conn, sql, [session.cast_signed()], |row| row.get(0))?
                        .filter(|shard| self.shards.contains(shard))
                }
            };
            if let Some(shard) = shards {
                documents.extend(query_all(
                    conn,
                    sql,
                    [shard, session.cast_signed()],
                    read_candidate,
                )?);
            }
        }
        documents.sort_unstable_by_key(|d| d.document);
        documents.dedup_by_key(|d| d.document);
        Ok(documents)
    }
}

/// A document, if it still exists.
pub(super) fn read_document(conn: &Connection, no: DocumentNo) -> Result<Option<Candidate>> {
    let sql = "SELECT id, session, kind, created FROM document WHERE id = ?1";
    query_optional(conn, sql, [no.cast_signed()], read_candidate)
}

/// Decodes the columns id, session, kind, created.
pub(super) fn read_candidate(row: &Row<'_>) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        document: row.get::<_, i64>(0)?.cast_unsigned(),
        session: row.get::<_, i64>(1)?.cast_unsigned(),
        kind: row.get(2)?,
        created: row.get(3)?,
        met: 0,
        whole_words: false,
        near: 0,
    })
}
