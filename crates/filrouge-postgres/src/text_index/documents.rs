//! Adds and removes documents in a change.

use std::collections::HashMap;

use filrouge_store::text_index::{Members, NewDocument, SessionUpdate};
use filrouge_types::{Failure, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::change::{IndexChange, ShardNumbers};
use super::connections::Transaction;
use super::seals::sealed_columns;
use super::state::decode_text;
use super::statement::without_nul;
use crate::error::malformed;
use crate::rows::{bytes, column};
use crate::session::Sql;

/// A statement stops accepting documents once they have this many bytes.
const BATCH_BYTES: usize = 4 << 20;

impl IndexChange<'_, '_> {
    /// Deletes the stored documents of a session that the update replaces or removes, also from `members`. Returns the
    /// documents to insert.
    pub(super) fn remove_stale<'u>(
        &self,
        session: i64,
        (shard, realm): ShardNumbers,
        update: &'u SessionUpdate,
        members: &mut Members,
    ) -> Result<Vec<&'u NewDocument>> {
        // No search finds documents with another shard or realm, so they must not count as stored.
        static STRAY: Sql = Sql::new(
            "WITH gone AS (DELETE FROM filrouge.search_document
                 WHERE session = $1 AND (shard, realm) <> ($2, $3) RETURNING no)
             DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone)",
            &[Type::INT8, Type::INT8, Type::INT8],
        );
        static EXISTING: Sql = Sql::new(
            "SELECT no, key, unit, digest FROM filrouge.search_document WHERE session = $1",
            &[Type::INT8],
        );
        static REMOVE: Sql = Sql::new(
            concat!(
                "WITH gone AS (DELETE FROM filrouge.search_document d WHERE d.no = ANY($1) RETURNING ",
                sealed_columns!(),
                "), vectors AS (DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone))
                 SELECT * FROM gone"
            ),
            &[Type::INT8_ARRAY],
        );
        self.tx.query_all(&STRAY, &[&session, &shard, &realm])?;
        let rows = self.tx.query_all(&EXISTING, &[&session])?;
        let mut existing = Vec::with_capacity(rows.len());
        for row in &rows {
            let number = |index| Ok::<_, Failure>(column::<i64>(row, index)?.cast_unsigned());
            existing.push((decode_text(bytes(row, 1)?)?, number(2)?, number(3)?));
        }
        let stored_digests = existing
            .iter()
            .map(|(key, unit, digest)| (&**key, *unit, *digest));
        let (stale, missing) = update.difference(stored_digests);
        let stale = stale.iter().filter_map(|index| rows.get(*index));
        let stale: Vec<i64> = stale.map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        if !stale.is_empty() {
            for row in self.tx.query_all(&REMOVE, &[&stale])? {
                self.seals.remove_document(members, &row)?;
            }
        }
        Ok(missing)
    }

    /// Inserts documents, with one or more statements, and adds them to `members`.
    pub(super) fn insert_documents(
        &self,
        session: i64,
        numbers: ShardNumbers,
        documents: &[&NewDocument],
        members: &mut Members,
    ) -> Result<()> {
        let (mut batch, mut batch_bytes) = (DocumentColumns::default(), 0);
        let mut inserted = Vec::with_capacity(documents.len());
        for document in documents {
            batch_bytes += document.folded.len() + document.body.len();
            batch.add(document);
            if batch_bytes >= BATCH_BYTES {
                inserted.extend(std::mem::take(&mut batch).send(self.tx, session, numbers)?);
                batch_bytes = 0;
            }
        }
        inserted.extend(batch.send(self.tx, session, numbers)?);
        if inserted.len() < documents.len() {
            // A trigger of somebody else left documents out.
            return Err(malformed("set of documents"));
        }
        let by_key: HashMap<&[u8], &NewDocument> = documents
            .iter()
            .map(|document| (document.key.as_bytes(), *document))
            .collect();
        for row in &inserted {
            if let Some(document) = by_key.get(bytes(row, 1)?) {
                self.seals
                    .add_document(members, (session, column(row, 0)?), document);
            }
        }
        Ok(())
    }
}

/// The values of documents, one array for each column.
#[derive(Default)]
struct DocumentColumns<'d> {
    keys: Vec<&'d [u8]>,
    units: Vec<i64>,
    kinds: Vec<i16>,
    created: Vec<i64>,
    digests: Vec<i64>,
    bytes: Vec<i32>,
    folded: Vec<String>,
    bodies: Vec<&'d [u8]>,
}

impl<'d> DocumentColumns<'d> {
    fn add(&mut self, document: &'d NewDocument) {
        self.keys.push(document.key.as_bytes());
        self.units.push(document.unit.cast_signed());
        self.kinds.push(document.kind.into());
        self.created.push(document.created);
        self.digests.push(document.digest.cast_signed());
        self.bytes
            .push(i32::try_from(document.folded.len()).unwrap_or(i32::MAX));
        self.folded.push(without_nul(&document.folded));
        self.bodies.push(&document.body);
    }

    /// Inserts the documents; returns their numbers and keys.
    fn send(self, tx: &Transaction<'_>, session: i64, numbers: ShardNumbers) -> Result<Vec<Row>> {
        static SQL: Sql = Sql::new(
            "INSERT INTO filrouge.search_document
                 (realm, shard, session, key, unit, kind, created, digest, bytes, folded, body)
             SELECT $1, $2, $3, q.key, q.unit, q.kind, q.created, q.digest, q.bytes, q.folded, q.body
             FROM unnest($4, $5, $6, $7, $8, $9, $10, $11) WITH ORDINALITY
                 AS q (key, unit, kind, created, digest, bytes, folded, body, place) ORDER BY q.place
             RETURNING no, key",
            &[
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::BYTEA_ARRAY,
                Type::INT8_ARRAY,
                Type::INT2_ARRAY,
                Type::INT8_ARRAY,
                Type::INT8_ARRAY,
                Type::INT4_ARRAY,
                Type::TEXT_ARRAY,
                Type::BYTEA_ARRAY,
            ],
        );
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        tx.query_all(
            &SQL,
            &[
                &numbers.1,
                &numbers.0,
                &session,
                &self.keys,
                &self.units,
                &self.kinds,
                &self.created,
                &self.digests,
                &self.bytes,
                &self.folded,
                &self.bodies,
            ],
        )
    }
}
