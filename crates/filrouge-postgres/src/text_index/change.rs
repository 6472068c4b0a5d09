//! Changes. Each is made under one lock, which the triggers of redaction and erasure take as well: what one transaction
//! has put the next one sees.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::text_index::{IndexUpdate, NewDocument, SessionEntry, SessionUpdate, Shard};
use filrouge_types::Failure;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::known::text;
use super::question::held;
use super::vectors;
use crate::error::malformed;
use crate::rows::{bytes, column};
use crate::session::Sql;
use crate::vacuum;

/// So many bytes of documents are sent at once.
const SENT_BYTES: usize = 4 << 20;

/// The lock; "flsearch" in ASCII, as in the migration.
pub(super) const LOCK: i64 = 7_380_400_768_617_177_960;

pub(super) fn lock(of: &Transaction<'_>) -> Result<(), Failure> {
    of.run(&format!("SELECT pg_advisory_xact_lock({LOCK})"))
}

/// A shard's number, and its realm's.
type Place = (i64, i64);

/// What a transaction of changes knows.
pub(super) struct Changes<'t, 'c> {
    of: &'t Transaction<'c>,
    places: BTreeMap<Shard, Place>,
    /// Shards that a session has left.
    left: BTreeSet<i64>,
}

impl<'t, 'c> Changes<'t, 'c> {
    pub(super) fn new(of: &'t Transaction<'c>) -> Self {
        Self {
            of,
            places: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }

    pub(super) fn make(
        mut self,
        updates: &[IndexUpdate],
        position: Option<&[u8]>,
    ) -> Result<(), Failure> {
        for update in updates {
            match update {
                IndexUpdate::Session(update) => self.update(update)?,
                IndexUpdate::Gone((realm, key)) => self.gone(realm, key)?,
                IndexUpdate::Vectors(embedder, all) => vectors::put(self.of, embedder, all)?,
            }
        }
        if let Some(position) = position {
            static SQL: Sql = Sql::new(
                "UPDATE filrouge.search_state SET position = $1",
                &[Type::BYTEA],
            );
            self.of.many(&SQL, &[&position])?;
        }
        if !self.left.is_empty() {
            static SQL: Sql = Sql::new(
                "DELETE FROM filrouge.search_shard o WHERE o.no = ANY($1)
                 AND NOT EXISTS (SELECT FROM filrouge.search_session s WHERE s.shard = o.no)",
                &[Type::INT8_ARRAY],
            );
            let left: Vec<i64> = self.left.into_iter().collect();
            self.of.many(&SQL, &[&left])?;
        }
        Ok(())
    }

    fn gone(&mut self, realm: &[u8], key: &str) -> Result<(), Failure> {
        static SQL: Sql = Sql::new(
            "DELETE FROM filrouge.search_session WHERE no = $1",
            &[Type::INT8],
        );
        let Some((no, shard)) = known(self.of, realm, key)? else {
            return Ok(());
        };
        remove_all(self.of, no)?;
        self.of.many(&SQL, &[&no])?;
        self.left.insert(shard);
        Ok(())
    }

    fn update(&mut self, update: &SessionUpdate) -> Result<(), Failure> {
        let place = self.place(&update.shard)?;
        let all = || update.difference(std::iter::empty()).1;
        let before = known(self.of, &update.shard.realm, &update.entry.key)?;
        let no = enter(self.of, place, &update.shard, &update.entry)?;
        let coming = match before {
            Some((_, shard)) if shard == place.0 => self.make_room(no, update)?,
            Some((_, shard)) => {
                remove_all(self.of, no)?;
                self.left.insert(shard);
                all()
            }
            None => all(),
        };
        self.put(no, place, &coming)
    }

    /// Removes what goes; what comes.
    fn make_room<'u>(
        &self,
        session: i64,
        update: &'u SessionUpdate,
    ) -> Result<Vec<&'u NewDocument>, Failure> {
        static THERE: Sql = Sql::new(
            "SELECT no, key, unit, digest FROM filrouge.search_document WHERE session = $1",
            &[Type::INT8],
        );
        static REMOVE: Sql = Sql::new(
            "WITH gone AS (DELETE FROM filrouge.search_document WHERE no = ANY($1) RETURNING no)
             DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone)",
            &[Type::INT8_ARRAY],
        );
        let rows = self.of.many(&THERE, &[&session])?;
        let mut there = Vec::with_capacity(rows.len());
        for row in &rows {
            let number = |index| Ok::<_, Failure>(column::<i64>(row, index)?.cast_unsigned());
            there.push((text(bytes(row, 1)?)?, number(2)?, number(3)?));
        }
        let known = there
            .iter()
            .map(|(key, unit, digest)| (&**key, *unit, *digest));
        let (going, coming) = update.difference(known);
        let going = going.iter().filter_map(|at| rows.get(*at));
        let going: Vec<i64> = going.map(|row| column(row, 0)).collect::<Result<_, _>>()?;
        if !going.is_empty() {
            self.of.many(&REMOVE, &[&going])?;
        }
        Ok(coming)
    }

    /// The place of a shard, which is made if it is not there.
    fn place(&mut self, shard: &Shard) -> Result<Place, Failure> {
        static FIND: Sql = Sql::new(
            "SELECT no, realm_no FROM filrouge.search_shard WHERE realm = $1 AND owner = $2",
            &[Type::BYTEA, Type::BYTEA],
        );
        static MAKE: Sql = Sql::new(
            "INSERT INTO filrouge.search_shard (realm_no, realm, owner)
             SELECT coalesce((SELECT realm_no FROM filrouge.search_shard WHERE realm = $1 LIMIT 1), 0), $1, $2",
            &[Type::BYTEA, Type::BYTEA],
        );
        // A realm that was not there takes the number of its first shard.
        static NAME: Sql = Sql::new(
            "UPDATE filrouge.search_shard SET realm_no = no WHERE realm = $1 AND realm_no = 0",
            &[Type::BYTEA],
        );
        if let Some(place) = self.places.get(shard) {
            return Ok(*place);
        }
        let (realm, owner): (&[u8], &[u8]) = (&shard.realm, &shard.owner);
        let mut found = self.of.one(&FIND, &[&realm, &owner])?;
        if found.is_none() {
            self.of.many(&MAKE, &[&realm, &owner])?;
            self.of.many(&NAME, &[&realm])?;
            found = self.of.one(&FIND, &[&realm, &owner])?;
        }
        let row = found.ok_or_else(|| malformed("shard"))?;
        let place = (column(&row, 0)?, column(&row, 1)?);
        self.places.insert(shard.clone(), place);
        Ok(place)
    }

    fn put(&self, session: i64, place: Place, documents: &[&NewDocument]) -> Result<(), Failure> {
        let (mut batch, mut sent) = (Batch::default(), 0);
        for document in documents {
            sent += document.folded.len() + document.body.len();
            batch.add(document);
            if sent >= SENT_BYTES {
                std::mem::take(&mut batch).send(self.of, session, place)?;
                sent = 0;
            }
        }
        batch.send(self.of, session, place)
    }
}

/// Documents as columns.
#[derive(Default)]
struct Batch<'d> {
    keys: Vec<&'d [u8]>,
    units: Vec<i64>,
    kinds: Vec<i16>,
    created: Vec<i64>,
    digests: Vec<i64>,
    bytes: Vec<i32>,
    folded: Vec<String>,
    bodies: Vec<&'d [u8]>,
}

impl<'d> Batch<'d> {
    fn add(&mut self, document: &'d NewDocument) {
        self.keys.push(document.key.as_bytes());
        self.units.push(document.unit.cast_signed());
        self.kinds.push(document.kind.into());
        self.created.push(document.created);
        self.digests.push(document.digest.cast_signed());
        self.bytes
            .push(i32::try_from(document.folded.len()).unwrap_or(i32::MAX));
        self.folded.push(held(&document.folded));
        self.bodies.push(&document.body);
    }

    fn send(self, of: &Transaction<'_>, session: i64, place: Place) -> Result<(), Failure> {
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
        of.many(
            &SQL,
            &[
                &place.1,
                &place.0,
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

/// A session's number and its shard's.
fn known(of: &Transaction<'_>, realm: &[u8], key: &str) -> Result<Option<(i64, i64)>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT no, shard FROM filrouge.search_session WHERE realm = $1 AND key = $2",
        &[Type::BYTEA, Type::BYTEA],
    );
    let row = of.one(&SQL, &[&realm, &key.as_bytes()])?;
    row.map(|row| Ok((column(&row, 0)?, column(&row, 1)?)))
        .transpose()
}

/// Puts a session's row; its number.
fn enter(
    of: &Transaction<'_>,
    place: Place,
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
    let row = of.one(
        &SQL,
        &[&place.0, &realm, &key, &a, &b, &entry.updated, &project],
    )?;
    column(&row.ok_or_else(|| malformed("session"))?, 0)
}

/// Removes a session's documents; how many there were.
fn remove_all(of: &Transaction<'_>, no: i64) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "WITH gone AS (DELETE FROM filrouge.search_document WHERE session = $1 RETURNING no),
             vectors AS (DELETE FROM filrouge.search_vector WHERE document IN (SELECT no FROM gone))
         SELECT count(*) FROM gone",
        &[Type::INT8],
    );
    let row = of.one(&SQL, &[&no])?;
    let count: i64 = column(&row.ok_or_else(|| malformed("count"))?, 0)?;
    Ok(count.cast_unsigned())
}

/// Has whoever waits with what it has read read again.
fn raise(of: &Transaction<'_>) -> Result<i64, Failure> {
    static SQL: Sql = Sql::new(
        "UPDATE filrouge.search_state SET forgotten = forgotten + 1 RETURNING forgotten",
        &[],
    );
    let row = of.one(&SQL, &[])?;
    column(
        &row.ok_or_else(|| malformed("state of the search index"))?,
        0,
    )
}

/// Has the tables vacuumed, as behind a redaction of the journal.
fn note(of: &Transaction<'_>, forgotten: i64) -> Result<(), Failure> {
    let value = format!("search {forgotten}");
    of.many(&vacuum::NOTE, &[&value]).map(drop)
}

pub(super) fn forget(of: &Transaction<'_>, realm: &[u8], key: &str) -> Result<u64, Failure> {
    static SQL: Sql = Sql::new(
        "UPDATE filrouge.search_session SET stamp_0 = 0, stamp_1 = 0 WHERE no = $1",
        &[Type::INT8],
    );
    let forgotten = raise(of)?;
    let Some((no, _)) = known(of, realm, key)? else {
        return Ok(0);
    };
    let count = remove_all(of, no)?;
    of.many(&SQL, &[&no])?;
    if count > 0 {
        note(of, forgotten)?;
    }
    Ok(count)
}

/// Empties all; the tables' owner at once, and with the index of trigrams if it was not there.
pub(super) fn clear(of: &Transaction<'_>) -> Result<(), Failure> {
    static OWNS: Sql = Sql::new(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'filrouge.search_document'::regclass",
        &[],
    );
    let row = of.one(&OWNS, &[])?;
    let owns = column(&row.ok_or_else(|| malformed("table"))?, 0)?;
    let forgotten = raise(of)?;
    if owns {
        of.run(
            "TRUNCATE filrouge.search_document, filrouge.search_vector, filrouge.search_session, filrouge.search_shard;
             SELECT filrouge.search_prepare(true)",
        )?;
    } else {
        of.run(
            "DELETE FROM filrouge.search_document; DELETE FROM filrouge.search_vector;
             DELETE FROM filrouge.search_session; DELETE FROM filrouge.search_shard",
        )?;
        note(of, forgotten)?;
    }
    of.run("UPDATE filrouge.search_state SET position = NULL, format = 1")
}
