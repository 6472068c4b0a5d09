//! Adds and removes documents in a change.

use filrouge_store::text_index::{Member, Members, NewDocument, SessionUpdate};
use filrouge_types::Result;
use rusqlite::{Row, params};

use super::apply::IndexChange;
use super::rows::{StoredSession, execute, query_all, query_number, query_optional};
use super::segments::PostingsTable;
use super::spellings;

/// A change that adds much writes the collected postings whenever their texts reach this size, in bytes.
const SEGMENT_TEXT_MAX: usize = 16 << 20;

/// A document to remove: its number, and the bytes of its text.
struct Outdated {
    no: i64,
    size: i64,
}

fn read_outdated(row: &Row<'_>) -> rusqlite::Result<Outdated> {
    Ok(Outdated {
        no: row.get(0)?,
        size: row.get(1)?,
    })
}

impl IndexChange<'_> {
    /// Removes the documents of a session that `update` no longer contains, also from `members`; returns those documents
    /// of the update that are not stored yet.
    pub(super) fn remove_outdated<'u>(
        &mut self,
        stored: &StoredSession,
        update: &'u SessionUpdate,
        members: &mut Members,
    ) -> Result<Vec<&'u NewDocument>> {
        let sql = "SELECT id, size, key, unit, kind, created, digest FROM document WHERE shard = ?1 AND session = ?2";
        let (shard, session) = (stored.shard, stored.no);
        let existing = query_all(self.conn, sql, [shard, session], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            let fields = [number(3)?, number(4)?, number(5)?, number(6)?];
            Ok((read_outdated(row)?, row.get::<_, String>(2)?, fields))
        })?;
        let compared = existing
            .iter()
            .map(|(_, key, [unit, _, _, digest])| (&**key, *unit, *digest));
        let (outdated, missing) = update.difference(compared);
        for (document, document_key, fields) in outdated.iter().filter_map(|at| existing.get(*at)) {
            if let Some(key) = self.key {
                let member = Member::Document {
                    session: session.cast_unsigned(),
                    no: document.no.cast_unsigned(),
                    key: document_key,
                    fields: *fields,
                    content: b"",
                };
                members.remove(key, &member);
            }
            self.remove_document(shard, session, document)?;
        }
        Ok(missing)
    }

    /// Removes all documents of a session; returns their number.
    pub(super) fn remove_all(&mut self, shard: i64, session: i64) -> Result<u64> {
        let sql = "SELECT id, size FROM document WHERE shard = ?1 AND session = ?2";
        let documents = query_all(self.conn, sql, [shard, session], read_outdated)?;
        for document in &documents {
            self.remove_document(shard, session, document)?;
        }
        Ok(documents.len() as u64)
    }

    /// Removes a document. If it has postings, also records in the table `gone` that they are still to be removed.
    fn remove_document(&mut self, shard: i64, session: i64, document: &Outdated) -> Result<()> {
        let Outdated { no, size } = *document;
        let sql = "DELETE FROM pending WHERE shard = ?1 AND document = ?2 RETURNING words";
        let words: Option<Vec<u8>> = query_optional(self.conn, sql, [shard, no], |row| row.get(0))?;
        let (key, was_pending) = (self.key, words.is_some());
        let counts = self.counts(shard)?;
        let removal = counts.count_removal(size, was_pending);
        if let (Some(key), Some(words)) = (key, words) {
            let row = PostingsTable::Pending.member(no, &words);
            counts.members.remove(key, &row);
        }
        if !was_pending {
            let sql = "INSERT OR REPLACE INTO gone (shard, document, session, removal) VALUES (?1, ?2, ?3, ?4)";
            execute(self.conn, sql, [shard, no, session, removal])?;
        }
        execute(self.conn, "DELETE FROM document WHERE id = ?1", [no])?;
        execute(self.conn, "DELETE FROM body WHERE document = ?1", [no])?;
        for embedder in &self.embedders {
            let sql = "DELETE FROM vector WHERE embedder = ?1 AND shard = ?2 AND document = ?3";
            if execute(self.conn, sql, [*embedder, shard, no])? > 0 {
                let sql = "UPDATE embedder SET documents = documents - 1 WHERE id = ?1";
                execute(self.conn, sql, [*embedder])?;
            }
        }
        Ok(())
    }

    /// Adds a document of `update`, also to `members`. Its words go to the shard's builder, if there is one; otherwise
    /// the document is pending.
    pub(super) fn insert_document(
        &mut self,
        (shard, session): (i64, i64),
        update: &SessionUpdate,
        document: &NewDocument,
        members: &mut Members,
    ) -> Result<()> {
        let size = i64::try_from(document.folded.len()).unwrap_or(i64::MAX);
        let sql = "INSERT INTO document (shard, session, key, unit, kind, created, digest, size)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id";
        let [unit, digest] = [document.unit, document.digest].map(u64::cast_signed);
        let (key, kind, created) = (&document.key, document.kind, document.created);
        let row = params![shard, session, key, unit, kind, created, digest, size];
        let no = query_number(self.conn, sql, row)?;
        let [session_no, document_no] = [session, no].map(i64::cast_unsigned);
        let member = Member::new_document(session_no, document_no, document, b"");
        let stored = self.compressor.compress(&document.body)?;
        let sealed = self.key.map(|key| {
            let mac = key.body_mac((&update.shard, &update.entry.key), &member, stored);
            [mac.as_slice(), stored].concat()
        });
        let body = sealed.as_deref().unwrap_or(stored);
        let sql = "INSERT INTO body (document, packed) VALUES (?1, ?2)";
        execute(self.conn, sql, params![no, body])?;
        if let Some(key) = self.key {
            members.add(key, &member);
        }
        self.counts(shard)?.count_added(no, size)?;
        if let Some(builder) = self.bulk_builders.get_mut(&shard) {
            builder.add(no.cast_unsigned(), &document.folded);
            if builder.text_bytes() >= SEGMENT_TEXT_MAX {
                let full = std::mem::take(builder);
                self.write_segment(shard, full)?;
            }
            return Ok(());
        }
        let words = spellings::encode(&document.folded);
        let (key, row) = (self.key, PostingsTable::Pending.member(no, &words));
        let counts = self.counts(shard)?;
        counts.count_pending(size);
        if let Some(key) = key {
            counts.members.add(key, &row);
        }
        let sql = "INSERT INTO pending (shard, document, size, words) VALUES (?1, ?2, ?3, ?4)";
        execute(self.conn, sql, params![shard, no, size, words])?;
        Ok(())
    }
}
