//! Finds the documents that may contain a literal, which is a text that a query searches for: by the postings of the
//! words that contain the literal's parts, and by its junctions.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::Result;
use rusqlite::Connection;

use super::files::IndexFile;
use super::junctions;
use super::lexicon::{self, WordPosition};
use super::postings;
use super::rows::query_all;
use super::segments::Segment;
use super::words::{WordPart, each_word, parts};

/// If more words than this contain a part, their postings are not read unless other parts or junctions have already
/// narrowed the documents: reading them takes as long as scanning all documents.
const WORDS_MAX: usize = 1 << 14;
/// Once at most this many documents remain, no more postings are read: scanning the documents is faster.
const FEW_DOCUMENTS: usize = 32;

/// A literal, with the parts that occur in the words of any text that contains it.
pub(super) struct Literal {
    parts: Vec<WordPart>,
    /// The parts and junctions as they appear in lists of words.
    pub(super) patterns: Vec<Vec<u8>>,
    /// The words that the literal consists of.
    pub(super) words: Vec<WordPart>,
    /// The literal's junctions.
    junctions: Vec<WordPart>,
}

impl Literal {
    pub(super) fn new(literal: &str) -> Self {
        let (parts, mut words) = (parts(literal), Vec::new());
        each_word(literal, &mut |word| words.push(WordPart::whole(word)));
        let junctions = junctions::literal_junctions(literal);
        let all_parts = parts.iter().chain(&junctions);
        Self {
            words,
            patterns: all_parts.map(WordPart::pattern).collect(),
            parts,
            junctions,
        }
    }
}

/// The postings of a shard.
pub(super) struct Postings<'a> {
    pub(super) file: &'a IndexFile,
    pub(super) conn: &'a Connection,
    pub(super) shard: i64,
    pub(super) segments: Vec<Segment>,
}

impl Postings<'_> {
    /// Finds the documents that may contain at least one of these literals, the alternatives of one term; `None` when
    /// the postings do not narrow the documents.
    pub(super) fn documents_of_term(
        &self,
        literals: &[Literal],
    ) -> Result<Option<Vec<DocumentNo>>> {
        let mut documents = Vec::new();
        for literal in literals {
            match self.documents_of_literal(literal)? {
                Some(of_literal) => documents.extend(of_literal),
                None => return Ok(None),
            }
        }
        postings::sort_and_dedup(&mut documents);
        Ok(Some(documents))
    }

    /// Finds a superset of the documents that contain a literal: those with its junctions, and with words that contain
    /// its parts. Parts whose postings take too long to read are ignored. `None` when the postings do not narrow the
    /// documents.
    fn documents_of_literal(&self, literal: &Literal) -> Result<Option<Vec<DocumentNo>>> {
        let junctions: Vec<&WordPart> = literal.junctions.iter().collect();
        let mut documents = match junctions.is_empty() {
            true => None,
            false => Some(self.documents_with_all(&junctions)?),
        };
        if documents
            .as_ref()
            .is_some_and(|documents| documents.len() <= FEW_DOCUMENTS)
        {
            return Ok(documents);
        }
        let mut words = self.word_positions(literal)?;
        words.sort_unstable_by_key(Vec::len);
        let mut list = Vec::new();
        for words in &words {
            match &mut documents {
                None if words.len() > WORDS_MAX => break,
                None => {
                    let mut first_documents = Vec::new();
                    self.read(words, &mut first_documents)?;
                    documents = Some(first_documents);
                }
                // Reading these words' postings takes longer than scanning the remaining documents.
                Some(documents)
                    if documents.len() <= FEW_DOCUMENTS || words.len() / 4 > documents.len() =>
                {
                    break;
                }
                Some(documents) => {
                    list.clear();
                    self.read(words, &mut list)?;
                    postings::intersect(documents, &list);
                }
            }
        }
        Ok(documents)
    }

    /// For each part, the positions of the words that contain it.
    fn word_positions(&self, literal: &Literal) -> Result<Vec<Vec<WordPosition>>> {
        let (full_words, fragments): (Vec<&WordPart>, _) =
            literal.parts.iter().partition(|p| p.is_word());
        let mut words = Vec::with_capacity(literal.parts.len());
        for part in full_words {
            words.push(lexicon::positions_of_word(self.conn, &self.segments, part)?);
        }
        if !fragments.is_empty() {
            words.extend(lexicon::words_containing(
                self.file,
                self.conn,
                &self.segments,
                &fragments,
            )?);
        }
        Ok(words)
    }

    /// Appends the documents of these words to `documents`, then sorts `documents` and removes duplicates.
    fn read(&self, words: &[WordPosition], documents: &mut Vec<DocumentNo>) -> Result<()> {
        lexicon::read_documents(self.conn, &self.segments, words, documents)
    }

    /// Finds the documents that contain all of these words.
    pub(super) fn documents_with_all(&self, words: &[&WordPart]) -> Result<Vec<DocumentNo>> {
        let (mut documents, mut list) = (Vec::new(), Vec::new());
        for (index, word) in words.iter().enumerate() {
            list.clear();
            let positions = lexicon::positions_of_word(self.conn, &self.segments, word)?;
            self.read(&positions, &mut list)?;
            match index {
                0 => std::mem::swap(&mut documents, &mut list),
                _ => postings::intersect(&mut documents, &list),
            }
            if documents.is_empty() {
                break;
            }
        }
        Ok(documents)
    }

    /// Reads all documents of the shard that are not pending.
    pub(super) fn documents(&self) -> Result<Vec<DocumentNo>> {
        let sql = "SELECT id FROM document d WHERE shard = ?1
            AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.shard = ?1 AND p.document = d.id) ORDER BY id";
        let id = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(i64::cast_unsigned);
        query_all(self.conn, sql, [self.shard], id)
    }
}
