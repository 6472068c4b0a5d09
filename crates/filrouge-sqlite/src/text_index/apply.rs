//! Changes: what goes and what comes.

use std::collections::HashMap;

use filrouge_store::text_index::{
    DocumentNo, Gone, IndexUpdate, IndexedSession, NewDocument, SessionUpdate, Shard, grams,
};
use filrouge_types::{ErrorCode, Failure};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::builder::Builder;
use super::postings;
use crate::error::failure;

/// What comes at once for one shard and is more than this goes into postings at once.
pub(super) const BULK_DOCUMENTS: usize = 64;
pub(super) const BULK_TEXT: usize = 256 << 10;
/// Postings are written when their texts reach this.
const CHUNK_TEXT: usize = 16 << 20;
/// More than this does not wait, even if nobody tidies up.
const PENDING_DOCUMENTS: i64 = 256;
const PENDING_TEXT: i64 = 1 << 20;
const ZSTD_LEVEL: i32 = 1;

pub(super) fn run(conn: &Connection, sql: &str, values: impl Params) -> Result<usize, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.execute(values).map_err(failure)
}

pub(super) fn all<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let rows = statement.query_map(values, each).map_err(failure)?;
    rows.collect::<Result<_, _>>().map_err(failure)
}

pub(super) fn one<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    of: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, Failure> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    statement.query_row(values, of).optional().map_err(failure)
}

/// A change that is being made.
pub(super) struct Change<'a> {
    conn: &'a Connection,
    given: Given,
    shards: HashMap<Shard, i64>,
    counts: HashMap<i64, Counts>,
    bulk: HashMap<i64, Builder>,
    embedders: Vec<i64>,
    packer: zstd::bulk::Compressor<'static>,
}

/// The greatest numbers that were given.
struct Given {
    shard: i64,
    session: i64,
    document: i64,
    segment: i64,
}

/// What is counted of a shard.
#[derive(Default)]
struct Counts {
    sessions: i64,
    documents: i64,
    text: i64,
    pending: i64,
    pending_text: i64,
    newest: i64,
    removals: i64,
    touched: i64,
}

/// A document that goes.
struct Going {
    no: i64,
    size: i64,
}

const COUNTS: &str =
    "SELECT sessions, documents, text, pending, pending_text, newest, removals, touched
    FROM shard WHERE id = ?1";
const SET_COUNTS: &str =
    "UPDATE shard SET sessions = ?2, documents = ?3, text = ?4, pending = ?5, pending_text = ?6,
    newest = ?7, removals = ?8, touched = ?9 WHERE id = ?1";

impl<'a> Change<'a> {
    pub(super) fn begin(conn: &'a Connection) -> Result<Self, Failure> {
        let sql = "SELECT last_shard, last_session, last_document, last_segment FROM state";
        let given = one(conn, sql, [], |row| {
            Ok(Given {
                shard: row.get(0)?,
                session: row.get(1)?,
                document: row.get(2)?,
                segment: row.get(3)?,
            })
        })?;
        Ok(Self {
            conn,
            given: given.ok_or_else(|| crate::error::malformed("state"))?,
            shards: HashMap::new(),
            counts: HashMap::new(),
            bulk: HashMap::new(),
            embedders: all(conn, "SELECT id FROM embedder", [], |row| row.get(0))?,
            packer: zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(packing)?,
        })
    }

    /// Makes these changes.
    pub(super) fn take(&mut self, updates: &[IndexUpdate]) -> Result<(), Failure> {
        let mut sizes: HashMap<&Shard, (usize, usize)> = HashMap::new();
        for update in updates {
            if let IndexUpdate::Session(update) = update {
                let (count, text) = sizes.entry(&update.shard).or_default();
                *count += update.documents.len();
                *text += update
                    .documents
                    .iter()
                    .map(|d| d.folded.len())
                    .sum::<usize>();
            }
        }
        for (shard, (count, text)) in sizes {
            if count > BULK_DOCUMENTS || text > BULK_TEXT {
                let shard = self.shard(shard)?;
                self.bulk.entry(shard).or_default();
            }
        }
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.session(update)?,
                IndexUpdate::Gone(realm, key) => self.session_gone(realm, key)?,
            }
        }
        Ok(())
    }

    fn shard(&mut self, shard: &Shard) -> Result<i64, Failure> {
        if let Some(id) = self.shards.get(shard) {
            return Ok(*id);
        }
        let id = match shard_of(self.conn, shard)? {
            Some(id) => id,
            None => {
                self.given.shard += 1;
                let sql = "INSERT INTO shard (id, realm, owner) VALUES (?1, ?2, ?3)";
                run(
                    self.conn,
                    sql,
                    params![self.given.shard, shard.realm, shard.owner],
                )?;
                self.given.shard
            }
        };
        self.shards.insert(shard.clone(), id);
        Ok(id)
    }

    fn counts(&mut self, shard: i64) -> Result<&mut Counts, Failure> {
        if !self.counts.contains_key(&shard) {
            let counts = one(self.conn, COUNTS, [shard], |row| {
                Ok(Counts {
                    sessions: row.get(0)?,
                    documents: row.get(1)?,
                    text: row.get(2)?,
                    pending: row.get(3)?,
                    pending_text: row.get(4)?,
                    newest: row.get(5)?,
                    removals: row.get(6)?,
                    touched: row.get(7)?,
                })
            })?;
            self.counts.insert(shard, counts.unwrap_or_default());
        }
        let counts = self.counts.entry(shard).or_default();
        counts.touched += 1;
        Ok(counts)
    }

    fn session(&mut self, update: &SessionUpdate) -> Result<(), Failure> {
        let shard = self.shard(&update.shard)?;
        let known = session_of(self.conn, &update.shard.realm, &update.entry.key)?;
        let moved = known.is_some_and(|(_, was)| was != shard);
        let (session, was) = match known {
            Some(known) => known,
            None => {
                self.given.session += 1;
                (self.given.session, shard)
            }
        };
        if known.is_none() {
            self.counts(shard)?.sessions += 1;
        } else if moved {
            self.counts(was)?.sessions -= 1;
            self.counts(shard)?.sessions += 1;
            self.remove_all(was, session)?;
        } else {
            self.remove(shard, session, &update.gone)?;
        }
        self.counts(shard)?;
        let entry = &update.entry;
        let sql = "INSERT INTO session (id, shard, realm, key, stamp_a, stamp_b, updated, project)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET shard = ?2, stamp_a = ?5,
            stamp_b = ?6, updated = ?7, project = ?8";
        let [a, b] = entry.stamp.map(u64::cast_signed);
        let realm = &update.shard.realm;
        run(
            self.conn,
            sql,
            params![
                session,
                shard,
                realm,
                entry.key,
                a,
                b,
                entry.updated,
                entry.project
            ],
        )?;
        for document in &update.documents {
            self.put(shard, session, document)?;
        }
        Ok(())
    }

    fn session_gone(&mut self, realm: &[u8], key: &str) -> Result<(), Failure> {
        let Some((session, shard)) = session_of(self.conn, realm, key)? else {
            return Ok(());
        };
        self.remove_all(shard, session)?;
        self.counts(shard)?.sessions -= 1;
        run(self.conn, "DELETE FROM session WHERE id = ?1", [session])?;
        Ok(())
    }

    fn remove(&mut self, shard: i64, session: i64, gone: &Gone) -> Result<(), Failure> {
        match gone {
            Gone::All => return self.remove_all(shard, session).map(|_| ()),
            Gone::Keys(keys) => {
                for key in keys {
                    self.remove_key(shard, session, key)?;
                }
            }
            Gone::Units(units) if units.is_empty() => {}
            Gone::Units(units) => {
                let sql = "SELECT id, size, unit FROM document WHERE shard = ?1 AND session = ?2";
                let of = |row: &Row<'_>| Ok((going(row)?, row.get::<_, i64>(2)?.cast_unsigned()));
                for (document, unit) in all(self.conn, sql, [shard, session], of)? {
                    if units.contains(&unit) {
                        self.remove_document(shard, session, &document)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// How many there were.
    pub(super) fn remove_all(&mut self, shard: i64, session: i64) -> Result<u64, Failure> {
        let sql = "SELECT id, size FROM document WHERE shard = ?1 AND session = ?2";
        let documents = all(self.conn, sql, [shard, session], going)?;
        for document in &documents {
            self.remove_document(shard, session, document)?;
        }
        Ok(documents.len() as u64)
    }

    fn remove_key(&mut self, shard: i64, session: i64, key: &str) -> Result<(), Failure> {
        let sql = "SELECT id, size FROM document WHERE shard = ?1 AND session = ?2 AND key = ?3";
        match one(self.conn, sql, params![shard, session, key], going)? {
            Some(document) => self.remove_document(shard, session, &document),
            None => Ok(()),
        }
    }

    fn remove_document(
        &mut self,
        shard: i64,
        session: i64,
        document: &Going,
    ) -> Result<(), Failure> {
        let Going { no, size } = *document;
        let sql = "DELETE FROM pending WHERE shard = ?1 AND document = ?2";
        let pending = i64::from(run(self.conn, sql, [shard, no])? > 0);
        let counts = self.counts(shard)?;
        counts.documents -= 1;
        counts.text -= size;
        counts.pending -= pending;
        counts.pending_text -= pending * size;
        counts.removals += 1;
        let removal = counts.removals;
        if pending == 0 {
            let sql =
                "INSERT INTO gone (shard, document, session, removal) VALUES (?1, ?2, ?3, ?4)";
            run(self.conn, sql, [shard, no, session, removal])?;
        }
        run(self.conn, "DELETE FROM document WHERE id = ?1", [no])?;
        run(self.conn, "DELETE FROM body WHERE document = ?1", [no])?;
        for embedder in &self.embedders {
            let sql = "DELETE FROM vector WHERE embedder = ?1 AND shard = ?2 AND document = ?3";
            if run(self.conn, sql, [*embedder, shard, no])? > 0 {
                let sql = "UPDATE embedder SET documents = documents - 1 WHERE id = ?1";
                run(self.conn, sql, [*embedder])?;
            }
        }
        Ok(())
    }

    fn put(&mut self, shard: i64, session: i64, new: &NewDocument) -> Result<(), Failure> {
        self.remove_key(shard, session, &new.key)?;
        self.given.document += 1;
        let no = self.given.document;
        let size = i64::try_from(new.folded.len()).unwrap_or(i64::MAX);
        let sql =
            "INSERT INTO document (id, shard, session, key, unit, kind, created, digest, size)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let (unit, digest) = (new.unit.cast_signed(), new.digest.cast_signed());
        run(
            self.conn,
            sql,
            params![
                no,
                shard,
                session,
                new.key,
                unit,
                new.kind,
                new.created,
                digest,
                size
            ],
        )?;
        let packed = pack(&mut self.packer, &new.body)?;
        run(
            self.conn,
            "INSERT INTO body (document, packed) VALUES (?1, ?2)",
            params![no, packed],
        )?;
        let counts = self.counts(shard)?;
        counts.documents += 1;
        counts.text += size;
        counts.newest = no;
        if let Some(builder) = self.bulk.get_mut(&shard) {
            builder.add(no.cast_unsigned(), &new.folded);
            if builder.text() >= CHUNK_TEXT {
                let full = std::mem::take(builder);
                self.segment(shard, full)?;
            }
            return Ok(());
        }
        counts_pending(self.counts(shard)?, size);
        let mut list = Vec::new();
        postings::encode(grams(&new.folded), &mut list);
        let sql = "INSERT INTO pending (shard, document, size, grams) VALUES (?1, ?2, ?3, ?4)";
        run(self.conn, sql, params![shard, no, size, list])?;
        Ok(())
    }

    /// Puts the documents of a shard that wait into postings.
    pub(super) fn flush(&mut self, shard: i64) -> Result<(), Failure> {
        let mut builder = Builder::default();
        {
            let sql =
                "SELECT document, size, grams FROM pending WHERE shard = ?1 ORDER BY document";
            let mut statement = self.conn.prepare_cached(sql).map_err(failure)?;
            let mut rows = statement.query([shard]).map_err(failure)?;
            let mut held = Vec::new();
            while let Some(row) = rows.next().map_err(failure)? {
                let no: i64 = row.get(0).map_err(failure)?;
                let size: i64 = row.get(1).map_err(failure)?;
                let list = row.get_ref(2).and_then(|v| Ok(v.as_blob()?));
                held.clear();
                postings::read(list.map_err(failure)?, &mut held)?;
                builder.add_grams(
                    no.cast_unsigned(),
                    &held,
                    usize::try_from(size).unwrap_or(0),
                );
            }
        }
        run(self.conn, "DELETE FROM pending WHERE shard = ?1", [shard])?;
        let counts = self.counts(shard)?;
        (counts.pending, counts.pending_text) = (0, 0);
        self.segment(shard, builder)
    }

    fn segment(&mut self, shard: i64, builder: Builder) -> Result<(), Failure> {
        let Some((first, last)) = builder.range() else {
            return Ok(());
        };
        self.given.segment += 1;
        let segment = self.given.segment;
        let level = level_of(builder.text());
        let count = i64::try_from(builder.len()).unwrap_or(i64::MAX);
        let sql = "INSERT INTO segment (id, shard, level, first, last, documents)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let [first, last] = [first, last].map(DocumentNo::cast_signed);
        run(self.conn, sql, [segment, shard, level, first, last, count])?;
        let sql =
            "INSERT INTO gram (shard, level, gram, segment, documents) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut statement = self.conn.prepare_cached(sql).map_err(failure)?;
        let mut list = Vec::new();
        builder.finish(|gram, documents| {
            list.clear();
            postings::encode(documents, &mut list);
            let row = params![shard, level, gram.cast_signed(), segment, list];
            statement.execute(row).map(|_| ()).map_err(failure)
        })
    }

    /// Writes what is left to write.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        for (shard, builder) in std::mem::take(&mut self.bulk) {
            self.segment(shard, builder)?;
        }
        let full = |c: &Counts| c.pending > PENDING_DOCUMENTS || c.pending_text > PENDING_TEXT;
        let waiting: Vec<i64> = self
            .counts
            .iter()
            .filter(|(_, c)| full(c))
            .map(|(s, _)| *s)
            .collect();
        for shard in waiting {
            self.flush(shard)?;
        }
        for (shard, c) in &self.counts {
            let row = [
                *shard,
                c.sessions,
                c.documents,
                c.text,
                c.pending,
                c.pending_text,
                c.newest,
                c.removals,
                c.touched,
            ];
            run(self.conn, SET_COUNTS, row)?;
        }
        let Given {
            shard,
            session,
            document,
            segment,
        } = self.given;
        let sql = "UPDATE state SET last_shard = ?1, last_session = ?2, last_document = ?3, last_segment = ?4";
        run(self.conn, sql, [shard, session, document, segment]).map(|_| ())
    }
}

fn counts_pending(counts: &mut Counts, size: i64) {
    counts.pending += 1;
    counts.pending_text += size;
}

fn going(row: &Row<'_>) -> rusqlite::Result<Going> {
    Ok(Going {
        no: row.get(0)?,
        size: row.get(1)?,
    })
}

/// How large the text of a segment is: 0 below 2 MiB, one more with each eightfold.
fn level_of(text: usize) -> i64 {
    let eighths = (text >> 21).checked_ilog2().map_or(0, |log| log / 3 + 1);
    i64::from(eighths)
}

fn packing(error: std::io::Error) -> Failure {
    Failure::new(ErrorCode::Internal, format!("zstd: {error}"))
}

/// A body as it is stored: 0 and the body, or 1 and a zstd frame of it where that is shorter.
fn pack(packer: &mut zstd::bulk::Compressor<'_>, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let frame = packer.compress(body).map_err(packing)?;
    let (how, bytes) = match frame.len() < body.len() {
        true => (1, frame.as_slice()),
        false => (0, body),
    };
    let mut packed = Vec::with_capacity(bytes.len() + 1);
    packed.push(how);
    packed.extend_from_slice(bytes);
    Ok(packed)
}

/// A shard's number.
pub(super) fn shard_of(conn: &Connection, shard: &Shard) -> Result<Option<i64>, Failure> {
    let sql = "SELECT id FROM shard WHERE realm = ?1 AND owner = ?2";
    one(conn, sql, params![shard.realm, shard.owner], |row| {
        row.get(0)
    })
}

/// A session's number and its shard's.
pub(super) fn session_of(
    conn: &Connection,
    realm: &[u8],
    key: &str,
) -> Result<Option<(i64, i64)>, Failure> {
    let sql = "SELECT id, shard FROM session WHERE realm = ?1 AND key = ?2";
    one(conn, sql, params![realm, key], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// What [`indexed`] reads.
pub(super) const SESSION: &str =
    "SELECT s.id, h.realm, h.owner, s.key, s.stamp_a, s.stamp_b, s.updated, s.project
    FROM session s JOIN shard h ON h.id = s.shard";

pub(super) fn indexed(row: &Row<'_>) -> rusqlite::Result<IndexedSession> {
    let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
    Ok(IndexedSession {
        no: row.get::<_, i64>(0)?.cast_unsigned(),
        shard: Shard {
            realm: blob(1)?,
            owner: blob(2)?,
        },
        entry: filrouge_store::text_index::SessionEntry {
            key: row.get::<_, String>(3)?.into(),
            stamp: [
                row.get::<_, i64>(4)?.cast_unsigned(),
                row.get::<_, i64>(5)?.cast_unsigned(),
            ],
            updated: row.get(6)?,
            project: row.get::<_, Option<String>>(7)?.map(Into::into),
        },
    })
}
