//! Changes of the index. Each change acquires the lock of the index, and so do the triggers that delete redacted and
//! erased contents. So only one transaction at a time changes the index, and it sees all previous changes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::Lane;
use filrouge_store::text_index::{IndexUpdate, NewDocument, SessionEntry, SessionUpdate, Shard};
use filrouge_types::Failure;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::state::decode_text;
use super::statement::without_nul;
use super::vectors;
use crate::error::malformed;
use crate::rows::{bytes, column, sql_lane};
use crate::session::Sql;
use crate::stage::REQUEST_VACUUM;

/// A statement stops accepting documents once they have this many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The key of the advisory lock of the index: "flsearch" in ASCII. The triggers in the migration use the same key.
pub(super) const LOCK: i64 = 7_380_400_768_617_177_960;

pub(super) fn lock(tx: &Transaction<'_>) -> Result<(), Failure> {
    tx.run(&format!("SELECT pg_advisory_xact_lock({LOCK})"))
}

/// The number of a shard, and the number of its realm.
type ShardNumbers = (i64, i64);

/// A transaction that changes the index.
pub(super) struct IndexChange<'t, 'c> {
    tx: &'t Transaction<'c>,
    /// The numbers of the shards that were already looked up.
    shards: BTreeMap<Shard, ShardNumbers>,
    /// The numbers of shards from which a session was removed. Those that are empty at the end are deleted.
    shards_left: BTreeSet<i64>,
}

impl<'t, 'c> IndexChange<'t, 'c> {
    pub(super) fn new(tx: &'t Transaction<'c>) -> Self {
        Self {
            tx,
            shards: BTreeMap::new(),
            shards_left: BTreeSet::new(),
        }
    }

    pub(super) fn apply(
        mut self,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<(), Failure> {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update_session(update)?,
                IndexUpdate::Removed((realm, key)) => self.remove_session(realm, key)?,
                IndexUpdate::Vectors(embedder, new) => vectors::put(self.tx, embedder, new)?,
            }
        }
        if let Some(position) = position {
            static SQL: Sql = Sql::new(
                "UPDATE filrouge.search_state SET position = $1",
                &[Type::BYTEA],
            );
            self.tx.query_all(&SQL, &[&position])?;
        }
        if !self.shards_left.is_empty() {
            static SQL: Sql = Sql::new(
                "DELETE FROM filrouge.search_shard o WHERE o.no = ANY($1)
                 AND NOT EXISTS (SELECT FROM filrouge.search_session s WHERE s.shard = o.no)",
                &[Type::INT8_ARRAY],
            );
            let shards_left: Vec<i64> = self.shards_left.into_iter().collect();
            self.tx.query_all(&SQL, &[&shards_left])?;
        }
        Ok(())
    }

    fn remove_session(&mut self, realm: &[u8], key: &str) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "DELETE FROM filrouge.search_session WHERE no = $1",
            &[Type::INT8],
        );
        let Some((no, shard)) = find_session(self.tx, realm, key)? else {
            return Ok(());
        };
        remove_documents(self.tx, no)?;
        self.tx.query_all(&SQL, &[&no])?;
        self.shards_left.insert(shard);
        Ok(())
    }

    fn update_session(&mut self, update: &SessionUpdate) -> Result<(), Failure> {
        let numbers = self.shard_numbers(&update.shard)?;
        let all_documents = || update.difference(std::iter::empty()).1;
        let indexed = find_session(self.tx, &update.shard.realm, &update.entry.key)?;
        let no = upsert_session(self.tx, numbers, &update.shard, &update.entry)?;
        let missing = match indexed {
            Some((_, shard)) if shard == numbers.0 => self.remove_stale(no, update)?,
            Some((_, shard)) => {
                remove_documents(self.tx, no)?;
                self.shards_left.insert(shard);
                all_documents()
            }
            None => all_documents(),
        };
        self.insert_documents(no, numbers, &missing)
    }

    /// Deletes the stored documents of a session that the update replaces or removes. Returns the documents to insert.
    fn remove_stale<'u>(
        &self,
        session: i64,
        update: &'u SessionUpdate,
    ) -> Result<Vec<&'u NewDocument>, Failure> {
        static EXISTING: Sql = Sql::new(
            "SELECT no, key, unit, digest FROM filrouge.search_document WHERE session = $1",
            &[Type::INT8],
        );
        static REMOVE: Sql = Sql::new(
            "WITH gone AS (DELETE FROM filrouge.search_document WHERE no = ANY($1) RETURNING no)
             DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone)",
            &[Type::INT8_ARRAY],
        );
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
            self.tx.query_all(&REMOVE, &[&stale])?;
        }
        Ok(missing)
    }

    /// The numbers of a shard and of its realm; creates the shard if it does not exist.
    fn shard_numbers(&mut self, shard: &Shard) -> Result<ShardNumbers, Failure> {
        static FIND: Sql = Sql::new(
            "SELECT no, realm_no FROM filrouge.search_shard WHERE realm = $1 AND owner = $2",
            &[Type::BYTEA, Type::BYTEA],
        );
        static INSERT: Sql = Sql::new(
            "INSERT INTO filrouge.search_shard (realm_no, realm, owner)
             SELECT coalesce((SELECT realm_no FROM filrouge.search_shard WHERE realm = $1 LIMIT 1), 0), $1, $2",
            &[Type::BYTEA, Type::BYTEA],
        );
        // A new realm gets the number of its first shard.
        static NUMBER_REALM: Sql = Sql::new(
            "UPDATE filrouge.search_shard SET realm_no = no WHERE realm = $1 AND realm_no = 0",
            &[Type::BYTEA],
        );
        if let Some(numbers) = self.shards.get(shard) {
            return Ok(*numbers);
        }
        let (realm, owner): (&[u8], &[u8]) = (&shard.realm, &shard.owner);
        let mut found = self.tx.query_opt(&FIND, &[&realm, &owner])?;
        if found.is_none() {
            self.tx.query_all(&INSERT, &[&realm, &owner])?;
            self.tx.query_all(&NUMBER_REALM, &[&realm])?;
            found = self.tx.query_opt(&FIND, &[&realm, &owner])?;
        }
        let row = found.ok_or_else(|| malformed("shard"))?;
        let numbers = (column(&row, 0)?, column(&row, 1)?);
        self.shards.insert(shard.clone(), numbers);
        Ok(numbers)
    }

    /// Inserts documents, with one or more statements.
    fn insert_documents(
        &self,
        session: i64,
        numbers: ShardNumbers,
        documents: &[&NewDocument],
    ) -> Result<(), Failure> {
        let (mut batch, mut batch_bytes) = (DocumentColumns::default(), 0);
        for document in documents {
            batch_bytes += document.folded.len() + document.body.len();
            batch.add(document);
            if batch_bytes >= BATCH_BYTES {
                std::mem::take(&mut batch).send(self.tx, session, numbers)?;
                batch_bytes = 0;
            }
        }
        batch.send(self.tx, session, numbers)
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

    fn send(
        self,
        tx: &Transaction<'_>,
        session: i64,
        numbers: ShardNumbers,
    ) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "INSERT INTO filrouge.search_document
                 (realm, shard, session, key, unit, kind, created, digest, bytes, folded, body)
             SELECT $1, $2, $3, q.key, q.unit, q.kind, q.created, q.digest, q.bytes, q.folded, q.body
             FROM unnest($4, $5, $6, $7, $8, $9, $10, $11) WITH ORDINALITY
                 AS q (key, unit, kind, created, digest, bytes, folded, body, place) ORDER BY q.place",
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
            return Ok(());
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
        .map(drop)
    }
}

/// The number of a session, and the number of its shard; `None` if the session is not indexed.
fn find_session(
    tx: &Transaction<'_>,
    realm: &[u8],
    key: &str,
) -> Result<Option<(i64, i64)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT no, shard FROM filrouge.search_session WHERE realm = $1 AND key = $2",
        &[Type::BYTEA, Type::BYTEA],
    );
    let row = tx.query_opt(&SQL, &[&realm, &key.as_bytes()])?;
    row.map(|row| Ok((column(&row, 0)?, column(&row, 1)?)))
        .transpose()
}

/// Inserts or updates a session's row; returns its number.
fn upsert_session(
    tx: &Transaction<'_>,
    numbers: ShardNumbers,
    shard: &Shard,
    entry: &SessionEntry,
) -> Result<i64, Failure> {
    static SQL: Sql = Sql::new(
        "INSERT INTO filrouge.search_session AS s (shard, realm, key, stamp_0, stamp_1, updated, project)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (realm, key) DO UPDATE SET shard = EXCLUDED.shard,
             stamp_0 = EXCLUDED.stamp_0, stamp_1 = EXCLUDED.stamp_1, updated = EXCLUDED.updated,
             project = EXCLUDED.project RETURNING s.no",
        &[
            Type::INT8,
            Type::BYTEA,
            Type::BYTEA,
            Type::INT8,
            Type::INT8,
            Type::INT8,
            Type::BYTEA,
        ],
    );
    let (realm, key): (&[u8], _) = (&shard.realm, entry.key.as_bytes());
    let [a, b] = entry.stamp.map(u64::cast_signed);
    let project = entry.project.as_deref().map(str::as_bytes);
    let row = tx.query_opt(
        &SQL,
        &[&numbers.0, &realm, &key, &a, &b, &entry.updated, &project],
    )?;
    column(&row.ok_or_else(|| malformed("session"))?, 0)
}

/// Deletes a session's documents; returns their number.
fn remove_documents(tx: &Transaction<'_>, no: i64) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "WITH gone AS (DELETE FROM filrouge.search_document WHERE session = $1 RETURNING no),
             vectors AS (DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone))
         SELECT count(*) FROM gone",
        &[Type::INT8],
    );
    let row = tx.query_opt(&SQL, &[&no])?;
    let count: i64 = column(&row.ok_or_else(|| malformed("count"))?, 0)?;
    Ok(count.cast_unsigned())
}

/// Increments the counter of removals, and returns it. A process that has read a session in order to index it compares
/// the counter, and reads the session again if the counter has changed.
fn increment_forgotten(tx: &Transaction<'_>) -> Result<i64, Failure> {
    static SQL: Sql = Sql::new(
        "UPDATE filrouge.search_state SET forgotten = forgotten + 1 RETURNING forgotten",
        &[],
    );
    let row = tx.query_opt(&SQL, &[])?;
    column(
        &row.ok_or_else(|| malformed("state of the search index"))?,
        0,
    )
}

/// Requests a vacuum of the tables, as a redaction in the first lane does. `forgotten` makes the request unique: below
/// zero, it differs from the number of any commit.
fn request_vacuum(tx: &Transaction<'_>, forgotten: i64) -> Result<(), Failure> {
    let lane = sql_lane(Lane::FIRST);
    tx.query_all(&REQUEST_VACUUM, &[&lane, &-forgotten])
        .map(drop)
}

pub(super) fn forget_session(
    tx: &Transaction<'_>,
    realm: &[u8],
    key: &str,
) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "UPDATE filrouge.search_session SET stamp_0 = 0, stamp_1 = 0 WHERE no = $1",
        &[Type::INT8],
    );
    let forgotten = increment_forgotten(tx)?;
    let Some((no, _)) = find_session(tx, realm, key)? else {
        return Ok(0);
    };
    let count = remove_documents(tx, no)?;
    tx.query_all(&SQL, &[&no])?;
    if count > 0 {
        request_vacuum(tx, forgotten)?;
    }
    Ok(count)
}

/// Empties the index. If this role owns the tables, truncates them, and creates the trigram index if it is missing.
/// Other roles delete all rows.
pub(super) fn clear(tx: &Transaction<'_>) -> Result<(), Failure> {
    static OWNS: Sql = Sql::new(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'filrouge.search_document'::regclass",
        &[],
    );
    let row = tx.query_opt(&OWNS, &[])?;
    let is_owner = column(&row.ok_or_else(|| malformed("table"))?, 0)?;
    let forgotten = increment_forgotten(tx)?;
    if is_owner {
        tx.run(
            "TRUNCATE filrouge.search_document, filrouge.search_vector, filrouge.search_session, filrouge.search_shard;
             SELECT filrouge.search_prepare(true)",
        )?;
    } else {
        tx.run(
            "DELETE FROM filrouge.search_document; DELETE FROM filrouge.search_vector;
             DELETE FROM filrouge.search_session; DELETE FROM filrouge.search_shard",
        )?;
        request_vacuum(tx, forgotten)?;
    }
    tx.run("UPDATE filrouge.search_state SET position = NULL, format = 1")
}
