//! A session that this process caches, and how it follows the hot store's version.

use filrouge_types::{ErrorCode, Failure, Result, SessionId, TenantId};

use super::EphemeralSessions;
use crate::hot::rows::EphemeralRows;
use crate::hot::{Edition, HotKey, HotSession};
use crate::read::{LedgerSnapshot, VerifiedSnapshot};
use crate::record::MacCheck;
use crate::rows::View;
use crate::verify::{HeadCheck, Suspects};

/// The name and the key of a session.
#[derive(Clone, Copy)]
pub(super) struct SessionName<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) session: &'a SessionId,
    pub(super) key: HotKey,
}

/// The rows of a session in one version.
pub(super) struct CachedSession {
    pub(super) rows: EphemeralRows,
    pub(super) edition: Edition,
}

impl EphemeralSessions {
    /// The session in the hot store's current version. The cached rows are used if they have that version. `None` when
    /// the session is absent, or was removed because it may not be used.
    pub(super) async fn load_current(
        &self,
        name: SessionName<'_>,
        cached: Option<CachedSession>,
    ) -> Result<Option<CachedSession>> {
        let Some(cached) = cached else {
            return self.load_session(name).await;
        };
        // The known version is read before the query, so the store can return an older version only if it lost writes.
        let known = self.known_edition(&name.key);
        match self.hot.edition(&name.key).await? {
            None => Ok(None),
            Some(edition) if is_outdated(known, edition) => {
                self.forget_outdated(name, edition).await?;
                Ok(None)
            }
            Some(edition) if edition == cached.edition => self.check_gate_again(name, cached).await,
            Some(_) => self.load_session(name).await,
        }
    }

    /// Loads the session from the hot store. `None` when it is absent, or was removed because its version is outdated,
    /// because the gate refuses its version, or because its rows are damaged.
    pub(super) async fn load_session(
        &self,
        name: SessionName<'_>,
    ) -> Result<Option<CachedSession>> {
        for _ in 0..super::ATTEMPTS_MAX {
            let known = self.known_edition(&name.key);
            self.count(|counts| counts.loads += 1);
            let Some(loaded) = self.hot.load(&name.key).await? else {
                return Ok(None);
            };
            let edition = loaded.edition;
            let is_absent = if is_outdated(known, edition) {
                self.forget_outdated(name, edition).await?
            } else if self.admits(name, edition).await? {
                self.remember_edition(name.key, edition);
                match self.verify_loaded(name, &loaded) {
                    Err(failure) if failure.code == ErrorCode::IntegrityError => {
                        self.forget_damaged(name, edition, &failure).await?
                    }
                    result => return result.map(Some),
                }
            } else {
                self.hot.forget(&name.key, Some(edition)).await?
            };
            if is_absent {
                return Ok(None);
            }
            // The session was not removed, because another writer has changed it in the meantime. The next load returns
            // another version.
        }
        Err(super::too_many_writers(name))
    }

    /// Checks the gate again for a cached session: another process may have redacted the session since, and the store
    /// may have been restored to an earlier state.
    pub(super) async fn check_gate_again(
        &self,
        name: SessionName<'_>,
        cached: CachedSession,
    ) -> Result<Option<CachedSession>> {
        if self.admits(name, cached.edition).await? {
            return Ok(Some(cached));
        }
        self.hot.forget(&name.key, Some(cached.edition)).await?;
        // Any other version that exists now is loaded and checked as usual.
        self.load_session(name).await
    }

    /// Whether the gate admits this version; logs a refusal.
    async fn admits(&self, name: SessionName<'_>, edition: Edition) -> Result<bool> {
        let is_admitted = self.gate.admits(name.tenant, name.session, edition).await?;
        if !is_admitted {
            tracing::warn!(
                session_id = %name.session,
                version = edition.version,
                "[SESSIONS][HOT_REFUSED] a version from before a redaction or a login is removed"
            );
        }
        Ok(is_admitted)
    }

    /// Removes a session that the hot store has in an older version than before; returns whether the session is absent
    /// afterwards.
    async fn forget_outdated(&self, name: SessionName<'_>, edition: Edition) -> Result<bool> {
        self.count(|counts| counts.went_back += 1);
        tracing::warn!(
            session_id = %name.session,
            version = edition.version,
            "[SESSIONS][HOT_WENT_BACK] the hot store has lost acknowledged writes: the session is removed"
        );
        self.hot.forget(&name.key, Some(edition)).await
    }

    /// Removes a session that fails verification, because it would otherwise be unusable until it expires; returns
    /// whether the session is absent afterwards.
    pub(super) async fn forget_damaged(
        &self,
        name: SessionName<'_>,
        edition: Edition,
        failure: &Failure,
    ) -> Result<bool> {
        self.count(|counts| counts.damaged += 1);
        tracing::warn!(
            tenant_id = %name.tenant,
            session_id = %name.session,
            seq = failure.location.as_ref().and_then(|location| location.seq),
            version = edition.version,
            "[SESSIONS][HOT_DAMAGED] the hot store returned damaged data: the session is removed"
        );
        self.hot.forget(&name.key, Some(edition)).await
    }

    /// Decodes the loaded rows, and verifies that they belong to this session and are complete.
    fn verify_loaded(&self, name: SessionName<'_>, loaded: &HotSession) -> Result<CachedSession> {
        let refuse = |detail| Failure::integrity(name.session.as_str(), None, detail);
        let rows =
            EphemeralRows::decode(&loaded.fields).map_err(|_| refuse("a row is malformed"))?;
        let stored = rows.rows.session(name.tenant, name.session, None)?;
        let stored =
            stored.ok_or_else(|| refuse("its row is missing, or belongs to another session"))?;
        // Only the loaded rows are checked here, so the suspects of this process are left out.
        let suspects = Suspects::default();
        let snapshot = self.snapshot(&rows, &suspects);
        // The oldest turn determines the first seq, so the turn rows are checked first.
        let session = snapshot.verified_session(stored)?;
        snapshot.check_all_turn_rows(&session)?;
        if let Some(detail) = rows.find_modified(&self.keyring) {
            return Err(refuse(detail));
        }
        Ok(CachedSession {
            rows,
            edition: loaded.edition,
        })
    }

    pub(super) fn snapshot<'s>(
        &'s self,
        rows: &'s EphemeralRows,
        suspects: &'s Suspects,
    ) -> LedgerSnapshot<'s> {
        VerifiedSnapshot {
            view: &rows.rows,
            keyring: &self.keyring,
            check: MacCheck::Keyed,
            suspects,
            heads: HeadCheck::default(),
        }
    }
}

/// Whether an edition is older than the known one, or has the same numbers but belongs to another history.
fn is_outdated(known: Option<Edition>, edition: Edition) -> bool {
    let numbers = |edition: Edition| (edition.incarnation, edition.version);
    known.is_some_and(|known| {
        numbers(edition) < numbers(known)
            || (numbers(edition) == numbers(known) && edition.nonce != known.nonce)
    })
}
