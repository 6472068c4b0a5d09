//! The words of segments, remembered between questions: whoever looks for a piece of a word goes through all of them.
//!
//! A segment is remembered from the second question on; one that is being merged is not. Its words change but when
//! something is forgotten, which the index counts.

use std::sync::Arc;

use filrouge_types::Failure;
use memchr::{memchr_iter, memmem};
use rusqlite::Connection;

use super::files::{CACHE_KIB, Files, keep, lock};
use super::rows::one;
use super::segments::Segment;
use super::spellings::each_with;
use crate::error::{failure, malformed};

/// So many bytes of words are remembered at most.
const BYTES_MAX: usize = 32 << 20;
/// So many segments are known to have been asked.
const ASKED_MAX: usize = 256;

/// So much of the file is kept while words are gone through.
const PASSING_KIB: i64 = 1024;

/// A segment, and how often something was forgotten.
type Key = (i64, i64);

/// What is remembered.
#[derive(Default)]
pub(super) struct Vocabularies {
    asked: Vec<Key>,
    kept: Vec<(Key, Arc<Vocabulary>)>,
}

impl Vocabularies {
    fn known(&self, key: Key) -> Option<Arc<Vocabulary>> {
        let mut kept = self.kept.iter();
        kept.find(|(of, _)| *of == key).map(|(_, own)| own.clone())
    }

    /// Whether it was asked before; it is from now on.
    fn again(&mut self, key: Key) -> bool {
        if self.asked.contains(&key) {
            return true;
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.remove(0);
        }
        self.asked.push(key);
        false
    }

    fn keep(&mut self, key: Key, own: Arc<Vocabulary>) {
        // Of a segment that was forgotten something of, nothing older is of use.
        self.kept.retain(|(of, _)| of.0 != key.0);
        self.kept.push((key, own));
        let mut sum: usize = self.kept.iter().map(|(_, own)| own.words.len()).sum();
        while sum > BYTES_MAX && !self.kept.is_empty() {
            sum -= self.kept.remove(0).1.words.len();
        }
    }
}

/// The words of a segment.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// All blocks, one after the other.
    words: Vec<u8>,
    /// Where each begins, and its number.
    blocks: Vec<(usize, i64)>,
}

impl Vocabulary {
    /// Those of a segment, if they are to be remembered.
    pub(super) fn of(
        files: &Files,
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
            let mut known = lock(&files.vocabularies);
            if let Some(known) = known.known(key) {
                return Ok(Some(known));
            }
            if !known.again(key) {
                return Ok(None);
            }
        }
        let read = Arc::new(Self::read(conn, segment)?);
        lock(&files.vocabularies).keep(key, read.clone());
        Ok(Some(read))
    }

    fn read(conn: &Connection, of: &Segment) -> Result<Self, Failure> {
        let mut read = Self::default();
        each_block(conn, of, &mut |block, words| {
            read.blocks.push((read.words.len(), block));
            read.words.extend_from_slice(words);
        })?;
        Ok(read)
    }

    /// Shows `each` the words in which something stands, with the number of their block and their place in it.
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
            // As many line ends as words stand before it, and one.
            let before = self.words.get(block.0..start).unwrap_or_default();
            let at = memchr_iter(b'\n', before).count().saturating_sub(1);
            each(block.1, at, word);
        });
    }
}

/// Shows `each` the blocks of a segment with their numbers. They are gone through once: what is read of them is not kept,
/// and takes the same memory again and again.
pub(super) fn each_block(
    conn: &Connection,
    of: &Segment,
    each: &mut dyn FnMut(i64, &[u8]),
) -> Result<(), Failure> {
    keep(conn, PASSING_KIB)?;
    let shown = show_blocks(conn, of, each);
    keep(conn, CACHE_KIB)?;
    shown
}

fn show_blocks(
    conn: &Connection,
    of: &Segment,
    each: &mut dyn FnMut(i64, &[u8]),
) -> Result<(), Failure> {
    let sql = "SELECT first, words FROM spelling WHERE shard = ?1 AND segment = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([of.shard, of.id]).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let words = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
        each(row.get(0).map_err(failure)?, words.map_err(failure)?);
    }
    Ok(())
}
