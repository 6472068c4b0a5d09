//! Changes: sessions that come, move and go.

use std::collections::HashMap;

use filrouge_store::text_index::{IndexUpdate, SessionUpdate, Shard};
use filrouge_types::Failure;
use rusqlite::{Connection, params};

use super::bodies::Packer;
use super::builder::Builder;
use super::counts::{Counts, Given};
use super::rows::{all, run, session_of, shard_of};

/// What comes at once for one shard and is more than this goes into postings at once.
const BULK_DOCUMENTS: usize = 64;
const BULK_TEXT: usize = 256 << 10;

/// A change that is being made.
pub(super) struct Change<'a> {
    pub(super) conn: &'a Connection,
    pub(super) given: Given,
    shards: HashMap<Shard, i64>,
    counts: HashMap<i64, Counts>,
    /// Of the shards for which much comes at once.
    pub(super) bulk: HashMap<i64, Builder>,
    pub(super) embedders: Vec<i64>,
    pub(super) packer: Packer,
}

impl<'a> Change<'a> {
    pub(super) fn begin(conn: &'a Connection) -> Result<Self, Failure> {
        Ok(Self {
            conn,
            given: Given::read(conn)?,
            shards: HashMap::new(),
            counts: HashMap::new(),
            bulk: HashMap::new(),
            embedders: all(conn, "SELECT id FROM embedder", [], |row| row.get(0))?,
            packer: Packer::default(),
        })
    }

    /// Makes these changes.
    pub(super) fn take(&mut self, updates: &[IndexUpdate]) -> Result<(), Failure> {
        let mut sizes: HashMap<&Shard, (usize, usize)> = HashMap::new();
        for update in updates {
            if let IndexUpdate::Session(update) = update {
                let (count, text) = sizes.entry(&update.shard).or_default();
                *count += update.documents.len();
                let folded = update.documents.iter().map(|d| d.folded.len());
                *text += folded.sum::<usize>();
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
                let id = self.given.shard;
                let sql = "INSERT INTO shard (id, realm, owner) VALUES (?1, ?2, ?3)";
                run(self.conn, sql, params![id, shard.realm, shard.owner])?;
                id
            }
        };
        self.shards.insert(shard.clone(), id);
        Ok(id)
    }

    /// What is counted of a shard, which is changed.
    pub(super) fn counts(&mut self, shard: i64) -> Result<&mut Counts, Failure> {
        if !self.counts.contains_key(&shard) {
            let counts = Counts::read(self.conn, shard)?;
            self.counts.insert(shard, counts);
        }
        let counts = self.counts.entry(shard).or_default();
        counts.touched += 1;
        Ok(counts)
    }

    fn session(&mut self, update: &SessionUpdate) -> Result<(), Failure> {
        let shard = self.shard(&update.shard)?;
        let session = match session_of(self.conn, &update.shard.realm, &update.entry.key)? {
            Some((session, was)) if was != shard => {
                self.counts(was)?.sessions -= 1;
                self.counts(shard)?.sessions += 1;
                self.remove_all(was, session)?;
                session
            }
            Some((session, _)) => {
                self.remove(shard, session, &update.gone)?;
                session
            }
            None => {
                self.counts(shard)?.sessions += 1;
                self.given.session += 1;
                self.given.session
            }
        };
        self.counts(shard)?;
        self.enter(shard, session, update)?;
        for document in &update.documents {
            self.put(shard, session, document)?;
        }
        Ok(())
    }

    fn enter(&self, shard: i64, session: i64, update: &SessionUpdate) -> Result<(), Failure> {
        let sql = "INSERT INTO session (id, shard, realm, key, stamp_a, stamp_b, updated, project)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO UPDATE SET shard = ?2, stamp_a = ?5,
            stamp_b = ?6, updated = ?7, project = ?8";
        let (entry, realm) = (&update.entry, &update.shard.realm);
        let [a, b] = entry.stamp.map(u64::cast_signed);
        let (key, updated, project) = (&entry.key, entry.updated, &entry.project);
        let row = params![session, shard, realm, key, a, b, updated, project];
        run(self.conn, sql, row).map(|_| ())
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

    /// Writes what is left to write.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        for (shard, builder) in std::mem::take(&mut self.bulk) {
            self.segment(shard, builder)?;
        }
        let full = self.counts.iter().filter(|(_, counts)| counts.is_full());
        for shard in full.map(|(shard, _)| *shard).collect::<Vec<_>>() {
            self.flush(shard)?;
        }
        for (shard, counts) in &self.counts {
            counts.write(self.conn, *shard)?;
        }
        self.given.write(self.conn)
    }
}
