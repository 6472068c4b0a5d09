//! Which documents of a shard may meet what is asked: by postings, and by the grams of those that wait.
//!
//! Every statement here names the shard first, and so reads nothing of another.

use filrouge_store::text_index::{CandidateQuery, DocumentNo, grams};
use filrouge_types::Failure;
use rusqlite::Connection;

use super::postings;
use super::rows::{all, base, one};
use crate::error::failure;

/// Of a literal so many grams are looked up…
const LOOKED_UP: usize = 24;
/// …and the rarest of them are read.
const READ: usize = 8;
/// To look through one document more costs as much as reading so many bytes of postings.
const WORTH: usize = 8 << 10;

/// A document that may meet terms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) document: DocumentNo,
    /// A bit for each of the first 64 terms.
    pub(super) met: u64,
    /// How many terms.
    pub(super) count: u32,
}

/// What is asked, with the grams of its literals.
pub(super) struct Asked {
    terms: Vec<Vec<Vec<u64>>>,
    any: bool,
}

impl Asked {
    pub(super) fn of(query: &CandidateQuery<'_>) -> Self {
        let term = |term: &Vec<String>| term.iter().map(|literal| grams(literal)).collect();
        Self {
            terms: query.terms.iter().map(term).collect(),
            any: query.any,
        }
    }

    /// Whether everything that passes the rest is a candidate.
    pub(super) fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The documents of a shard, in their order.
    pub(super) fn hits(&self, conn: &Connection, shard: i64) -> Result<Vec<Hit>, Failure> {
        let mut hits = self.posted(conn, shard)?;
        let sql = "SELECT document, grams FROM pending WHERE shard = ?1 ORDER BY document";
        let mut statement = conn.prepare_cached(sql).map_err(failure)?;
        let mut rows = statement.query([shard]).map_err(failure)?;
        let (mut held, mut sorted) = (Vec::new(), true);
        while let Some(row) = rows.next().map_err(failure)? {
            let list = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
            held.clear();
            postings::read(0, list.map_err(failure)?, &mut held)?;
            let document: i64 = row.get(0).map_err(failure)?;
            if let Some(hit) = self.weigh(document.cast_unsigned(), &held) {
                sorted &= hits.last().is_none_or(|last| last.document < hit.document);
                hits.push(hit);
            }
        }
        if !sorted {
            hits.sort_unstable_by_key(|hit| hit.document);
        }
        Ok(hits)
    }

    /// What a document with these grams may meet, if that is enough.
    fn weigh(&self, document: DocumentNo, held: &[u64]) -> Option<Hit> {
        let mut hit = Hit {
            document,
            met: 0,
            count: 0,
        };
        let holds =
            |literal: &Vec<u64>| literal.iter().all(|gram| held.binary_search(gram).is_ok());
        for (at, term) in self.terms.iter().enumerate() {
            if term.iter().any(holds) {
                hit.met |= bit(at);
                hit.count += 1;
            } else if !self.any {
                return None;
            }
        }
        (hit.count > 0).then_some(hit)
    }

    fn posted(&self, conn: &Connection, shard: i64) -> Result<Vec<Hit>, Failure> {
        let sql = "SELECT DISTINCT level FROM segment WHERE shard = ?1";
        let levels = all(conn, sql, [shard], |row| row.get(0))?;
        if levels.is_empty() {
            return Ok(Vec::new());
        }
        let postings = Postings {
            conn,
            base: base(conn)?,
            shard,
            levels,
        };
        match self.any {
            true => self.some_met(&postings),
            false => self.all_met(&postings),
        }
    }

    fn all_met(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut kept: Option<Vec<DocumentNo>> = None;
        for term in &self.terms {
            // What has no grams narrows nothing.
            let Some(found) = postings.term(term)? else {
                continue;
            };
            match &mut kept {
                Some(kept) => postings::intersect(kept, &found),
                none => *none = Some(found),
            }
            if kept.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        let kept = match kept {
            Some(kept) => kept,
            None => postings.documents()?,
        };
        let met = (0..self.terms.len()).fold(0, |met, at| met | bit(at));
        let count = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
        let hit = |document| Hit {
            document,
            met,
            count,
        };
        Ok(kept.into_iter().map(hit).collect())
    }

    fn some_met(&self, postings: &Postings<'_>) -> Result<Vec<Hit>, Failure> {
        let mut hits: Vec<Hit> = Vec::new();
        for (at, term) in self.terms.iter().enumerate() {
            let found = match postings.term(term)? {
                Some(found) => found,
                None => postings.documents()?,
            };
            hits = joined(&hits, &found, bit(at));
        }
        Ok(hits)
    }
}

/// What has met other terms before, and what meets this one.
fn joined(hits: &[Hit], found: &[DocumentNo], bit: u64) -> Vec<Hit> {
    let mut both = Vec::with_capacity(hits.len() + found.len());
    let mut before = hits.iter().peekable();
    for document in found {
        while let Some(hit) = before.next_if(|hit| hit.document < *document) {
            both.push(*hit);
        }
        let known = before.next_if(|hit| hit.document == *document);
        both.push(Hit {
            document: *document,
            met: known.map_or(0, |hit| hit.met) | bit,
            count: known.map_or(0, |hit| hit.count) + 1,
        });
    }
    both.extend(before);
    both
}

fn bit(at: usize) -> u64 {
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    1_u64.checked_shl(at).unwrap_or(0)
}

/// The postings of a shard.
struct Postings<'a> {
    conn: &'a Connection,
    base: u64,
    shard: i64,
    levels: Vec<i64>,
}

impl Postings<'_> {
    /// The documents that may hold one of these literals; `None` when that cannot be told.
    fn term(&self, literals: &[Vec<u64>]) -> Result<Option<Vec<DocumentNo>>, Failure> {
        let mut found = Vec::new();
        for literal in literals {
            if literal.is_empty() {
                return Ok(None);
            }
            found.extend(self.literal(literal)?);
        }
        postings::settle(&mut found);
        Ok(Some(found))
    }

    /// The documents that hold all of these grams, or some more.
    fn literal(&self, grams: &[u64]) -> Result<Vec<DocumentNo>, Failure> {
        let mut sizes = Vec::new();
        let stride = grams.len().div_ceil(LOOKED_UP).max(1);
        for gram in grams.iter().step_by(stride) {
            let size = self.size(*gram)?;
            if size == 0 {
                return Ok(Vec::new());
            }
            sizes.push((size, *gram));
        }
        sizes.sort_unstable();
        let mut kept: Option<Vec<DocumentNo>> = None;
        let mut list = Vec::new();
        for (size, gram) in sizes.into_iter().take(READ) {
            let Some(kept) = &mut kept else {
                kept = Some(self.read(gram)?);
                continue;
            };
            if size / WORTH >= kept.len() {
                break;
            }
            list.clear();
            self.read_into(gram, &mut list)?;
            postings::intersect(kept, &list);
        }
        Ok(kept.unwrap_or_default())
    }

    /// Bytes of a gram's postings.
    fn size(&self, gram: u64) -> Result<usize, Failure> {
        let sql =
            "SELECT sum(length(documents)) FROM gram WHERE shard = ?1 AND level = ?2 AND gram = ?3";
        let mut sum = 0;
        for level in &self.levels {
            let key = [self.shard, *level, gram.cast_signed()];
            let size = one(self.conn, sql, key, |row| row.get::<_, Option<i64>>(0))?;
            sum += usize::try_from(size.flatten().unwrap_or(0)).unwrap_or(0);
        }
        Ok(sum)
    }

    fn read(&self, gram: u64) -> Result<Vec<DocumentNo>, Failure> {
        let mut documents = Vec::new();
        self.read_into(gram, &mut documents)?;
        Ok(documents)
    }

    fn read_into(&self, gram: u64, documents: &mut Vec<DocumentNo>) -> Result<(), Failure> {
        let sql = "SELECT documents FROM gram WHERE shard = ?1 AND level = ?2 AND gram = ?3";
        let mut statement = self.conn.prepare_cached(sql).map_err(failure)?;
        for level in &self.levels {
            let key = [self.shard, *level, gram.cast_signed()];
            let mut rows = statement.query(key).map_err(failure)?;
            while let Some(row) = rows.next().map_err(failure)? {
                let list = row.get_ref(0).and_then(|v| Ok(v.as_blob()?));
                postings::read(self.base, list.map_err(failure)?, documents)?;
            }
        }
        postings::settle(documents);
        Ok(())
    }

    /// All documents of the shard that do not wait.
    fn documents(&self) -> Result<Vec<DocumentNo>, Failure> {
        let sql = "SELECT id FROM document d WHERE shard = ?1
            AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.shard = ?1 AND p.document = d.id) ORDER BY id";
        let id = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(i64::cast_unsigned);
        all(self.conn, sql, [self.shard], id)
    }
}
