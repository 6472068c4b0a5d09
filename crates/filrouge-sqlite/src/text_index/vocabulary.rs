//! Caches the words of segments between queries, because a search for a part of a word scans all words.
//!
//! A segment is cached from the second query on, unless a merge uses it. Apart from merges, a segment's words change
//! only when documents are removed without a trace (`forget.rs`). The index counts these removals.

use std::sync::Arc;

use filrouge_types::{Failure, lock};
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::connections::{CACHE_KIB, set_cache_size};
use super::files::IndexFile;
use super::rows::query_optional;
use super::segments::Segment;
use super::spellings::each_match;
use crate::error::{failure, malformed};

/// The maximum size of the cached words.
const BYTES_MAX: usize = 32 << 20;
/// The maximum number of segments that are remembered as having been queried.
const QUERIED_MAX: usize = 256;

/// The size of the page cache while a scan reads words, in KiB.
const SCAN_KIB: i64 = 1024;

/// A segment's id, and the number of removals in the index so far (`state.forgotten`).
type SegmentKey = (i64, i64);

/// The cache.
#[derive(Default)]
pub(super) struct Vocabularies {
    /// Segments that were queried at least once, oldest first.
    queried: Vec<SegmentKey>,
    /// The cached segments, oldest first.
    cached: Vec<(SegmentKey, Arc<Vocabulary>)>,
}

impl Vocabularies {
    fn get(&self, key: SegmentKey) -> Option<Arc<Vocabulary>> {
        let mut cached = self.cached.iter();
        let entry = cached.find(|(cached_key, _)| *cached_key == key);
        entry.map(|(_, vocabulary)| vocabulary.clone())
    }

    /// Whether the segment was queried before; records this query.
    fn was_queried(&mut self, key: SegmentKey) -> bool {
        if self.queried.contains(&key) {
            return true;
        }
        if self.queried.len() >= QUERIED_MAX {
            self.queried.remove(0);
        }
        self.queried.push(key);
        false
    }

    fn insert(&mut self, key: SegmentKey, vocabulary: Arc<Vocabulary>) {
        // An entry of the same segment under another count of removals is outdated.
        self.cached.retain(|(cached_key, _)| cached_key.0 != key.0);
        self.cached.push((key, vocabulary));
        let mut total: usize = self.cached.iter().map(|(_, v)| v.words.len()).sum();
        while total > BYTES_MAX && !self.cached.is_empty() {
            total -= self.cached.remove(0).1.words.len();
        }
    }
}

/// The words of a segment.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// All blocks, concatenated.
    words: Vec<u8>,
    /// For each block, its offset in `words` and its key within the segment (the column `first`).
    blocks: Vec<(usize, i64)>,
}

impl Vocabulary {
    /// The words of a segment from the cache; the second query reads them into it. `None` for the first query and while
    /// a merge uses the segment: the caller then reads the segment's blocks.
    pub(super) fn cached(
        file: &IndexFile,
        conn: &Connection,
        segment: &Segment,
    ) -> Result<Option<Arc<Self>>, Failure> {
        if !segment.is_settled {
            return Ok(None);
        }
        let sql = "SELECT forgotten FROM state";
        let forgotten = query_optional(conn, sql, [], |row| row.get(0))?;
        let key = (segment.id, forgotten.ok_or_else(|| malformed("state"))?);
        {
            let mut cache = lock(&file.vocabularies);
            if let Some(vocabulary) = cache.get(key) {
                return Ok(Some(vocabulary));
            }
            if !cache.was_queried(key) {
                return Ok(None);
            }
        }
        let vocabulary = Arc::new(Self::read(conn, segment)?);
        lock(&file.vocabularies).insert(key, vocabulary.clone());
        Ok(Some(vocabulary))
    }

    fn read(conn: &Connection, segment: &Segment) -> Result<Self, Failure> {
        let mut vocabulary = Self::default();
        each_block(conn, segment, &mut |block, words| {
            vocabulary.blocks.push((vocabulary.words.len(), block));
            vocabulary.words.extend_from_slice(words);
        })?;
        Ok(vocabulary)
    }

    /// Calls `each` for each word in which `finder` matches, with the key of the word's block, the word's index within
    /// the block, and the word.
    pub(super) fn each_match(
        &self,
        finder: &memmem::Finder<'_>,
        each: &mut impl FnMut(i64, usize, &str),
    ) {
        let mut blocks = self.blocks.iter().copied().peekable();
        let mut block = (0, 0);
        each_match(&self.words, finder, &mut |start, word| {
            while let Some(next) = blocks.next_if(|(begin, _)| *begin <= start) {
                block = next;
            }
            // A block begins with a line end, and each word ends with one. So there is one line end more than words
            // before a word.
            let before = self.words.get(block.0..start).unwrap_or_default();
            let index = memchr_iter(b'\n', before).count().saturating_sub(1);
            each(block.1, index, word);
        });
    }
}

/// Calls `each` with the key and the words of each block of a segment. Each block is read only once, so a small page
/// cache is used in the meantime.
pub(super) fn each_block(
    conn: &Connection,
    segment: &Segment,
    each: &mut dyn FnMut(i64, &[u8]),
) -> Result<(), Failure> {
    set_cache_size(conn, SCAN_KIB)?;
    let result = read_blocks(conn, segment, each);
    set_cache_size(conn, CACHE_KIB)?;
    result
}

fn read_blocks(
    conn: &Connection,
    segment: &Segment,
    each: &mut dyn FnMut(i64, &[u8]),
) -> Result<(), Failure> {
    let sql = "SELECT first, words FROM spelling WHERE shard = ?1 AND segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement
        .query([segment.shard, segment.id])
        .map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        each(row.get(0).map_err(failure)?, words.map_err(failure)?);
    }
    Ok(())
}
