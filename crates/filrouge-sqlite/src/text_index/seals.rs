//! The seals of the index, its shards, sessions and segments: how changes keep them, and how searches check them.

use std::collections::HashMap;

use filrouge_store::text_index::{
    IndexKey, IndexScope, Key, Member, Members, SEAL_BYTES, SealedRow, Shard,
};
use filrouge_types::{Result, lock};
use rusqlite::{Connection, params, params_from_iter};

use super::apply::IndexChange;
use super::counts::Counts;
use super::document_cache::ResolvedScope;
use super::files::IndexFile;
use super::forget;
use super::rows::{StoredSession, execute, query_all, query_optional};
use super::segments::{PostingsTable, Segment};
use super::verified::Verified;
use crate::error::{failure, malformed};

/// A shard that a change has sealed: its number, its name, its previous seal and the new one.
pub(super) type SealedShard = (i64, Shard, Option<Vec<u8>>, [u8; SEAL_BYTES]);

/// A shard as a member of the index.
const fn shard_member<'a>(no: i64, name: &'a Shard, seal: &'a [u8]) -> Member<'a> {
    Member::Shard([no.cast_unsigned(), 0], name, seal)
}

/// Damage that concerns single sessions.
#[derive(Default)]
pub(super) struct Damage {
    /// Sessions with a wrong seal, or with other documents than those with which they were sealed.
    pub(super) sessions: Vec<Key>,
    /// Documents that belong to no session of their shard, by the numbers of the shard and of the session.
    strays: Vec<(i64, i64)>,
    /// The numbers of the shards with damage.
    shards: Vec<i64>,
}

impl Damage {
    /// The number of damaged sessions.
    pub(super) const fn count(&self) -> usize {
        self.sessions.len() + self.strays.len()
    }
}

/// Writes the feed position, if one is given, and the seal of the index, if there is a key.
pub(super) fn write_state(
    conn: &Connection,
    key: Option<&IndexKey>,
    position: Option<&[u8]>,
    sealed_shards: &[SealedShard],
) -> Result<()> {
    if position.is_none() && sealed_shards.is_empty() {
        return Ok(());
    }
    let (stored_position, mut members) = read_state(conn, key)?;
    let position = position.or(stored_position.as_deref());
    let mut seal = None;
    if let Some(key) = key {
        for (no, name, previous, new) in sealed_shards {
            // A new shard has no seal before.
            if let Some(previous) = previous {
                members.remove(key, &shard_member(*no, name, previous));
            }
            members.add(key, &shard_member(*no, name, new));
        }
        seal = Some(key.seal(&SealedRow::Index(position), members)?);
    }
    let seal = seal.as_ref().map(<[u8; SEAL_BYTES]>::as_slice);
    let sql = "UPDATE state SET position = ?1, seal = ?2";
    execute(conn, sql, params![position, seal]).map(drop)
}

/// Reads the feed position, and the shards with which the index is sealed; none without a key.
fn read_state(conn: &Connection, key: Option<&IndexKey>) -> Result<(Option<Vec<u8>>, Members)> {
    let sql = "SELECT position, seal FROM state";
    let state = query_optional(conn, sql, [], |row| {
        Ok((
            row.get::<_, Option<Vec<u8>>>(0)?,
            row.get::<_, Option<Vec<u8>>>(1)?,
        ))
    })?;
    let (position, seal) = state.ok_or_else(|| malformed("state"))?;
    let members = match key {
        Some(key) => key.open(&SealedRow::Index(position.as_deref()), seal.as_deref()),
        None => Some(Members::default()),
    };
    Ok((position, members.ok_or_else(|| malformed("seal"))?))
}

/// Compares what a scope contains with its seals, except what was compared since the last change by another connection.
///
/// # Errors
/// `integrity_error` for damage that concerns more than single sessions.
pub(super) fn check(
    (file, conn): (&IndexFile, &Connection),
    key: &IndexKey,
    scope: &IndexScope,
    changes_by_others: u64,
) -> Result<Damage> {
    let mut shards = ResolvedScope::resolve(conn, scope)?.shards;
    let is_index_verified = {
        let mut verified = lock(&file.verified);
        if verified.changes_by_others != changes_by_others {
            *verified = Verified {
                changes_by_others,
                ..Verified::default()
            };
        }
        shards.retain(|shard| !verified.shards.contains(shard));
        verified.index
    };
    if !is_index_verified {
        check_index(conn, key)?;
    }
    let mut damage = Damage::default();
    for shard in &shards {
        check_shard(conn, key, *shard, &mut damage)?;
    }
    let mut verified = lock(&file.verified);
    if damage.count() == 0 && verified.changes_by_others == changes_by_others {
        verified.index = true;
        verified.shards.extend(shards);
    }
    Ok(damage)
}

/// Compares the shards of the index, also their names, with its seal.
fn check_index(conn: &Connection, key: &IndexKey) -> Result<()> {
    let (_, members) = read_state(conn, Some(key))?;
    let sql = "SELECT id, realm, owner, seal FROM shard";
    let shards = query_all(conn, sql, [], |row| {
        let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
        let name = Shard {
            realm: blob(1)?,
            owner: blob(2)?,
        };
        Ok((
            row.get::<_, i64>(0)?,
            name,
            row.get::<_, Option<Vec<u8>>>(3)?,
        ))
    })?;
    let mut found = Members::default();
    for (no, name, seal) in &shards {
        // The change that creates a shard also seals it.
        let seal = seal.as_deref().ok_or_else(|| malformed("shard"))?;
        found.add(key, &shard_member(*no, name, seal));
    }
    match found == members {
        true => Ok(()),
        false => Err(malformed("set of shards")),
    }
}

fn check_shard(conn: &Connection, key: &IndexKey, shard: i64, damage: &mut Damage) -> Result<()> {
    let found_before = damage.count();
    let counts = Counts::read(conn, Some(key), shard)?;
    let columns = StoredSession::COLUMNS;
    let sql = format!("SELECT {columns} FROM session WHERE shard = ?1 AND realm = ?2");
    let row = params![shard, counts.name.realm];
    let sessions = query_all(conn, &sql, row, StoredSession::from_row)?;
    let mut documents = read_documents(conn, key, shard)?;
    let mut members = Members::default();
    let sql = "SELECT document, words FROM pending WHERE shard = ?1";
    add_rows(
        conn,
        key,
        (PostingsTable::Pending, sql),
        &[shard],
        &mut members,
    )?;
    for segment in Segment::all(conn, shard)? {
        check_segment(conn, key, &segment)?;
        if let Some(member) = segment.member() {
            members.add(key, &member);
        }
    }
    for session in &sessions {
        members.add(key, &session.member());
        let found = documents.remove(&session.no).unwrap_or_default();
        let row = session.sealed_row(&counts.name);
        let sealed = match session.is_forgotten() {
            true => Some(Members::default()),
            false => key.open(&row, session.seal.as_deref()),
        };
        if sealed != Some(found) {
            let session_key = session.entry.key.clone();
            damage
                .sessions
                .push((counts.name.realm.clone(), session_key));
        }
    }
    if members != counts.members {
        return Err(malformed("set of sessions or postings"));
    }
    let strays = documents.into_keys().map(|session| (shard, session));
    damage.strays.extend(strays);
    if damage.count() > found_before {
        damage.shards.push(shard);
    }
    Ok(())
}

/// Compares the postings of a segment with its seal.
fn check_segment(conn: &Connection, key: &IndexKey, segment: &Segment) -> Result<()> {
    let mut rows = Members::default();
    for (table, sql) in [
        (
            PostingsTable::Spelling,
            "SELECT first, words FROM spelling WHERE shard = ?1 AND segment = ?2",
        ),
        (
            PostingsTable::Posting,
            "SELECT first, lists FROM posting WHERE shard = ?1 AND segment = ?2",
        ),
        (
            PostingsTable::LongPosting,
            "SELECT word, documents FROM long_posting WHERE shard = ?1 AND segment = ?2",
        ),
    ] {
        let place = [segment.shard, segment.id];
        add_rows(conn, key, (table, sql), &place, &mut rows)?;
    }
    match rows == segment.sealed_rows(key)? {
        true => Ok(()),
        false => Err(malformed("set of postings")),
    }
}

/// Adds the rows that a statement selects, their numbers and contents, to `members`.
fn add_rows(
    conn: &Connection,
    key: &IndexKey,
    (table, sql): (PostingsTable, &str),
    place: &[i64],
    members: &mut Members,
) -> Result<()> {
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params_from_iter(place)).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let contents = row.get_ref(1).and_then(|value| Ok(value.as_blob()?));
        let no = row.get(0).map_err(failure)?;
        members.add(key, &table.member(no, contents.map_err(failure)?));
    }
    Ok(())
}

/// The documents of each session of a shard.
fn read_documents(conn: &Connection, key: &IndexKey, shard: i64) -> Result<HashMap<i64, Members>> {
    let sql = "SELECT session, id, key, unit, kind, created, digest FROM document WHERE shard = ?1";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([shard]).map_err(failure)?;
    let mut documents: HashMap<i64, Members> = HashMap::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let number = |column| row.get::<_, i64>(column).map_err(failure);
        let unsigned = |column| number(column).map(i64::cast_unsigned);
        let document_key = row.get_ref(2).and_then(|value| Ok(value.as_str()?));
        let member = Member::Document {
            session: unsigned(0)?,
            no: unsigned(1)?,
            key: document_key.map_err(failure)?,
            fields: [unsigned(3)?, unsigned(4)?, unsigned(5)?, unsigned(6)?],
            content: b"",
        };
        documents.entry(number(0)?).or_default().add(key, &member);
    }
    Ok(documents)
}

/// Removes all documents of damaged sessions, which are then read again.
pub(super) fn repair(conn: &Connection, key: &IndexKey, damage: &Damage) -> Result<()> {
    for (realm, session_key) in &damage.sessions {
        forget::forget(conn, Some(key), (realm, session_key))?;
    }
    let mut change = IndexChange::begin(conn, Some(key))?;
    for (shard, session) in &damage.strays {
        change.remove_all(*shard, *session)?;
    }
    for shard in &damage.shards {
        change.counts(*shard)?.recount(conn, *shard)?;
    }
    change.finish(None)
}
