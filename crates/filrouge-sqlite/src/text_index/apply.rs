//! [`IndexChange`]: adds, moves and removes sessions and their documents in one transaction.

use std::collections::HashMap;

use filrouge_store::text_index::{
    Coverage, IndexKey, IndexUpdate, Member, Members, NewDocument, SealedRow, SessionUpdate, Shard,
};
use filrouge_types::Failure;
use rusqlite::{Connection, params};

use super::bodies::BodyCompressor;
use super::builder::Builder;
use super::counts::Counts;
use super::rows::{StoredSession, execute, query_number, session_of, shard_of};
use super::{seals, vectors};

/// If a change adds more than this number of documents to one shard, or more than [`BULK_TEXT`] bytes of text, it
/// writes their postings directly. Otherwise the documents are pending at first: a search scans them one by one.
const BULK_DOCUMENTS: usize = 64;
/// See [`BULK_DOCUMENTS`].
const BULK_TEXT: usize = 256 << 10;

/// A change in progress.
pub(super) struct IndexChange<'a> {
    pub(super) conn: &'a Connection,
    /// The key of the seals, if there is one.
    pub(super) key: Option<&'a IndexKey>,
    /// The numbers of the shards that the change has used.
    shards: HashMap<Shard, i64>,
    /// The counts of the shards that the change has used; [`IndexChange::finish`] writes them.
    counts: HashMap<i64, Counts>,
    /// The number of documents, and the bytes of their texts, that this change adds to each shard.
    added_sizes: HashMap<i64, (usize, usize)>,
    /// The builders of the postings of those shards to which this change adds much (see [`BULK_DOCUMENTS`]).
    pub(super) bulk_builders: HashMap<i64, Builder>,
    /// The numbers of all embedders in the index.
    pub(super) embedders: Vec<i64>,
    pub(super) compressor: BodyCompressor,
}

impl<'a> IndexChange<'a> {
    pub(super) fn begin(conn: &'a Connection, key: Option<&'a IndexKey>) -> Result<Self, Failure> {
        Ok(Self {
            conn,
            key,
            shards: HashMap::new(),
            counts: HashMap::new(),
            added_sizes: HashMap::new(),
            bulk_builders: HashMap::new(),
            embedders: vectors::embedders(conn)?,
            compressor: BodyCompressor::default(),
        })
    }

    /// Applies updates.
    pub(super) fn apply(&mut self, updates: &[IndexUpdate]) -> Result<(), Failure> {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update_session(update)?,
                IndexUpdate::Removed((realm, key)) => self.remove_session(realm, key)?,
                IndexUpdate::Vectors(embedder, new_vectors) => {
                    vectors::put(self.conn, embedder, new_vectors)?;
                    self.embedders = vectors::embedders(self.conn)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of a shard. Creates the shard if it does not exist.
    fn shard(&mut self, shard: &Shard) -> Result<i64, Failure> {
        if let Some(id) = self.shards.get(shard) {
            return Ok(*id);
        }
        let id = match shard_of(self.conn, shard)? {
            Some(id) => id,
            None => {
                let sql = "INSERT INTO shard (realm, owner) VALUES (?1, ?2) RETURNING id";
                query_number(self.conn, sql, params![shard.realm, shard.owner])?
            }
        };
        self.shards.insert(shard.clone(), id);
        Ok(id)
    }

    /// Returns the counts of a shard, for the caller to change.
    pub(super) fn counts(&mut self, shard: i64) -> Result<&mut Counts, Failure> {
        if !self.counts.contains_key(&shard) {
            let counts = Counts::read(self.conn, self.key, shard)?;
            self.counts.insert(shard, counts);
        }
        Ok(self.counts.entry(shard).or_default())
    }

    /// Applies the update of a session: removes its outdated documents and adds those that are missing. Documents of a
    /// session with a wrong seal are not kept: an update of a part of it makes the index forget it.
    fn update_session(&mut self, update: &SessionUpdate) -> Result<(), Failure> {
        let stored = session_of(self.conn, &update.shard.realm, &update.entry.key)?;
        let known = match &stored {
            Some(stored) => self.sealed_documents(stored)?,
            None => None,
        };
        if let Some(stored) = &stored
            && known.is_none()
            && !stored.is_forgotten()
            && update.coverage != Coverage::All
        {
            return self.forget_session(stored).map(drop);
        }
        let shard = self.shard(&update.shard)?;
        let (mut documents, mut session) = (Members::default(), None);
        let missing = match (&stored, known) {
            (Some(stored), Some(known)) if stored.shard == shard => {
                (documents, session) = (known, Some(stored.no));
                self.remove_outdated(stored, update, &mut documents)?
            }
            (stored, _) => {
                if let Some(stored) = stored {
                    session = Some(stored.no);
                    self.counts(stored.shard)?.sessions -= 1;
                    self.remove_all(stored.shard, stored.no)?;
                }
                self.counts(shard)?.sessions += 1;
                update.difference(std::iter::empty()).1
            }
        };
        let session = self.upsert_session(shard, session, update)?;
        self.enable_bulk(shard, &missing)?;
        for document in missing {
            self.insert_document((shard, session), update, document, &mut documents)?;
        }
        self.seal_session((shard, session), update, stored.as_ref(), documents)
    }

    /// The documents with which a session is sealed. `None` if the session was forgotten, or if its seal is wrong.
    fn sealed_documents(&mut self, stored: &StoredSession) -> Result<Option<Members>, Failure> {
        let Some(key) = self.key else {
            return Ok(Some(Members::default()));
        };
        if stored.is_forgotten() {
            return Ok(None);
        }
        let row = stored.sealed_row(&self.counts(stored.shard)?.name);
        Ok(key.open(&row, stored.seal.as_deref()))
    }

    /// Seals a session with its documents, and makes it a member of its shard instead of the row `stored`.
    fn seal_session(
        &mut self,
        (shard, session): (i64, i64),
        update: &SessionUpdate,
        stored: Option<&StoredSession>,
        documents: Members,
    ) -> Result<(), Failure> {
        let Some(key) = self.key else {
            return Ok(());
        };
        let no = session.cast_unsigned();
        let row = SealedRow::Session(no, &update.shard, &update.entry);
        let seal = key.seal(&row, documents)?;
        let sql = "UPDATE session SET seal = ?2 WHERE id = ?1";
        execute(self.conn, sql, params![session, seal.as_slice()])?;
        if let Some(stored) = stored {
            let members = &mut self.counts(stored.shard)?.members;
            members.remove(key, &stored.member());
        }
        let member = Member::Session(shard.cast_unsigned(), no, &update.entry.key, &seal);
        self.counts(shard)?.members.add(key, &member);
        Ok(())
    }

    /// Removes the documents of a session, which must then be read again; returns their number. The session keeps its
    /// seal, as a member of its shard.
    pub(super) fn forget_session(&mut self, stored: &StoredSession) -> Result<u64, Failure> {
        let count = self.remove_all(stored.shard, stored.no)?;
        let sql = "UPDATE session SET stamp_a = 0, stamp_b = 0 WHERE id = ?1";
        execute(self.conn, sql, [stored.no])?;
        Ok(count)
    }

    /// Once the change adds much to a shard (see [`BULK_DOCUMENTS`]), writes the postings of the shard's pending
    /// documents, and directs all further documents of the shard to a builder.
    fn enable_bulk(&mut self, shard: i64, missing: &[&NewDocument]) -> Result<(), Failure> {
        let (count, text) = self.added_sizes.entry(shard).or_default();
        *count += missing.len();
        *text += missing.iter().map(|d| d.folded.len()).sum::<usize>();
        let is_bulk = *count > BULK_DOCUMENTS || *text > BULK_TEXT;
        if is_bulk && !self.bulk_builders.contains_key(&shard) {
            self.flush(shard)?;
            self.bulk_builders.insert(shard, Builder::default());
        }
        Ok(())
    }

    /// Inserts or updates a session's row; returns its number, which is a new one if `session` is `None`.
    fn upsert_session(
        &self,
        shard: i64,
        session: Option<i64>,
        update: &SessionUpdate,
    ) -> Result<i64, Failure> {
        let sql = "INSERT INTO session (id, shard, realm, key, stamp_a, stamp_b, updated, project)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET shard = ?2, stamp_a = ?5,
            stamp_b = ?6, updated = ?7, project = ?8 RETURNING id";
        let (entry, realm) = (&update.entry, &update.shard.realm);
        let [a, b] = entry.stamp.map(u64::cast_signed);
        let (key, updated, project) = (&entry.key, entry.updated, &entry.project);
        let row = params![session, shard, realm, key, a, b, updated, project];
        query_number(self.conn, sql, row)
    }

    fn remove_session(&mut self, realm: &[u8], key: &str) -> Result<(), Failure> {
        let Some(stored) = session_of(self.conn, realm, key)? else {
            return Ok(());
        };
        self.remove_all(stored.shard, stored.no)?;
        let seal_key = self.key;
        let counts = self.counts(stored.shard)?;
        counts.sessions -= 1;
        if let Some(key) = seal_key {
            counts.members.remove(key, &stored.member());
        }
        execute(self.conn, "DELETE FROM session WHERE id = ?1", [stored.no])?;
        Ok(())
    }

    /// Writes the postings that builders have collected, those of shards with too many pending documents, the counts,
    /// the seals, and the feed position if one is given.
    pub(super) fn finish(mut self, position: Option<&[u8]>) -> Result<(), Failure> {
        for (shard, builder) in std::mem::take(&mut self.bulk_builders) {
            self.write_segment(shard, builder)?;
        }
        let full_shards = self.counts.iter().filter(|(_, counts)| counts.is_full());
        for shard in full_shards.map(|(shard, _)| *shard).collect::<Vec<_>>() {
            self.flush(shard)?;
        }
        let mut sealed_shards = Vec::new();
        for (shard, counts) in self.counts {
            let seal = counts.write(self.conn, self.key, shard)?;
            sealed_shards.extend(seal.map(|seal| (shard, counts.name, counts.seal, seal)));
        }
        seals::write_state(self.conn, self.key, position, &sealed_shards)
    }
}
