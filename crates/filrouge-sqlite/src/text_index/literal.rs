//! Which documents hold a literal, by the postings of the words that it is part of, and by its junctions.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::Connection;

use super::files::Files;
use super::junctions;
use super::lexicon::{self, Place};
use super::postings;
use super::rows::all;
use super::segments::Segment;
use super::words::{WordPart, each_word, parts};

/// What more words have tells too little: to read all their postings takes as long as to look through documents.
const WORDS_MAX: usize = 1 << 14;
/// So many documents are looked through as fast as another part is read.
const FEW: usize = 32;

/// A literal, with what stands in words of whatever holds it.
pub(super) struct Literal {
    parts: Vec<WordPart>,
    /// The parts and junctions as they stand in lists of words.
    pub(super) listed: Vec<Vec<u8>>,
    /// The words it is made of.
    pub(super) whole: Vec<WordPart>,
    /// Where two of its words stand side by side.
    junctions: Vec<WordPart>,
}

impl Literal {
    pub(super) fn of(literal: &str) -> Self {
        let (parts, mut whole) = (parts(literal), Vec::new());
        each_word(literal, &mut |word| whole.push(WordPart::whole(word)));
        let junctions = junctions::of_literal(literal);
        let all = parts.iter().chain(&junctions);
        Self {
            whole,
            listed: all.map(WordPart::listed).collect(),
            parts,
            junctions,
        }
    }
}

/// The postings of a shard.
pub(super) struct Postings<'a> {
    pub(super) files: &'a Files,
    pub(super) conn: &'a Connection,
    pub(super) shard: i64,
    pub(super) segments: Vec<Segment>,
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

    /// The documents that have words with all parts of a literal and all its junctions, or some more; `None` when that
    /// cannot be told.
    fn literal(&self, literal: &Literal) -> Result<Option<Vec<DocumentNo>>, Failure> {
        let junctions: Vec<&WordPart> = literal.junctions.iter().collect();
        let mut kept = match junctions.is_empty() {
            true => None,
            false => Some(self.all_of(&junctions)?),
        };
        if kept.as_ref().is_some_and(|kept| kept.len() <= FEW) {
            return Ok(kept);
        }
        let mut words = self.words(literal)?;
        words.sort_unstable_by_key(Vec::len);
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
                Some(kept) if kept.len() <= FEW || words.len() / 4 > kept.len() => break,
                Some(kept) => {
                    list.clear();
                    self.read(words, &mut list)?;
                    postings::intersect(kept, &list);
                }
            }
        }
        Ok(kept)
    }

    /// Of each part the places of the words that have it.
    fn words(&self, literal: &Literal) -> Result<Vec<Vec<Place>>, Failure> {
        let (whole, within): (Vec<&WordPart>, _) = literal.parts.iter().partition(|p| p.is_word());
        let mut words = Vec::with_capacity(literal.parts.len());
        for part in whole {
            words.push(lexicon::of_word(self.conn, &self.segments, part)?);
        }
        if !within.is_empty() {
            words.extend(lexicon::with(
                self.files,
                self.conn,
                &self.segments,
                &within,
            )?);
        }
        Ok(words)
    }

    /// Puts the documents of these words into `documents`, in order.
    fn read(&self, words: &[Place], documents: &mut Vec<DocumentNo>) -> Result<(), Failure> {
        lexicon::read(self.conn, &self.segments, words, documents)
    }

    /// The documents that have all of these words.
    pub(super) fn all_of(&self, words: &[&WordPart]) -> Result<Vec<DocumentNo>, Failure> {
        let (mut kept, mut list) = (Vec::new(), Vec::new());
        for (at, word) in words.iter().enumerate() {
            list.clear();
            let places = lexicon::of_word(self.conn, &self.segments, word)?;
            self.read(&places, &mut list)?;
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
