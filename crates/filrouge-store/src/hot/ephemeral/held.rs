//! A session that this process caches, and how it follows the hot store's version.

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use super::EphemeralSessions;
use crate::hot::rows::HeldRows;
use crate::hot::{Edition, HotKey, HotSession};
use crate::read::VerifiedSnapshot;
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
pub(super) struct HeldSession {
    pub(super) rows: HeldRows,
    pub(super) edition: Edition,
}

impl EphemeralSessions {
    /// The session in the hot store's current version; the cached rows (`held`) are used if they have that version.
    /// `None` when the session is absent, or was removed because it may not be used.
    pub(super) async fn current(
        &self,
        named: SessionName<'_>,
        held: Option<HeldSession>,
    ) -> Result<Option<HeldSession>, Failure> {
        let Some(held) = held else {
            return self.fetched(named).await;
        };
        // The seen version is read before the store is queried, so the store cannot legitimately return an older one.
        let seen = self.seen(&named.key);
        match self.hot.edition(&named.key).await? {
            None => Ok(None),
            Some(now) if went_back(seen, now) => {
                self.forget_outdated(named, now).await?;
                Ok(None)
            }
            Some(now) if now == held.edition => self.admitted(named, held).await,
            Some(_) => self.fetched(named).await,
        }
    }

    /// Loads the session from the hot store. `None` when it is absent, or was removed because its version is outdated,
    /// because the gate refuses its version, or because its rows are damaged.
    pub(super) async fn fetched(
        &self,
        named: SessionName<'_>,
    ) -> Result<Option<HeldSession>, Failure> {
        for _ in 0..super::TRIES {
            let seen = self.seen(&named.key);
            self.count(|counts| counts.loads += 1);
            let Some(loaded) = self.hot.load(&named.key).await? else {
                return Ok(None);
            };
            let edition = loaded.edition;
            let gone = if went_back(seen, edition) {
                self.forget_outdated(named, edition).await?
            } else if self.admits(named, edition).await? {
                self.remember(named.key, edition);
                match self.read(named, &loaded) {
                    Err(failure) if failure.code == ErrorCode::IntegrityError => {
                        self.forget_damaged(named, edition, &failure).await?
                    }
                    read => return read.map(Some),
                }
            } else {
                self.hot.forget(&named.key, Some(edition)).await?
            };
            if gone {
                return Ok(None);
            }
            // The session was not removed, because another writer has changed it in the meantime. The next load returns
            // another version.
        }
        Err(super::contended(named))
    }

    /// Checks the gate again for a cached session: another process may have redacted the session since, and the store
    /// may have been restored to an earlier state.
    pub(super) async fn admitted(
        &self,
        named: SessionName<'_>,
        held: HeldSession,
    ) -> Result<Option<HeldSession>, Failure> {
        if self.admits(named, held.edition).await? {
            return Ok(Some(held));
        }
        self.hot.forget(&named.key, Some(held.edition)).await?;
        // Any other version that exists now is loaded and checked as usual.
        self.fetched(named).await
    }

    async fn admits(&self, named: SessionName<'_>, edition: Edition) -> Result<bool, Failure> {
        let admitted = self
            .gate
            .admits(named.tenant, named.session, edition)
            .await?;
        if !admitted {
            tracing::warn!(
                session_id = %named.session,
                version = edition.version,
                "[SESSIONS][HOT_REFUSED] a version from before a redaction or a login is removed"
            );
        }
        Ok(admitted)
    }

    /// Removes a session that the hot store has in an older version than before; returns whether the session is absent
    /// afterwards.
    async fn forget_outdated(
        &self,
        named: SessionName<'_>,
        edition: Edition,
    ) -> Result<bool, Failure> {
        self.count(|counts| counts.went_back += 1);
        tracing::warn!(
            session_id = %named.session,
            version = edition.version,
            "[SESSIONS][HOT_WENT_BACK] the hot store has lost acknowledged writes: the session is removed"
        );
        self.hot.forget(&named.key, Some(edition)).await
    }

    /// Removes a session that fails verification, because it would otherwise be unusable until it expires; returns
    /// whether the session is absent afterwards.
    pub(super) async fn forget_damaged(
        &self,
        named: SessionName<'_>,
        edition: Edition,
        failure: &Failure,
    ) -> Result<bool, Failure> {
        self.count(|counts| counts.damaged += 1);
        tracing::warn!(
            tenant_id = %named.tenant,
            session_id = %named.session,
            seq = failure.place.as_ref().and_then(|place| place.seq),
            version = edition.version,
            "[SESSIONS][HOT_DAMAGED] the hot store returned damaged data: the session is removed"
        );
        self.hot.forget(&named.key, Some(edition)).await
    }

    /// Decodes the loaded rows, and verifies that they belong to this session and are complete.
    fn read(&self, named: SessionName<'_>, loaded: &HotSession) -> Result<HeldSession, Failure> {
        let broken = |what| Failure::integrity(named.session.as_str(), None, what);
        let rows = HeldRows::decode(&loaded.fields).map_err(|_| broken("a row is malformed"))?;
        let stored = rows.rows.session(named.tenant, named.session, None)?;
        let stored =
            stored.ok_or_else(|| broken("its row is missing, or belongs to another session"))?;
        // The caller reports suspects; only the loaded rows are checked here.
        let suspects = Suspects::default();
        let snapshot = self.snapshot(&rows, &suspects);
        // The oldest turn determines the first seq, so the turn rows are checked first.
        let session = snapshot.load(stored)?;
        snapshot.check_all_turn_rows(&session)?;
        if let Some(what) = rows.find_modified(&self.keyring) {
            return Err(broken(what));
        }
        Ok(HeldSession {
            rows,
            edition: loaded.edition,
        })
    }

    pub(super) fn snapshot<'s>(
        &'s self,
        rows: &'s HeldRows,
        suspects: &'s Suspects,
    ) -> VerifiedSnapshot<'s, dyn View + 's> {
        VerifiedSnapshot {
            view: &rows.rows,
            keyring: &self.keyring,
            check: MacCheck::Keyed,
            suspects,
            heads: HeadCheck::default(),
        }
    }
}

/// Whether the version `now` is older than the one seen before, or has the same number but belongs to another history.
fn went_back(seen: Option<Edition>, now: Edition) -> bool {
    let order = |edition: Edition| (edition.incarnation, edition.version);
    seen.is_some_and(|seen| {
        order(now) < order(seen) || (order(now) == order(seen) && now.nonce != seen.nonce)
    })
}
