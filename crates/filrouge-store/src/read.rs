//! Reading: every row that leaves a store is verified here, and refused when it is not what was written
//! (P7, DESIGN §9).

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId, TurnId};

use crate::chain::{GENESIS, Link, LinkScope};
use crate::command::{Erased, Scope, Viewer};
use crate::keyring::{Keyring, MAC_BYTES, equal_macs};
use crate::record::{Check, Decoded, Fault, FaultKind, RecordRow, decode};
use crate::rows::{HeadRow, ORDINAL_MAX, SessionPk, SessionRow, Stored, TurnRow, View};
use crate::verify::Suspects;

mod absent;
mod agents;
mod changes;
mod checkpoints;
mod decode_many;
mod drafts;
mod items;
mod lists;
mod notes;
mod project;
mod redactions;
mod span;
mod text;

pub use absent::{session_conflict, session_erased, session_not_found, turn_not_found};
pub use agents::agents;
pub use changes::{ChangeCursor, ChangeKind, ChangePage, SessionChange};
pub use checkpoints::NewestCheckpoint;
pub use drafts::DraftNews;
pub use items::ItemPage;
pub use lists::{SessionPage, TurnOrder, TurnPage, TurnQuery};
pub(crate) use project::Fresh;
pub use project::turn_len;
pub(crate) use redactions::{Redactions, named_by};
pub use text::merged;

/// A view with what is needed to verify what it shows.
pub struct Sight<'a, V: ?Sized> {
    /// The rows.
    pub view: &'a V,
    /// The keys.
    pub keyring: &'a Keyring,
    /// Whether MACs are checked.
    pub check: Check,
    /// Sessions known not to be what was written.
    pub suspects: &'a Suspects,
}

/// A verified session with what its items are verified by.
pub struct Loaded {
    /// Its number.
    pub pk: SessionPk,
    /// Its row.
    pub row: SessionRow,
    /// Its head.
    pub head: HeadRow,
    /// Its link scope.
    pub scope: LinkScope,
    /// The link of its newest item when it was read: what a write puts items behind.
    pub before: Link,
}

impl Loaded {
    /// The id as text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.row.session_id.as_str()
    }

    /// A failure of this session's stored data.
    pub fn broken(&self, seq: Option<u64>, what: impl std::fmt::Display) -> Failure {
        Failure::integrity(self.name(), seq, what)
    }
}

/// A session, or what stays of it.
pub enum Gone {
    /// It is there.
    Not(Box<Loaded>),
    /// It was erased.
    Erased(Erased),
}

/// Names the session in a failure of its stored rows.
///
/// # Errors
/// That of `result`.
pub fn in_session<T>(id: &SessionId, result: Result<T, Failure>) -> Result<T, Failure> {
    result.map_err(|failure| match failure {
        Failure {
            code: ErrorCode::IntegrityError,
            place: None,
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

impl<V: View + ?Sized> Sight<'_, V> {
    /// The session, verified, if the caller may see it.
    ///
    /// # Errors
    /// `session_erased` to its owner; `integrity_error` when it is not what was written; `key_missing` when it
    /// cannot be verified.
    pub fn find(&self, scope: &Scope, id: &SessionId) -> Result<Option<Loaded>, Failure> {
        match self.find_or_gone(scope, id)? {
            Some(Gone::Erased(_)) => Err(session_erased(id)),
            Some(Gone::Not(session)) => Ok(Some(*session)),
            None => Ok(None),
        }
    }

    /// As [`Self::find`], with what stays of a session that was erased.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn find_or_gone(&self, scope: &Scope, id: &SessionId) -> Result<Option<Gone>, Failure> {
        let Some(session) = self.look_up(&scope.tenant, id, Some(scope))? else {
            return Ok(None);
        };
        match session.row.erased {
            None => Ok(Some(Gone::Not(Box::new(session)))),
            Some(erased) if self.owned(scope, &erased) => Ok(Some(Gone::Erased(erased))),
            Some(_) => {
                // A stranger finds nothing, at the cost of looking for what never was.
                self.is_genuine(&scope.tenant, id);
                Ok(None)
            }
        }
    }

    /// The session, whoever owns it: for creating under its id.
    ///
    /// # Errors
    /// `session_erased` to the owner of an erased one, `session_conflict` to others; and as [`Self::find`].
    pub fn find_any(&self, scope: &Scope, id: &SessionId) -> Result<Option<Loaded>, Failure> {
        let found = self.look_up(&scope.tenant, id, None)?;
        match found.as_ref().and_then(|s| s.row.erased) {
            Some(erased) if self.owned(scope, &erased) => Err(session_erased(id)),
            Some(_) => Err(session_conflict()),
            None => Ok(found),
        }
    }

    /// Whether an erased session was the caller's to see: as [`Scope::sees`].
    fn owned(&self, scope: &Scope, erased: &Erased) -> bool {
        let is = |owner: [u8; MAC_BYTES]| equal_macs(&owner, &erased.owner);
        scope.viewer == Viewer::Operator
            || is(self.keyring.owner(None, None))
            || is(self.keyring.owner(None, scope.token))
            || is(self.keyring.owner(scope.viewer.identity(), None))
    }

    /// Whether lists would show the caller an erased session: as [`Scope::lists`].
    pub(crate) fn lists_erased(&self, scope: &Scope, erased: &Erased) -> bool {
        let owner = match &scope.viewer {
            Viewer::Operator => return true,
            Viewer::EndUser(Some(viewer)) => self.keyring.owner(Some(viewer), None),
            Viewer::EndUser(None) => self.keyring.owner(None, scope.token),
        };
        equal_macs(&owner, &erased.owner)
    }

    fn look_up(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<Loaded>, Failure> {
        let found = match self.view.session(tenant, id, scope) {
            Ok(Some(stored)) => self.load(stored).map(Some),
            // A session that is genuinely somebody else's is absent (P6), also while others are suspect.
            Ok(None) if scope.is_some() && self.is_genuine(tenant, id) => Ok(None),
            Ok(None) => self.suspects.check_absent(tenant, id).map(|()| None),
            Err(failure) => Err(failure),
        };
        in_session(id, found)
    }

    fn is_genuine(&self, tenant: &TenantId, id: &SessionId) -> bool {
        let stored = self.view.session(tenant, id, None);
        stored.is_ok_and(|s| s.is_some_and(|s| self.load(s).is_ok()))
    }

    /// As [`Self::find`], with a failure when it is absent.
    ///
    /// # Errors
    /// As [`Self::find`], and `session_not_found`.
    pub fn get(&self, scope: &Scope, id: &SessionId) -> Result<Loaded, Failure> {
        self.find(scope, id)?.ok_or_else(|| session_not_found(id))
    }

    /// Verifies a stored session: its head's MAC, and by the head its row.
    pub(crate) fn load(&self, stored: Stored) -> Result<Loaded, Failure> {
        let Stored { pk, row, head } = stored;
        let broken = |what: &str| Failure::integrity(row.session_id.as_str(), None, what);
        self.suspects.check(pk, &row.session_id)?;
        let head = head.ok_or_else(|| broken("its head is missing or malformed"))?;
        if self.check == Check::Keyed {
            match head.verified(self.keyring, pk) {
                Some(true) => {}
                Some(false) => return Err(broken("its head was changed (the MAC does not fit)")),
                None => return Err(key_missing(row.session_id.as_str())),
            }
        }
        if row.fingerprint() != head.session {
            return Err(broken("its row was changed"));
        }
        let scope = LinkScope::new(&row.tenant_id, &row.session_id);
        Ok(Loaded {
            pk,
            before: head.link,
            row,
            head,
            scope,
        })
    }

    /// Unpacks and verifies one record of a session, and that redactions name what has no content in it: those
    /// looked up before are in `known`.
    pub(crate) fn decode_with(
        &self,
        session: &Loaded,
        row: &RecordRow,
        known: &mut Redactions,
    ) -> Result<Decoded, Failure> {
        let decoded = self.decode_alone(session, row)?;
        self.check_redactions(session, &decoded.redacted, known)?;
        Ok(decoded)
    }

    /// As [`Self::decode_with`], but whoever asks looks at the redactions.
    pub(crate) fn decode_alone(
        &self,
        session: &Loaded,
        row: &RecordRow,
    ) -> Result<Decoded, Failure> {
        decode(row, &session.scope, self.keyring, self.check)
            .map_err(|fault| self.fault(session, &fault))
    }

    fn fault(&self, session: &Loaded, fault: &Fault) -> Failure {
        match fault.what {
            FaultKind::KeyMissing(_) => key_missing(session.name()),
            what => session.broken(Some(fault.seq), what),
        }
    }

    /// A turn of the session, verified; `None` when there is none with this id and none is missing.
    ///
    /// # Errors
    /// `turn_mismatch` when it belongs to another session the caller may see; `integrity_error`.
    pub fn find_turn(
        &self,
        session: &Loaded,
        scope: &Scope,
        id: &TurnId,
    ) -> Result<Option<TurnRow>, Failure> {
        let found = self.known_turn(session, id)?;
        if found.is_some() {
            return Ok(found);
        }
        self.check_no_other_has(session, scope, id)?;
        if self.view.turn_rows(session.pk)? != session.head.turn_rows {
            return Err(session.broken(None, "turns are missing or were added"));
        }
        Ok(None)
    }

    /// As [`Self::find_turn`], but without looking whether turns are missing, which costs a count of them all, or
    /// whether another session has it: for starting a turn, whose key is new nearly always (P8).
    pub(crate) fn known_turn(
        &self,
        session: &Loaded,
        id: &TurnId,
    ) -> Result<Option<TurnRow>, Failure> {
        let found = self.view.turn(session.pk, id)?;
        found
            .map(|row| self.verified_turn(session, row))
            .transpose()
    }

    /// Tells the turn of another session that the caller may see from one that is nowhere.
    fn check_no_other_has(
        &self,
        session: &Loaded,
        scope: &Scope,
        id: &TurnId,
    ) -> Result<(), Failure> {
        let Some(pk) = self.view.session_of_turn(id)? else {
            return Ok(());
        };
        match self.view.session_by_pk(pk)? {
            Some(other)
                if other.row.tenant_id == session.row.tenant_id && scope.sees(&other.row) =>
            {
                Err(Failure::new(
                    ErrorCode::TurnMismatch,
                    format!("turn {id} belongs to another session"),
                ))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn verified_turn(&self, session: &Loaded, row: TurnRow) -> Result<TurnRow, Failure> {
        self.authentic(session, &row)?;
        if !row.status.is_closed() {
            self.nothing_after(session, &row)?;
        }
        Ok(row)
    }

    /// Checks a turn row's MAC.
    pub(crate) fn authentic(&self, session: &Loaded, row: &TurnRow) -> Result<(), Failure> {
        let fits = row.verified(self.keyring, session.pk);
        self.vouch(session, fits, Some(row.first_seq), || {
            format!("turn {} was changed (its MAC does not fit)", row.turn_id)
        })
    }

    /// Refuses a row whose MAC does not fit, unless nothing is checked.
    fn vouch(
        &self,
        session: &Loaded,
        fits: Option<bool>,
        seq: Option<u64>,
        changed: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match fits {
            _ if self.check == Check::Unverified => Ok(()),
            Some(true) => Ok(()),
            Some(false) => Err(session.broken(seq, changed())),
            None => Err(key_missing(session.name())),
        }
    }

    /// An open turn's row must know the turn's newest item: an older row put back over a newer one would not.
    /// What follows a turn's item is nearly always close behind it; `verify` looks at everything.
    fn nothing_after(&self, session: &Loaded, turn: &TurnRow) -> Result<(), Failure> {
        let next = turn.last_seq + 1;
        if next > session.head.last_seq {
            return Ok(());
        }
        let rows = self.view.records(session.pk, next, LOOK_BEHIND)?;
        if rows.is_empty() {
            return Err(session.broken(Some(next), FaultKind::Missing));
        }
        let later = |row: &&RecordRow| row.first_seq >= next && row.turn_id() == Some(turn.turn_id);
        match rows.iter().find(later) {
            Some(row) => {
                let what = format!("turn {} has items its row does not know", turn.turn_id);
                Err(session.broken(Some(row.first_seq), what))
            }
            None => Ok(()),
        }
    }
}

/// How many records behind an open turn's newest item are looked at for one that its row does not know: bounds
/// what an old open turn costs.
const LOOK_BEHIND: usize = 64;

pub(crate) fn key_missing(session: &str) -> Failure {
    Failure::new(
        ErrorCode::KeyMissing,
        format!("session {session:?} was written with a key that is not in the keyring"),
    )
    .with_hint("put the keyring file back, or read with --unverified")
}
/// The whole range of turn places of a session.
pub(crate) const ALL_PLACES: (u64, u64) = (0, (ORDINAL_MAX << 8) | 0xff);

/// Where the link before `seq` comes from: nothing before the first item.
pub(crate) const fn genesis_for(seq: u64) -> Option<&'static Link> {
    if seq <= 1 { Some(&GENESIS) } else { None }
}
