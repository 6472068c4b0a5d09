//! Caches the words of segments between queries, because a search for a part of a word scans all words.
//!
//! A segment is cached from the second query on, unless a merge uses it. Apart from merges, a segment's words change
//! only when documents are removed without a trace (`forget.rs`). The index counts these removals.

use std::sync::Arc;

use filrouge_types::Failure;
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::files::{CACHE_KIB, IndexFile, lock, set_cache_size};
use super::rows::one;
use super::segments::Segment;
use super::spellings::each_with;
use crate::error::{failure, malformed};

/// The maximum size of the cached words.
const BYTES_MAX: usize = 32 << 20;
/// The maximum number of segments that are remembered as having been queried.
const QUERIED_MAX: usize = 256;

/// The size of the page cache while a scan reads words, in KiB.
const SCAN_KIB: i64 = 1024;

/// A segment's id, and the number of removals in the index so far (`state.forgotten`).
type Key = (i64, i64);

/// The cache.
#[derive(Default)]
pub(super) struct Vocabularies {
    /// Segments that were queried at least once, oldest first.
    queried: Vec<Key>,
    /// The cached segments, oldest first.
    kept: Vec<(Key, Arc<Vocabulary>)>,
}

impl Vocabularies {
    fn get(&self, key: Key) -> Option<Arc<Vocabulary>> {
        let mut kept = self.kept.iter();
        let entry = kept.find(|(cached, _)| *cached == key);
        entry.map(|(_, vocabulary)| vocabulary.clone())
    }

    /// Whether the segment was queried before; records this query.
    fn was_queried(&mut self, key: Key) -> bool {
        if self.queried.contains(&key) {
            return true;
        }
        if self.queried.len() >= QUERIED_MAX {
            self.queried.remove(0);
        }
        self.queried.push(key);
        false
    }

    fn insert(&mut self, key: Key, vocabulary: Arc<Vocabulary>) {
        // An entry of the same segment under another count of removals is outdated.
        self.kept.retain(|(cached, _)| cached.0 != key.0);
        self.kept.push((key, vocabulary));
        let mut sum: usize = self.kept.iter().map(|(_, v)| v.words.len()).sum();
        while sum > BYTES_MAX && !self.kept.is_empty() {
            sum -= self.kept.remove(0).1.words.len();
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
    pub(super) fn of(
        files: &IndexFile,
        conn: &Connection,
        segment: &Segment,
    ) -> Result<Option<Arc<Self>>, Failure> {
        if !segment.settled {
            return Ok(None);
        }
        let sql = "SELECT forgotten FROM state";
        let forgotten = one(conn, sql, [], |row| row.get(0))?;
        let key = (segment.id, forgotten.ok_or_else(|| malformed("state"))?);
        {
            let mut cache = lock(&files.vocabularies);
            if let Some(vocabulary) = cache.get(key) {
                return Ok(Some(vocabulary));
            }
            if !cache.was_queried(key) {
                return Ok(None);
            }
        }
        let read = Arc::new(Self::read(conn, segment)?);
        lock(&files.vocabularies).insert(key, read.clone());
        Ok(Some(read))
    }

    fn read(conn: &Connection, segment: &Segment) -> Result<Self, Failure> {
        let mut read = Self::default();
        each_block(conn, segment, &mut |block, words| {
            read.blocks.push((read.words.len(), block));
            read.words.extend_from_slice(words);
        })?;
        Ok(read)
    }

    /// Calls `each` for each word in which `finder` matches, with the key of the word's block, the word's index within
    /// the block, and the word.
    pub(super) fn each_with(
        &self,
        finder: &memmem::Finder<'_>,
        each: &mut impl FnMut(i64, usize, &str),
    ) {
        let mut blocks = self.blocks.iter().copied().peekable();
        let mut block = (0, 0);
        each_with(&self.words, finder, &mut |start, word| {
            while let Some(next) = blocks.next_if(|(begin, _)| *begin <= start) {
                block = next;
            }
            // The number of line ends before a word is the number of words before it in its block, plus one.
            let before = self.words.get(block.0..start).unwrap_or_default();
            let at = memchr_iter(b'\n', before).count().saturating_sub(1);
            each(block.1, at, word);
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
