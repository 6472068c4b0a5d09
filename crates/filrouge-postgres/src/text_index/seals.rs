//! The seals of the index, its shards and its sessions: how changes keep them, and how searches check them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use filrouge_store::text_index::{
    IndexKey, IndexScope, Member, Members, NewDocument, SEAL_BYTES, SealedRow, SessionUpdate,
    Shard, content_hash,
};
use filrouge_types::{Failure, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::state::{self, StoredSession};
use super::statement::{StatementBuilder, without_nul};
use crate::error::malformed;
use crate::rows::{bytes, column};
use crate::session::Sql;

/// The shortest time between two checks of a scope.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two checks of a scope is at least this many times as long as a check takes.
const PAUSE_FACTOR: u32 = 20;
/// The maximum number of scopes whose next check is remembered.
const SCOPES_MAX: usize = 4096;

/// The columns of a document `d` that [`read_member`] reads.
macro_rules! sealed_columns {
    () => {
        "d.no, d.session, d.key, d.unit, d.kind::bigint AS kind, d.created, d.digest,
         sha256(sha256(convert_to(d.folded, 'UTF8')) || sha256(d.body)) AS content"
    };
}
pub(super) use sealed_columns;

/// Reads a document as a member of its session.
fn read_member(row: &Row) -> Result<Member<'_>> {
    let number = |index| Ok::<_, Failure>(column::<i64>(row, index)?.cast_unsigned());
    Ok(Member::Document {
        no: number(0)?,
        session: number(1)?,
        key: std::str::from_utf8(bytes(row, 2)?).map_err(|_| malformed("text"))?,
        fields: [number(3)?, number(4)?, number(5)?, number(6)?],
        content: bytes(row, 7)?,
    })
}

/// A shard's row.
struct StoredShard {
    no: i64,
    shard: Shard,
    seal: Option<Vec<u8>>,
    realm_no: i64,
}

impl StoredShard {
    /// Reads the columns no, realm, owner, seal, realm_no.
    fn read(row: &Row) -> Result<Self> {
        Ok(Self {
            no: column(row, 0)?,
            shard: Shard {
                realm: bytes(row, 1)?.into(),
                owner: bytes(row, 2)?.into(),
            },
            seal: column(row, 3)?,
            realm_no: column(row, 4)?,
        })
    }

    const fn sealed_row(&self) -> SealedRow<'_> {
        SealedRow::Shard(self.no.cast_unsigned(), &self.shard, &[])
    }

    /// The sessions with which the shard is sealed.
    fn members(&self, key: &IndexKey) -> Result<Members> {
        let members = key.open(&self.sealed_row(), self.seal.as_deref());
        members.ok_or_else(|| malformed("seal of a shard"))
    }

    /// The shard with this seal, as a member of the index.
    const fn member<'a>(&'a self, seal: &'a [u8]) -> Member<'a> {
        let numbers = [self.no.cast_unsigned(), self.realm_no.cast_unsigned()];
        Member::Shard(numbers, &self.shard, seal)
    }
}

/// The seals that a change writes at its end; without a key, none.
pub(super) struct Seals<'k> {
    key: Option<&'k IndexKey>,
    /// The shards that the change has used, with their sessions.
    shards: BTreeMap<i64, (StoredShard, Members)>,
}

impl<'k> Seals<'k> {
    pub(super) const fn new(key: Option<&'k IndexKey>) -> Self {
        Self {
            key,
            shards: BTreeMap::new(),
        }
    }

    /// The documents with which a session is sealed. `None` if the session was forgotten, or if its seal is wrong.
    pub(super) fn documents_of(&self, stored: &StoredSession) -> Option<Members> {
        match self.key {
            None => Some(Members::default()),
            Some(_) if stored.is_forgotten() => None,
            Some(key) => key.open(&stored.sealed_row(), stored.seal.as_deref()),
        }
    }

    pub(super) fn add_document(
        &self,
        members: &mut Members,
        (session, no): (i64, i64),
        document: &NewDocument,
    ) {
        if let Some(key) = self.key {
            let [session, no] = [session, no].map(i64::cast_unsigned);
            let content = content_hash(&without_nul(&document.folded), &document.body);
            members.add(key, &Member::new_document(session, no, document, &content));
        }
    }

    /// Removes a document, given by its sealed columns.
    pub(super) fn remove_document(&self, members: &mut Members, row: &Row) -> Result<()> {
        if let Some(key) = self.key {
            members.remove(key, &read_member(row)?);
        }
        Ok(())
    }

    /// The sessions of a shard.
    fn sessions(&mut self, tx: &Transaction<'_>, key: &IndexKey, no: i64) -> Result<&mut Members> {
        static SQL: Sql = Sql::new(
            "SELECT no, realm, owner, seal, realm_no FROM filrouge.search_shard WHERE no = $1",
            &[Type::INT8],
        );
        let (_, members) = match self.shards.entry(no) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let row = tx.query_opt(&SQL, &[&no])?;
                let shard = StoredShard::read(&row.ok_or_else(|| malformed("shard"))?)?;
                let members = shard.members(key)?;
                entry.insert((shard, members))
            }
        };
        Ok(members)
    }

    /// Removes a session from the members of its shard.
    pub(super) fn remove_session(
        &mut self,
        tx: &Transaction<'_>,
        stored: &StoredSession,
    ) -> Result<()> {
        if let Some(key) = self.key {
            let sessions = self.sessions(tx, key, stored.shard)?;
            sessions.remove(key, &stored.member());
        }
        Ok(())
    }

    /// Seals a session with its documents, and makes it a member of its shard instead of the row `stored`.
    pub(super) fn seal_session(
        &mut self,
        tx: &Transaction<'_>,
        (shard, session): (i64, i64),
        update: &SessionUpdate,
        stored: Option<&StoredSession>,
        documents: Members,
    ) -> Result<()> {
        static SQL: Sql = Sql::new(
            "UPDATE filrouge.search_session SET seal = $2 WHERE no = $1",
            &[Type::INT8, Type::BYTEA],
        );
        let Some(key) = self.key else {
            return Ok(());
        };
        let no = session.cast_unsigned();
        let row = SealedRow::Session(no, &update.shard, &update.entry);
        let seal = key.seal(&row, documents)?;
        tx.query_all(&SQL, &[&session, &seal.as_slice()])?;
        if let Some(stored) = stored {
            self.remove_session(tx, stored)?;
        }
        let member = Member::Session(shard.cast_unsigned(), no, &update.entry.key, &seal);
        self.sessions(tx, key, shard)?.add(key, &member);
        Ok(())
    }

    /// Writes the feed position, if one is given, and the seals of the changed shards and of the index. `removed`: the
    /// shards that the change has deleted.
    pub(super) fn write(
        self,
        tx: &Transaction<'_>,
        removed: &[i64],
        position: Option<&[u8]>,
    ) -> Result<()> {
        static SEAL_SHARD: Sql = Sql::new(
            "UPDATE filrouge.search_shard SET seal = $2 WHERE no = $1",
            &[Type::INT8, Type::BYTEA],
        );
        static WRITE: Sql = Sql::new(
            "UPDATE filrouge.search_state SET position = $1, seal = $2",
            &[Type::BYTEA, Type::BYTEA],
        );
        if position.is_none() && self.shards.is_empty() {
            return Ok(());
        }
        let (stored_position, stored_seal) = read_state(tx)?;
        let position = position.or(stored_position.as_deref());
        let mut seal = None;
        if let Some(key) = self.key {
            let mut members = open_state(key, stored_position.as_deref(), stored_seal.as_deref())?;
            for (no, (shard, sessions)) in &self.shards {
                // A new shard has no seal before.
                if let Some(previous) = &shard.seal {
                    members.remove(key, &shard.member(previous));
                }
                if removed.contains(no) {
                    // Somebody may have deleted the shard's other sessions.
                    if *sessions != Members::default() {
                        return Err(malformed("set of sessions"));
                    }
                    continue;
                }
                let seal = key.seal(&shard.sealed_row(), *sessions)?;
                tx.query_all(&SEAL_SHARD, &[no, &seal.as_slice()])?;
                members.add(key, &shard.member(&seal));
            }
            seal = Some(key.seal(&SealedRow::Index(position), members)?);
        }
        let seal = seal.as_ref().map(<[u8; SEAL_BYTES]>::as_slice);
        tx.query_all(&WRITE, &[&position, &seal]).map(drop)
    }
}

/// The feed position and the seal of the index.
type StoredState = (Option<Vec<u8>>, Option<Vec<u8>>);

fn read_state(tx: &Transaction<'_>) -> Result<StoredState> {
    static SQL: Sql = Sql::new("SELECT position, seal FROM filrouge.search_state", &[]);
    let row = tx.query_opt(&SQL, &[])?;
    let row = row.ok_or_else(|| malformed("state of the search index"))?;
    Ok((column(&row, 0)?, column(&row, 1)?))
}

/// The shards with which the index is sealed.
fn open_state(key: &IndexKey, position: Option<&[u8]>, seal: Option<&[u8]>) -> Result<Members> {
    let members = key.open(&SealedRow::Index(position), seal);
    members.ok_or_else(|| malformed("seal"))
}

/// Compares the shards of the index, also their names and the numbers of their realms, with its seal.
///
/// # Errors
/// `integrity_error` when they differ.
pub(super) fn check_index(tx: &Transaction<'_>, key: &IndexKey) -> Result<()> {
    static SQL: Sql = Sql::new(
        "SELECT no, realm, owner, seal, realm_no FROM filrouge.search_shard",
        &[],
    );
    let (position, seal) = read_state(tx)?;
    let members = open_state(key, position.as_deref(), seal.as_deref())?;
    let (mut found, mut realms) = (Members::default(), HashSet::new());
    for row in tx.query_all(&SQL, &[])? {
        let shard = StoredShard::read(&row)?;
        // The change that creates a shard also seals it.
        let seal = shard.seal.as_deref().ok_or_else(|| malformed("shard"))?;
        found.add(key, &shard.member(seal));
        realms.insert((shard.realm_no, shard.shard.realm));
    }
    // A new shard gets its realm's number from another row, which somebody may have changed before.
    let numbers: HashSet<i64> = realms.iter().map(|(no, _)| *no).collect();
    let names: HashSet<&[u8]> = realms.iter().map(|(_, realm)| &**realm).collect();
    let are_realms_distinct = numbers.len() == realms.len() && names.len() == realms.len();
    match found == members && are_realms_distinct {
        true => Ok(()),
        false => Err(malformed("set of shards")),
    }
}

/// The number of a damaged session, and its key if it is in the scope of a check.
pub(super) type DamagedSession = (i64, Option<Box<str>>);

/// Compares the sessions and documents of a scope with their seals. Returns the damaged sessions.
///
/// # Errors
/// `integrity_error` for damage that concerns more than single sessions.
pub(super) fn check(
    tx: &Transaction<'_>,
    key: &IndexKey,
    scope: &IndexScope,
) -> Result<Vec<DamagedSession>> {
    let mut documents = read_documents(tx, key, scope)?;
    let (mut sessions, mut damaged) = (HashMap::<i64, Members>::new(), Vec::new());
    for stored in state::stored_sessions(tx, scope)? {
        let members = sessions.entry(stored.shard).or_default();
        members.add(key, &stored.member());
        let place = [stored.realm_no, stored.shard, stored.no()];
        let found = documents.remove(&place).unwrap_or_default();
        let sealed = match stored.is_forgotten() {
            true => Some(Members::default()),
            false => key.open(&stored.sealed_row(), stored.seal.as_deref()),
        };
        if sealed != Some(found) {
            damaged.push((stored.no(), Some(stored.session.entry.key)));
        }
    }
    let mut statement = StatementBuilder::default();
    let within = statement.within(scope, "no", "realm_no");
    let text = format!(
        "SELECT no, realm, owner, seal, realm_no FROM filrouge.search_shard WHERE {within}"
    );
    for row in tx.query_text(&text, statement.types(), &statement.params())? {
        let shard = StoredShard::read(&row)?;
        if sessions.remove(&shard.no).unwrap_or_default() != shard.members(key)? {
            return Err(malformed("set of sessions"));
        }
    }
    // Documents that belong to no session of the scope.
    let strays = documents.into_keys();
    damaged.extend(strays.map(|[_, _, session]| (session, None)));
    Ok(damaged)
}

/// The documents of a scope, by the numbers of their realm, shard and session.
fn read_documents(
    tx: &Transaction<'_>,
    key: &IndexKey,
    scope: &IndexScope,
) -> Result<HashMap<[i64; 3], Members>> {
    let mut statement = StatementBuilder::default();
    let within = statement.within(scope, "d.shard + 0", "d.realm + 0");
    let columns = sealed_columns!();
    let text = format!(
        "SELECT {columns}, d.shard, d.realm FROM filrouge.search_document d WHERE {within}"
    );
    let mut documents: HashMap<[i64; 3], Members> = HashMap::new();
    for row in tx.query_text(&text, statement.types(), &statement.params())? {
        let place = [column(&row, 9)?, column(&row, 8)?, column(&row, 1)?];
        let members = documents.entry(place).or_default();
        members.add(key, &read_member(&row)?);
    }
    Ok(documents)
}

/// When the index, and each scope, is checked next.
#[derive(Default)]
pub(super) struct NextChecks(HashMap<Option<IndexScope>, Instant>);

impl NextChecks {
    /// Whether the check of a scope is due; `None`: of the index.
    pub(super) fn is_due(&self, scope: Option<&IndexScope>) -> bool {
        let next = self.0.get(&scope.cloned());
        next.is_none_or(|next| *next <= Instant::now())
    }

    /// Records a check of a scope that began at this time and found no damage.
    pub(super) fn record(&mut self, scope: Option<&IndexScope>, began: Instant) {
        if self.0.len() >= SCOPES_MAX {
            self.0.clear();
        }
        let pause = (began.elapsed() * PAUSE_FACTOR).max(CHECK_INTERVAL);
        self.0.insert(scope.cloned(), Instant::now() + pause);
    }
}
