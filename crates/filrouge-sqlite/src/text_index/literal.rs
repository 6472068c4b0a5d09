//! Which documents hold a literal, by the postings of the words that it is part of.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::Connection;

use super::postings;
use super::rows::all;
use super::spellings;
use super::words::{WordPart, each_word, number, parts};
use crate::error::failure;

/// What more words have tells too little: to read all their postings takes as long as to look through documents.
const WORDS_MAX: usize = 4_096;
/// So many documents are looked through as fast as another part is read.
const FEW: usize = 32;

/// A literal, with what stands in words of whatever holds it.
pub(super) struct Literal {
    parts: Vec<WordPart>,
    /// The parts as they stand in lists of words.
    pub(super) listed: Vec<Vec<u8>>,
    /// The numbers of the words it is made of.
    pub(super) whole: Vec<u64>,
}

impl Literal {
    pub(super) fn of(literal: &str) -> Self {
        let (parts, mut whole) = (parts(literal), Vec::new());
        each_word(literal, &mut |word| whole.push(number(word)));
        Self {
            whole,
            listed: parts.iter().map(WordPart::listed).collect(),
            parts,
        }
    }
}

/// The postings of a shard.
pub(super) struct Postings<'a> {
    pub(super) conn: &'a Connection,
    pub(super) base: u64,
    pub(super) shard: i64,
    pub(super) levels: Vec<i64>,
}

impl Postings<'_> {
    /// The documents that may hold one of these literals; `None` when that cannot be told.
    pub(super) fn term(&self, literals: &[Literal]) -> Result<Option<Vec<DocumentNo>>, Failure> {
        let mut found = Vec::new();
        for literal in literals {
            match self.literal(literal)? {
                Some(documents) => found.extend(documents),
                None => return Ok(None),
            }
        }
        postings::settle(&mut found);
        Ok(Some(found))
    }

    /// The documents that have words with all parts of a literal, or some more; `None` when that cannot be told.
    fn literal(&self, literal: &Literal) -> Result<Option<Vec<DocumentNo>>, Failure> {
        let mut words = self.words(literal)?;
        words.sort_unstable_by_key(Vec::len);
        let mut kept: Option<Vec<DocumentNo>> = None;
        let mut list = Vec::new();
        for words in &words {
            match &mut kept {
                None if words.len() > WORDS_MAX => break,
                None => {
                    let mut first = Vec::new();
                    self.read(words, &mut first)?;
                    kept = Some(first);
                }
                // To read what the words have takes longer than to look through what is left.
                Some(kept) if kept.len() <= FEW || words.len() > kept.len() => break,
                Some(kept) => {
                    list.clear();
                    self.read(words, &mut list)?;
                    postings::intersect(kept, &list);
                }
            }
        }
        Ok(kept)
    }

    /// Of each part the numbers of the words that have it.
    fn words(&self, literal: &Literal) -> Result<Vec<Vec<u64>>, Failure> {
        let (whole, within): (Vec<&WordPart>, _) = literal.parts.iter().partition(|p| p.is_word());
        let mut words: Vec<Vec<u64>> = whole.iter().map(|p| vec![number(&p.text)]).collect();
        if !within.is_empty() {
            words.extend(spellings::with(
                self.conn,
                self.shard,
                &self.levels,
                &within,
            )?);
        }
        Ok(words)
    }

    /// Puts the documents of these words into `documents`, in order.
    fn read(&self, words: &[u64], documents: &mut Vec<DocumentNo>) -> Result<(), Failure> {
        let sql = "SELECT documents FROM posting WHERE shard = ?1 AND level = ?2 AND word = ?3";
        let mut statement = self.conn.prepare_cached(sql).map_err(failure)?;
        for level in &self.levels {
            for word in words {
                let key = [self.shard, *level, word.cast_signed()];
                let mut rows = statement.query(key).map_err(failure)?;
                while let Some(row) = rows.next().map_err(failure)? {
                    let list = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
                    postings::read(self.base, list.map_err(failure)?, documents)?;
                }
            }
        }
        postings::settle(documents);
        Ok(())
    }

    /// The documents that have all of these words.
    pub(super) fn all_of(&self, words: &[u64]) -> Result<Vec<DocumentNo>, Failure> {
        let (mut kept, mut list) = (Vec::new(), Vec::new());
        for (at, word) in words.iter().enumerate() {
            list.clear();
            self.read(&[*word], &mut list)?;
            match at {
                0 => std::mem::swap(&mut kept, &mut list),
                _ => postings::intersect(&mut kept, &list),
            }
            if kept.is_empty() {
                break;
            }
        }
        Ok(kept)
    }

    /// All documents of the shard that do not wait.
    pub(super) fn documents(&self) -> Result<Vec<DocumentNo>, Failure> {
        let sql = "SELECT id FROM document d WHERE shard = ?1
            AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.shard = ?1 AND p.document = d.id) ORDER BY id";
        let id = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(i64::cast_unsigned);
        all(self.conn, sql, [self.shard], id)
    }
}
