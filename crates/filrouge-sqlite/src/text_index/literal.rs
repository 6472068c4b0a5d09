//! Finds the documents that may contain a literal, which is a text that a query searches for: by the postings of the
//! words that contain the literal's parts, and by its junctions.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Failure;
use rusqlite::Connection;

use super::files::IndexFile;
use super::junctions;
use super::lexicon::{self, WordPosition};
use super::postings;
use super::rows::all;
use super::segments::Segment;
use super::words::{WordPart, each_word, parts};

/// If more words than this contain a part, their postings are not read unless other parts or junctions have already
/// narrowed the documents: reading them takes as long as scanning all documents.
const WORDS_MAX: usize = 1 << 14;
/// Once at most this many documents remain, no more postings are read: scanning the documents is faster.
const FEW: usize = 32;

/// A literal, with the parts that occur in the words of any text that contains it.
pub(super) struct Literal {
    parts: Vec<WordPart>,
    /// The parts and junctions as they appear in lists of words.
    pub(super) listed: Vec<Vec<u8>>,
    /// The words that the literal consists of.
    pub(super) words: Vec<WordPart>,
    /// The literal's junctions.
    junctions: Vec<WordPart>,
}

impl Literal {
    pub(super) fn of(literal: &str) -> Self {
        let (parts, mut words) = (parts(literal), Vec::new());
        each_word(literal, &mut |word| words.push(WordPart::whole(word)));
        let junctions = junctions::of_literal(literal);
        let all = parts.iter().chain(&junctions);
        Self {
            words,
            listed: all.map(WordPart::listed).collect(),
            parts,
            junctions,
        }
    }
}

/// The postings of a shard.
pub(super) struct Postings<'a> {
    pub(super) files: &'a IndexFile,
    pub(super) conn: &'a Connection,
    pub(super) shard: i64,
    pub(super) segments: Vec<Segment>,
}

impl Postings<'_> {
    /// The documents that may contain at least one of these literals, the alternatives of one term; `None` when the
    /// postings do not narrow the documents.
    pub(super) fn term(&self, literals: &[Literal]) -> Result<Option<Vec<DocumentNo>>, Failure> {
        let mut found = Vec::new();
        for literal in literals {
            match self.literal(literal)? {
                Some(documents) => found.extend(documents),
                None => return Ok(None),
            }
        }
        postings::sort_and_dedup(&mut found);
        Ok(Some(found))
    }

    /// A superset of the documents that contain a literal: those with its junctions, and with words that contain its
    /// parts. Parts whose postings take too long to read are ignored. `None` when the postings do not narrow the
    /// documents.
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
                // Reading these words' postings takes longer than scanning the remaining documents.
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

    /// For each part, the positions of the words that contain it.
    fn words(&self, literal: &Literal) -> Result<Vec<Vec<WordPosition>>, Failure> {
        let (full_words, fragments): (Vec<&WordPart>, _) =
            literal.parts.iter().partition(|p| p.is_word());
        let mut words = Vec::with_capacity(literal.parts.len());
        for part in full_words {
            words.push(lexicon::of_word(self.conn, &self.segments, part)?);
        }
        if !fragments.is_empty() {
            words.extend(lexicon::words_containing(
                self.files,
                self.conn,
                &self.segments,
                &fragments,
            )?);
        }
        Ok(words)
    }

    /// Appends the documents of these words to `documents`, then sorts `documents` and removes duplicates.
    fn read(&self, words: &[WordPosition], documents: &mut Vec<DocumentNo>) -> Result<(), Failure> {
        lexicon::read(self.conn, &self.segments, words, documents)
    }

    /// The documents that contain all of these words.
    pub(super) fn all_of(&self, words: &[&WordPart]) -> Result<Vec<DocumentNo>, Failure> {
        let (mut kept, mut list) = (Vec::new(), Vec::new());
        for (at, word) in words.iter().enumerate() {
            list.clear();
            let positions = lexicon::of_word(self.conn, &self.segments, word)?;
            self.read(&positions, &mut list)?;
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

    /// All documents of the shard that are not pending.
    pub(super) fn documents(&self) -> Result<Vec<DocumentNo>, Failure> {
        let sql = "SELECT id FROM document d WHERE shard = ?1
            AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.shard = ?1 AND p.document = d.id) ORDER BY id";
        let id = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(i64::cast_unsigned);
        all(self.conn, sql, [self.shard], id)
    }
}
