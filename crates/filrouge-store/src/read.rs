//! Reads rows: verifies every row that a store returns, and refuses a row that was changed (P7, DESIGN §9).

use filrouge_types::{ErrorCode, Failure, Result, SessionId, TenantId, TurnId};

use crate::chain::{GENESIS, Link, LinkScope};
use crate::command::{Erased, Scope, Viewer};
use crate::keyring::{Keyring, MAC_BYTES, equal_macs};
use crate::record::{Decoded, MacCheck, RecordFault, RecordFaultKind, RecordRow, decode};
use crate::rows::{HeadRow, ORDINAL_MAX, SessionPk, SessionRow, StoredSession, TurnRow, View};
use crate::verify::{HeadCheck, Suspects};

mod absent;
mod agents;
mod changes;
mod checkpoints;
mod decode_many;
mod drafts;
mod findings;
mod held;
mod items;
mod lists;
mod notes;
mod project;
mod redactions;
mod span;
mod text;

pub use absent::{session_conflict, session_erased, session_not_found, turn_not_found};
pub use changes::{ChangeCursor, ChangeId, ChangeKind, ChangePage, LaneCursor, SessionChange};
pub use checkpoints::NewestCheckpoint;
pub use drafts::DraftUpdate;
pub use findings::Findings;
pub use items::ItemPage;
pub use lists::{SessionPage, TurnOrder, TurnPage, TurnQuery};
pub(crate) use project::NewBatch;
pub use project::turn_content_len;
pub(crate) use redactions::{Redactions, all_redacted_seqs, redacted_seqs};
pub use text::merge_metadata;

/// A consistent view of a store that verifies every row it returns.
pub struct VerifiedSnapshot<'a, V: ?Sized> {
    /// The rows of the store, not yet verified.
    pub view: &'a V,
    /// The keys that verify the rows.
    pub keyring: &'a Keyring,
    /// Whether MACs are checked.
    pub check: MacCheck,
    /// Sessions with known integrity errors.
    pub suspects: &'a Suspects,
    /// The newest known state of all heads and notes, with which those of the snapshot are compared.
    pub heads: HeadCheck<'a>,
}

/// The snapshot that a query of a [`crate::Ledger`] reads.
pub type LedgerSnapshot<'a> = VerifiedSnapshot<'a, dyn View + 'a>;

/// A verified session, with the data that verifies its items.
pub struct VerifiedSession {
    /// The session's number in the store.
    pub pk: SessionPk,
    /// The session's row.
    pub row: SessionRow,
    /// The session's head.
    pub head: HeadRow,
    /// The inputs that all links of this session have in common.
    pub scope: LinkScope,
    /// The link of the session's newest item at the time of the read. New items are chained to it.
    pub link_when_read: Link,
}

impl VerifiedSession {
    /// The session's id as text.
    pub fn name(&self) -> &str {
        self.row.session_id.as_str()
    }

    /// An integrity failure of this session, at the item `seq` if it is given.
    pub fn integrity_failure(&self, seq: Option<u64>, detail: impl std::fmt::Display) -> Failure {
        Failure::integrity(self.name(), seq, detail)
    }
}

/// A session, or the tombstone of an erased one.
pub enum SessionOrTombstone {
    /// The session exists.
    Live(Box<VerifiedSession>),
    /// It was erased.
    Erased(Erased),
}

/// Adds the session's id to an integrity failure of `result`.
///
/// # Errors
/// The failure of `result`.
pub fn in_session<T>(id: &SessionId, result: Result<T>) -> Result<T> {
    result.map_err(|failure| match failure {
        Failure {
            code: ErrorCode::IntegrityError,
            location: None,
            hint,
            detail,
            ..
        } => Failure {
            hint,
            ..Failure::integrity(id.as_str(), None, detail)
        },
        other => other,
    })
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The session, verified; `None` if it does not exist or the caller may not see it.
    ///
    /// # Errors
    /// `session_erased` if the caller could see the session before its erasure; `integrity_error` when its rows fail
    /// verification; `key_missing` when the keyring lacks the key that verifies them.
    pub fn find(&self, scope: &Scope, id: &SessionId) -> Result<Option<VerifiedSession>> {
        match self.find_or_tombstone(scope, id)? {
            Some(SessionOrTombstone::Erased(_)) => Err(session_erased(id)),
            Some(SessionOrTombstone::Live(session)) => Ok(Some(*session)),
            None => Ok(None),
        }
    }

    /// Like [`Self::find`], but returns the tombstone of an erased session.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn find_or_tombstone(
        &self,
        scope: &Scope,
        id: &SessionId,
    ) -> Result<Option<SessionOrTombstone>> {
        let Some(session) = self.look_up(&scope.tenant, id, Some(scope))? else {
            return Ok(None);
        };
        match session.row.erased {
            None => Ok(Some(SessionOrTombstone::Live(Box::new(session)))),
            Some(erased) if self.could_see(scope, &erased) => {
                Ok(Some(SessionOrTombstone::Erased(erased)))
            }
            Some(_) => {
                // For other callers the session does not exist. The check has no effect, except that the response takes
                // as long as for an id that was never used.
                self.is_genuine(&scope.tenant, id);
                Ok(None)
            }
        }
    }

    /// The session with this id, regardless of its owner. Writes that may create a session call it.
    ///
    /// # Errors
    /// If the session was erased, `session_erased` for a caller who could see it before, `session_conflict` for others.
    /// Those of [`Self::find`].
    pub fn find_any(&self, scope: &Scope, id: &SessionId) -> Result<Option<VerifiedSession>> {
        // A backend may have cached the caller's own sessions.
        let own = self.view.session(&scope.tenant, id, Some(scope));
        let own = own.and_then(|own| own.map(|stored| self.verified_session(stored)).transpose());
        let session = match in_session(id, own)? {
            Some(session) => Some(session),
            None => self.look_up(&scope.tenant, id, None)?,
        };
        match session.as_ref().and_then(|s| s.row.erased) {
            Some(erased) if self.could_see(scope, &erased) => Err(session_erased(id)),
            Some(_) => Err(session_conflict()),
            None => Ok(session),
        }
    }

    /// Whether the caller could see the session before its erasure, by the rule of [`Scope::can_see`].
    fn could_see(&self, scope: &Scope, erased: &Erased) -> bool {
        let is_owner = |owner: [u8; MAC_BYTES]| equal_macs(&owner, &erased.owner);
        scope.viewer == Viewer::Operator
            || is_owner(self.keyring.owner(None, None))
            || is_owner(self.keyring.owner(None, scope.token))
            || is_owner(self.keyring.owner(scope.viewer.identity(), None))
    }

    /// Whether lists show the caller the sessions of an owner with this hash, by the rule of [`Scope::can_list`].
    fn can_list_owner(&self, scope: &Scope, session_owner: &[u8; MAC_BYTES]) -> bool {
        let owner = match &scope.viewer {
            Viewer::Operator => return true,
            Viewer::EndUser(Some(viewer)) => self.keyring.owner(Some(viewer), None),
            Viewer::EndUser(None) => self.keyring.owner(None, scope.token),
        };
        equal_macs(&owner, session_owner)
    }

    /// Looks up a session, or the tombstone of one. `None` if no such session exists or `scope` may not see it.
    fn look_up(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<VerifiedSession>> {
        let result = match self.view.session(tenant, id, scope) {
            Ok(Some(stored)) => self.verified_session(stored).map(Some),
            // A verified session of another owner looks absent (P6), even while other sessions are suspect.
            Ok(None) if scope.is_some() && self.is_genuine(tenant, id) => Ok(None),
            Ok(None) => self.check_absent(tenant, id).map(|()| None),
            Err(failure) => Err(failure),
        };
        in_session(id, result)
    }

    /// Fails if an absent session was deleted or renamed outside filrouge.
    fn check_absent(&self, tenant: &TenantId, id: &SessionId) -> Result<()> {
        self.suspects.check_absent(tenant, id)?;
        self.heads
            .check_absent(self.view, self.keyring, (tenant, id))
    }

    /// Whether the session exists and passes verification.
    fn is_genuine(&self, tenant: &TenantId, id: &SessionId) -> bool {
        let stored = self.view.session(tenant, id, None);
        stored.is_ok_and(|s| s.is_some_and(|s| self.verified_session(s).is_ok()))
    }

    /// The session, verified; an absent session is a failure.
    ///
    /// # Errors
    /// Those of [`Self::find`], and `session_not_found`.
    pub fn get(&self, scope: &Scope, id: &SessionId) -> Result<VerifiedSession> {
        self.find(scope, id)?.ok_or_else(|| session_not_found(id))
    }

    /// Verifies a stored session: its head by the MAC, and its row by the head.
    pub(crate) fn verified_session(&self, stored: StoredSession) -> Result<VerifiedSession> {
        let StoredSession {
            pk,
            row,
            head,
            updated_at,
        } = stored;
        let refuse = |detail: &str| Failure::integrity(row.session_id.as_str(), None, detail);
        self.suspects.check(pk, &row.session_id)?;
        let head = head.ok_or_else(|| refuse("its head is missing or malformed"))?;
        if self.check == MacCheck::Keyed {
            match head.mac_matches(self.keyring, pk) {
                Some(true) => {}
                Some(false) => return Err(refuse("its head was changed (the MAC does not match)")),
                None => return Err(key_missing(row.session_id.as_str())),
            }
        }
        if row.fingerprint() != head.session {
            return Err(refuse("its row was changed"));
        }
        let (id, state) = (&row.session_id, (pk, &head.mac));
        self.heads
            .check_session(self.view, self.keyring, id, state)?;
        if updated_at != head.updated_at {
            return Err(refuse("its place in lists was changed"));
        }
        let scope = LinkScope::new(&row.tenant_id, &row.session_id);
        Ok(VerifiedSession {
            pk,
            link_when_read: head.link,
            row,
            head,
            scope,
        })
    }

    /// Decodes and verifies one record of a session. Also checks that redactions name exactly the items without content;
    /// `redactions` caches the session's redactions.
    pub(crate) fn decode_record(
        &self,
        session: &VerifiedSession,
        row: &RecordRow,
        redactions: &mut Redactions,
    ) -> Result<Decoded> {
        let decoded = self.decode_without_redactions(session, row)?;
        self.check_redactions(session, &decoded, redactions)?;
        Ok(decoded)
    }

    /// Decodes and verifies one record of a session; the check of redactions is left to the caller.
    pub(crate) fn decode_without_redactions(
        &self,
        session: &VerifiedSession,
        row: &RecordRow,
    ) -> Result<Decoded> {
        decode(row, &session.scope, self.keyring, self.check)
            .map_err(|fault| self.record_failure(session, &fault))
    }

    /// The failure for a record that cannot be decoded or verified.
    fn record_failure(&self, session: &VerifiedSession, fault: &RecordFault) -> Failure {
        match fault.kind {
            RecordFaultKind::KeyMissing(_) => key_missing(session.name()),
            kind => session.integrity_failure(Some(fault.seq), kind),
        }
    }

    /// A turn of the session, verified; `None` when the session has no turn with this id. Also checks that no turn row
    /// is missing.
    ///
    /// # Errors
    /// `turn_mismatch` when the turn belongs to another session that the caller may see; `integrity_error`.
    pub fn find_turn(
        &self,
        session: &VerifiedSession,
        scope: &Scope,
        id: &TurnId,
    ) -> Result<Option<TurnRow>> {
        let row = self.stored_turn(session, id)?;
        if row.is_some() {
            return Ok(row);
        }
        self.check_not_in_other_session(session, scope, id)?;
        self.check_all_turn_rows(session)?;
        Ok(None)
    }

    /// Like [`Self::find_turn`], without the checks that count all turn rows and search other sessions for the turn.
    /// The start of a turn calls it, because the turn is nearly always new (P8).
    pub(crate) fn stored_turn(
        &self,
        session: &VerifiedSession,
        id: &TurnId,
    ) -> Result<Option<TurnRow>> {
        let row = self.view.turn(session.pk, id)?;
        row.map(|row| self.verified_turn(session, row)).transpose()
    }

    /// Fails with `turn_mismatch` when the turn belongs to another session that the caller may see.
    fn check_not_in_other_session(
        &self,
        session: &VerifiedSession,
        scope: &Scope,
        id: &TurnId,
    ) -> Result<()> {
        let Some(pk) = self
            .view
            .session_of_turn(id)?
            .filter(|pk| *pk != session.pk)
        else {
            return Ok(());
        };
        match self.view.session_by_pk(pk)? {
            Some(other)
                if other.row.tenant_id == session.row.tenant_id && scope.can_see(&other.row) =>
            {
                Err(ErrorCode::TurnMismatch
                    .failure(format!("turn {id} belongs to another session")))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn verified_turn(&self, session: &VerifiedSession, row: TurnRow) -> Result<TurnRow> {
        self.check_turn_mac(session, &row)?;
        if !row.status.is_closed() {
            self.check_no_later_items(session, &row)?;
        }
        Ok(row)
    }

    /// Checks a turn row's MAC.
    pub(crate) fn check_turn_mac(&self, session: &VerifiedSession, row: &TurnRow) -> Result<()> {
        let mac_matches = row.mac_matches(self.keyring, session.pk);
        self.check_mac(session, mac_matches, Some(row.first_seq), || {
            format!("turn {} was changed (its MAC does not match)", row.turn_id)
        })
    }

    /// Refuses a row with a wrong MAC, unless MAC checks are off.
    fn check_mac(
        &self,
        session: &VerifiedSession,
        mac_matches: Option<bool>,
        seq: Option<u64>,
        changed: impl FnOnce() -> String,
    ) -> Result<()> {
        match mac_matches {
            _ if self.check == MacCheck::Unverified => Ok(()),
            Some(true) => Ok(()),
            Some(false) => Err(session.integrity_failure(seq, changed())),
            None => Err(key_missing(session.name())),
        }
    }

    /// Checks that an open turn's row covers the turn's newest item. An older version of the row, put back outside
    /// filrouge, would not cover it. Only a limited number of later records is read, because a turn's items are usually
    /// close together; `verify` reads all records.
    fn check_no_later_items(&self, session: &VerifiedSession, turn: &TurnRow) -> Result<()> {
        let next_seq = turn.last_seq + 1;
        if next_seq > session.head.last_seq {
            return Ok(());
        }
        let rows = self
            .view
            .records(session.pk, next_seq, RECORDS_AFTER_OPEN_TURN)?;
        if rows.is_empty() {
            return Err(session.integrity_failure(Some(next_seq), RecordFaultKind::Missing));
        }
        let is_later =
            |row: &&RecordRow| row.first_seq >= next_seq && row.turn_id() == Some(turn.turn_id);
        match rows.iter().find(is_later) {
            Some(row) => {
                let detail = format!(
                    "turn {} has items that its row does not cover",
                    turn.turn_id
                );
                Err(session.integrity_failure(Some(row.first_seq), detail))
            }
            None => Ok(()),
        }
    }
}

/// The number of records that are read to find later items of an open turn. It limits the cost of reading a turn that
/// has long been open.
const RECORDS_AFTER_OPEN_TURN: usize = 64;

pub(crate) fn key_missing(session: &str) -> Failure {
    Failure::new(
        ErrorCode::KeyMissing,
        format!("session {session:?} was written with a key that is not in the keyring"),
    )
    .with_hint("put the keyring file back, or read with --unverified")
}

/// The range of all places ([`TurnRow::place`]) of a session's turns.
pub const ALL_PLACES: (u64, u64) = (0, (ORDINAL_MAX << 8) | 0xff);

/// The link before the item with this seq: the genesis link for the first item, `None` for a later item, whose record
/// stores the link.
pub(crate) const fn genesis_for(seq: u64) -> Option<&'static Link> {
    if seq <= 1 { Some(&GENESIS) } else { None }
}
