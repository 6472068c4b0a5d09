//! Changes of the index. Each change acquires the lock of the index, and so do the triggers that delete redacted and
//! erased contents. So only one transaction at a time changes the index, and it sees all previous changes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::Lane;
use filrouge_store::text_index::{
    Coverage, IndexKey, IndexUpdate, Members, SessionEntry, SessionUpdate, Shard,
};
use filrouge_types::Result;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::seals::Seals;
use super::{state, vectors};
use crate::error::malformed;
use crate::rows::{column, sql_lane};
use crate::session::Sql;
use crate::stage::REQUEST_VACUUM;

/// The key of the advisory lock of the index: "flsearch" in ASCII. The triggers in the migration use the same key.
pub(super) const LOCK: i64 = 7_380_400_768_617_177_960;

pub(super) fn lock(tx: &Transaction<'_>) -> Result<()> {
    tx.run(&format!("SELECT pg_advisory_xact_lock({LOCK})"))
}

/// The number of a shard, and the number of its realm.
pub(super) type ShardNumbers = (i64, i64);

/// A transaction that changes the index.
pub(super) struct IndexChange<'t, 'c> {
    pub(super) tx: &'t Transaction<'c>,
    pub(super) seals: Seals<'t>,
    /// The numbers of the shards that were already looked up.
    shards: BTreeMap<Shard, ShardNumbers>,
    /// The numbers of shards from which a session was removed. Those that are empty at the end are deleted.
    shards_left: BTreeSet<i64>,
}

impl<'t, 'c> IndexChange<'t, 'c> {
    pub(super) fn new(tx: &'t Transaction<'c>, key: Option<&'t IndexKey>) -> Self {
        Self {
            tx,
            seals: Seals::new(key),
            shards: BTreeMap::new(),
            shards_left: BTreeSet::new(),
        }
    }

    pub(super) fn apply(mut self, updates: &[IndexUpdate], position: Option<&[u8]>) -> Result<()> {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update_session(update)?,
                IndexUpdate::Removed((realm, key)) => self.remove_session(realm, key)?,
                IndexUpdate::Vectors(embedder, new) => vectors::put(self.tx, embedder, new)?,
            }
        }
        let shards_left: Vec<i64> = self.shards_left.into_iter().collect();
        let mut removed = Vec::new();
        if !shards_left.is_empty() {
            static SQL: Sql = Sql::new(
                "DELETE FROM filrouge.search_shard o WHERE o.no = ANY($1)
                 AND NOT EXISTS (SELECT FROM filrouge.search_session s WHERE s.shard = o.no) RETURNING o.no",
                &[Type::INT8_ARRAY],
            );
            for row in self.tx.query_all(&SQL, &[&shards_left])? {
                removed.push(column::<i64>(&row, 0)?);
            }
        }
        self.seals.write(self.tx, &removed, position)
    }

    fn remove_session(&mut self, realm: &[u8], key: &str) -> Result<()> {
        static SQL: Sql = Sql::new(
            "DELETE FROM filrouge.search_session WHERE no = $1",
            &[Type::INT8],
        );
        let Some(stored) = state::find_session(self.tx, realm, key)? else {
            return Ok(());
        };
        remove_documents(self.tx, stored.no())?;
        self.tx.query_all(&SQL, &[&stored.no()])?;
        self.seals.remove_session(self.tx, &stored)?;
        self.shards_left.insert(stored.shard);
        Ok(())
    }

    /// Documents of a session with a wrong seal are not kept: an update of a part of it makes the index forget it.
    fn update_session(&mut self, update: &SessionUpdate) -> Result<()> {
        let stored = state::find_session(self.tx, &update.shard.realm, &update.entry.key)?;
        let known = stored
            .as_ref()
            .and_then(|stored| self.seals.documents_of(stored));
        if let Some(stored) = &stored
            && known.is_none()
            && !stored.is_forgotten()
            && update.coverage != Coverage::All
        {
            return forget_documents(self.tx, stored.no()).map(drop);
        }
        let numbers = self.shard_numbers(&update.shard)?;
        let no = upsert_session(self.tx, numbers, &update.shard, &update.entry)?;
        let mut documents = Members::default();
        let missing = match (&stored, known) {
            (Some(stored), Some(known)) if stored.shard == numbers.0 => {
                documents = known;
                self.remove_stale(no, numbers, update, &mut documents)?
            }
            (stored, _) => {
                if let Some(stored) = stored {
                    remove_documents(self.tx, no)?;
                    self.shards_left.insert(stored.shard);
                }
                update.difference(std::iter::empty()).1
            }
        };
        self.insert_documents(no, numbers, &missing, &mut documents)?;
        self.seals
            .seal_session(self.tx, (numbers.0, no), update, stored.as_ref(), documents)
    }

    /// The numbers of a shard and of its realm; creates the shard if it does not exist.
    fn shard_numbers(&mut self, shard: &Shard) -> Result<ShardNumbers> {
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
}

/// Inserts or updates a session's row; returns its number.
fn upsert_session(
    tx: &Transaction<'_>,
    numbers: ShardNumbers,
    shard: &Shard,
    entry: &SessionEntry,
) -> Result<i64> {
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
fn remove_documents(tx: &Transaction<'_>, no: i64) -> Result<u64> {
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
fn increment_forgotten(tx: &Transaction<'_>) -> Result<i64> {
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
fn request_vacuum(tx: &Transaction<'_>, forgotten: i64) -> Result<()> {
    let lane = sql_lane(Lane::FIRST);
    tx.query_all(&REQUEST_VACUUM, &[&lane, &-forgotten])
        .map(drop)
}

pub(super) fn forget_session(tx: &Transaction<'_>, realm: &[u8], key: &str) -> Result<u64> {
    let forgotten = increment_forgotten(tx)?;
    let Some(stored) = state::find_session(tx, realm, key)? else {
        return Ok(0);
    };
    let count = forget_documents(tx, stored.no())?;
    if count > 0 {
        request_vacuum(tx, forgotten)?;
    }
    Ok(count)
}

/// Deletes the documents of a session, which must then be read again; returns their number. The session keeps its seal,
/// as a member of its shard.
fn forget_documents(tx: &Transaction<'_>, no: i64) -> Result<u64> {
    static SQL: Sql = Sql::new(
        "UPDATE filrouge.search_session SET stamp_0 = 0, stamp_1 = 0 WHERE no = $1",
        &[Type::INT8],
    );
    let count = remove_documents(tx, no)?;
    tx.query_all(&SQL, &[&no])?;
    Ok(count)
}

/// Deletes the documents of damaged sessions, which must then be read again.
pub(super) fn forget_damaged(tx: &Transaction<'_>, sessions: &[i64]) -> Result<()> {
    increment_forgotten(tx)?;
    for no in sessions {
        forget_documents(tx, *no)?;
    }
    Ok(())
}

/// Empties the index. If this role owns the tables, truncates them, and creates the trigram index if it is missing.
/// Other roles delete all rows.
pub(super) fn clear(tx: &Transaction<'_>) -> Result<()> {
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
    tx.run("UPDATE filrouge.search_state SET position = NULL, seal = NULL, format = 1")
}
