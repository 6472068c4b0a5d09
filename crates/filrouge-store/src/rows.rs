//! The rows a ledger keeps, and the two traits a backend implements over them (docs/format.md).

use filrouge_types::{
    Failure, IdentityId, ItemId, ProjectId, RawJson, Session, SessionId, SessionStatus, TenantId,
    Timestamp, TurnId, TurnStatus,
};

use crate::chain::{Digest, GENESIS, Link, fingerprint};
use crate::codec::{Malformed, Reader, Write};
use crate::command::{SessionFilter, Viewer};
use crate::keyring::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};
use crate::record::RecordRow;

mod log;
pub use log::{LogEntry, LogRow};

/// A session's number in one store; never leaves the store.
pub type SessionPk = u64;

/// Highest session number, item seq, ordinal and version that the packed keys can hold.
pub const PK_MAX: u64 = (1 << 31) - 1;
/// Highest seq in a session.
pub const SEQ_MAX: u64 = (1 << 32) - 1;
/// Highest ordinal in a session.
pub const ORDINAL_MAX: u64 = (1 << 24) - 1;
/// Highest record version of a turn.
pub const VERSION_MAX: u64 = 1 << 8;

/// What is listed and seldom changes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its id.
    pub session_id: SessionId,
    /// Its owner.
    pub identity_id: Option<IdentityId>,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team.
    pub team_id: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// Whether it goes on.
    pub status: SessionStatus,
    /// The application's label.
    pub state: Option<Box<str>>,
    /// The application's data.
    pub metadata: RawJson,
    /// When it was made.
    pub created_at: Timestamp,
}

impl SessionRow {
    /// What the head row vouches for: a hash of all columns.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        let optional = |text: Option<&str>| match text {
            Some(text) => [b"1", text.as_bytes()].concat(),
            None => b"0".to_vec(),
        };
        fingerprint(&[
            b"session row",
            self.tenant_id.as_str().as_bytes(),
            self.session_id.as_str().as_bytes(),
            &optional(self.identity_id.as_ref().map(IdentityId::as_str)),
            &optional(self.parent_session_id.as_ref().map(SessionId::as_str)),
            &optional(self.project_id.as_ref().map(ProjectId::as_str)),
            &optional(self.team_id.as_deref()),
            &optional(self.title.as_deref()),
            &[self.status.code()],
            &optional(self.state.as_deref()),
            self.metadata.as_str().as_bytes(),
            &self.created_at.as_micros().to_be_bytes(),
        ])
    }

    /// The public record, with what the head adds.
    #[must_use]
    pub fn with_head(self, head: &HeadRow) -> Session {
        Session {
            session_id: self.session_id,
            tenant_id: self.tenant_id,
            identity_id: self.identity_id,
            parent_session_id: self.parent_session_id,
            project_id: self.project_id,
            team_id: self.team_id,
            title: self.title,
            status: self.status,
            state: self.state,
            last_seq: head.last_seq,
            turn_count: head.turn_count,
            metadata: self.metadata,
            created_at: self.created_at,
            updated_at: head.updated_at,
        }
    }
}

/// What changes of a session with every append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRow {
    /// The newest seq.
    pub last_seq: u64,
    /// The newest ordinal.
    pub turn_count: u64,
    /// How many turns are open.
    pub open_turns: u64,
    /// The link of the newest item.
    pub link: Link,
    /// When a turn last began or ended.
    pub updated_at: Timestamp,
    /// [`SessionRow::fingerprint`] of the session's row.
    pub session: [u8; 16],
    key_id: KeyId,
    /// Over all of the above and the session's number.
    pub mac: [u8; MAC_BYTES],
}

impl HeadRow {
    /// The unsealed head of a session without items.
    #[must_use]
    pub const fn empty(session: [u8; 16], now: Timestamp) -> Self {
        Self {
            last_seq: 0,
            turn_count: 0,
            open_turns: 0,
            link: GENESIS,
            updated_at: now,
            session,
            key_id: 0,
            mac: [0; MAC_BYTES],
        }
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        out.byte(crate::record::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.number(self.last_seq);
        out.number(self.turn_count);
        out.number(self.open_turns);
        out.extend_from_slice(&self.link);
        out.time(self.updated_at);
        out.extend_from_slice(&self.session);
        out
    }

    /// Signs the row with the active key.
    #[must_use]
    pub fn sealed(mut self, keyring: &Keyring, pk: SessionPk) -> Self {
        self.key_id = keyring.active();
        self.mac = keyring
            .mac(self.key_id, Domain::Head, &[&pk.to_be_bytes(), &self.body()])
            .unwrap_or_default();
        self
    }

    /// Checks the MAC; `None` when the key is missing.
    #[must_use]
    pub fn verified(&self, keyring: &Keyring, pk: SessionPk) -> Option<bool> {
        let mac = keyring.mac(self.key_id, Domain::Head, &[&pk.to_be_bytes(), &self.body()])?;
        Some(equal_macs(&mac, &self.mac))
    }

    /// The stored bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.body();
        out.extend_from_slice(&self.mac);
        out
    }

    /// Reads stored bytes; `None` when they are malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read(bytes).ok()
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader(bytes);
        if r.byte()? != crate::record::FORMAT {
            return Err(Malformed);
        }
        let key_id = KeyId::from_be_bytes(r.array()?);
        let row = Self {
            last_seq: r.number()?,
            turn_count: r.number()?,
            open_turns: r.number()?,
            link: r.array()?,
            updated_at: r.time()?,
            session: r.array()?,
            key_id,
            mac: r.array()?,
        };
        if r.is_empty() { Ok(row) } else { Err(Malformed) }
    }
}

/// Where a turn stands; its header and texts are in its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Its id.
    pub turn_id: TurnId,
    /// Its place in the session.
    pub ordinal: u64,
    /// 1, or one more than what it replaces.
    pub record_version: u64,
    /// Where it stands.
    pub status: TurnStatus,
    /// The seq of its first item.
    pub first_seq: u64,
    /// The seq of its newest item.
    pub last_seq: u64,
    /// How many items it has.
    pub items: u64,
    /// The seqs of its finals, neutral and translated; 0 for none.
    pub finals: [u64; 2],
    /// When it was last written to.
    pub touched_at: Timestamp,
    key_id: KeyId,
    mac: [u8; MAC_BYTES],
}

impl TurnRow {
    /// An unsealed row of a turn that begins at `first_seq`.
    #[must_use]
    pub const fn new(turn_id: TurnId, ordinal: u64, record_version: u64, first_seq: u64, now: Timestamp) -> Self {
        Self {
            turn_id,
            ordinal,
            record_version,
            status: TurnStatus::Open,
            first_seq,
            last_seq: first_seq,
            items: 0,
            finals: [0, 0],
            touched_at: now,
            key_id: 0,
            mac: [0; MAC_BYTES],
        }
    }

    /// Ordinal and version in one number: the row's key in its session.
    #[must_use]
    pub const fn place(&self) -> u64 {
        (self.ordinal << 8) | (self.record_version - 1)
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        out.byte(crate::record::FORMAT);
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.byte(self.status.code());
        for n in [self.first_seq, self.last_seq - self.first_seq, self.items] {
            out.number(n);
        }
        for n in self.finals {
            // Finals lie within the turn, so their distance from its start is a shorter number.
            out.number(n.checked_sub(self.first_seq).map_or(0, |d| d + 1));
        }
        out.time(self.touched_at);
        out
    }

    fn mac(&self, keyring: &Keyring, pk: SessionPk) -> Option<[u8; MAC_BYTES]> {
        let (pk, place) = (pk.to_be_bytes(), self.place().to_be_bytes());
        keyring.mac(self.key_id, Domain::Turn, &[&pk, &place, self.turn_id.as_bytes(), &self.body()])
    }

    /// Signs the row with the active key.
    #[must_use]
    pub fn sealed(mut self, keyring: &Keyring, pk: SessionPk) -> Self {
        self.key_id = keyring.active();
        self.mac = self.mac(keyring, pk).unwrap_or_default();
        self
    }

    /// Checks the MAC; `None` when the key is missing.
    #[must_use]
    pub fn verified(&self, keyring: &Keyring, pk: SessionPk) -> Option<bool> {
        Some(equal_macs(&self.mac(keyring, pk)?, &self.mac))
    }

    /// The stored bytes, without id and place, which are the row's keys.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.body();
        out.extend_from_slice(&self.mac);
        out
    }

    /// Reads stored bytes; `None` when they are malformed.
    #[must_use]
    pub fn decode(turn_id: TurnId, place: u64, bytes: &[u8]) -> Option<Self> {
        Self::read(turn_id, place, bytes).ok()
    }

    fn read(turn_id: TurnId, place: u64, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader(bytes);
        if r.byte()? != crate::record::FORMAT {
            return Err(Malformed);
        }
        let key_id = KeyId::from_be_bytes(r.array()?);
        let status = TurnStatus::from_code(r.byte()?).ok_or(Malformed)?;
        let first_seq = r.number()?;
        let last_seq = first_seq.checked_add(r.number()?).ok_or(Malformed)?;
        let items = r.number()?;
        let mut finals = [0; 2];
        for f in &mut finals {
            *f = match r.number()? {
                0 => 0,
                d => first_seq.checked_add(d - 1).ok_or(Malformed)?,
            };
        }
        let row = Self {
            turn_id,
            ordinal: place >> 8,
            record_version: (place & 0xff) + 1,
            status,
            first_seq,
            last_seq,
            items,
            finals,
            touched_at: r.time()?,
            key_id,
            mac: r.array()?,
        };
        if r.is_empty() { Ok(row) } else { Err(Malformed) }
    }
}

/// A session as a view finds it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its number.
    pub pk: SessionPk,
    /// Its row.
    pub row: SessionRow,
    /// Its head; `None` when the head is missing or malformed.
    pub head: Option<HeadRow>,
}

/// One consistent sight of a ledger. All answers are rows as stored, not yet verified.
///
/// Every method fails with `store_unavailable` (or another code of the backend) when the store does not answer.
pub trait View {
    /// The session `id` of `tenant`, if `viewer` may see it; without a viewer, whoever owns it.
    fn session(&self, tenant: &TenantId, id: &SessionId, viewer: Option<&Viewer>) -> Result<Option<Stored>, Failure>;
    /// The session with number `pk`.
    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<Stored>, Failure>;
    /// The sessions of a tenant that `viewer` may see, newest first, below `before`, at most `limit`.
    fn sessions(
        &self,
        tenant: &TenantId,
        viewer: &Viewer,
        filter: &SessionFilter,
        before: Option<SessionPk>,
        limit: usize,
    ) -> Result<Vec<Stored>, Failure>;
    /// The turn with this id, in whichever session.
    fn turn(&self, id: &TurnId) -> Result<Option<(SessionPk, TurnRow)>, Failure>;
    /// Turns of a session with `place` in `from..=to`, ascending or descending, at most `limit`.
    fn turns(&self, pk: SessionPk, from: u64, to: u64, descending: bool, limit: usize) -> Result<Vec<TurnRow>, Failure>;
    /// How many turn rows a session has.
    fn turn_rows(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// Open turns not touched since `before`, oldest first, at most `limit`.
    fn silent_turns(&self, before: Timestamp, limit: usize) -> Result<Vec<(SessionPk, TurnRow)>, Failure>;
    /// The records from the one that holds `seq` on, ascending, at most `limit`.
    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>, Failure>;
    /// The last seq of the newest record; 0 when there is none.
    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// The seq of the item with this key.
    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure>;
    /// The number of item keys of a session.
    fn item_keys(&self, pk: SessionPk) -> Result<u64, Failure>;
    /// Commit log rows after `commit_no`, ascending, at most `limit`.
    fn log(&self, after: u64, limit: usize) -> Result<Vec<LogRow>, Failure>;
    /// The newest row of the commit log.
    fn newest_log(&self) -> Result<Option<LogRow>, Failure>;
    /// The sum of all head MACs.
    fn digest(&self) -> Result<Digest, Failure>;
}

/// A transaction that writes.
pub trait Tx: View {
    /// Adds a session and gives it a number.
    fn insert_session(&mut self, row: &SessionRow) -> Result<SessionPk, Failure>;
    /// Writes a session's head.
    fn put_head(&mut self, pk: SessionPk, head: &HeadRow) -> Result<(), Failure>;
    /// Adds a turn.
    fn insert_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure>;
    /// Writes a turn that is there.
    fn update_turn(&mut self, pk: SessionPk, row: &TurnRow) -> Result<(), Failure>;
    /// Adds a record.
    fn insert_record(&mut self, pk: SessionPk, row: &RecordRow) -> Result<(), Failure>;
    /// Adds an item's key.
    fn insert_item_key(&mut self, pk: SessionPk, id: &ItemId, seq: u64) -> Result<(), Failure>;
    /// Adds a row to the commit log.
    fn insert_log(&mut self, row: &LogRow) -> Result<(), Failure>;
}

/// The 16 bytes an item's key is indexed by.
#[must_use]
pub fn item_key(id: &ItemId) -> [u8; 16] {
    fingerprint(&[b"item key", id.as_str().as_bytes()])
}
