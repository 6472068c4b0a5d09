//! A session that this process holds, and how it comes by the state that the hot store has.

use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

use super::EphemeralSessions;
use crate::hot::rows::HeldRows;
use crate::hot::{Edition, HotKey, Loaded};
use crate::read::Sight;
use crate::record::Check;
use crate::rows::View;
use crate::verify::Suspects;

/// A session by its name.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) session: &'a SessionId,
    pub(super) key: HotKey,
}

/// The rows of a session in one state.
pub(super) struct Held {
    pub(super) rows: HeldRows,
    pub(super) edition: Edition,
}

impl EphemeralSessions {
    /// The session in the state that the hot store has now: as it is held here, if that is it.
    pub(super) async fn current(
        &self,
        named: Named<'_>,
        held: Option<Held>,
    ) -> Result<Option<Held>, Failure> {
        let Some(held) = held else {
            return self.fetched(named).await;
        };
        // Asked for after what was seen has been looked up: the store cannot have had less since.
        let seen = self.seen(&named.key);
        match self.hot.edition(&named.key).await? {
            None => Ok(None),
            Some(now) if went_back(seen, now) => {
                self.lost(named, now).await?;
                Ok(None)
            }
            Some(now) if now == held.edition => self.admitted(named, held).await,
            Some(_) => self.fetched(named).await,
        }
    }

    /// The session as the hot store has it, once the gate admits it.
    pub(super) async fn fetched(&self, named: Named<'_>) -> Result<Option<Held>, Failure> {
        for _ in 0..super::TRIES {
            let seen = self.seen(&named.key);
            self.count(|counts| counts.loads += 1);
            let Some(loaded) = self.hot.load(&named.key).await? else {
                return Ok(None);
            };
            let edition = loaded.edition;
            let gone = if went_back(seen, edition) {
                self.lost(named, edition).await?
            } else if self.admits(named, edition).await? {
                self.see(named.key, edition);
                match self.read(named, &loaded) {
                    Err(failure) if failure.code == ErrorCode::IntegrityError => {
                        self.damaged(named, edition, &failure).await?
                    }
                    read => return read.map(Some),
                }
            } else {
                self.hot.forget(&named.key, Some(edition)).await?
            };
            if gone {
                return Ok(None);
            }
            // Somebody has written to it meanwhile: what is there now is another state.
        }
        Err(super::contended(named))
    }

    /// A held session, if the gate still admits it: somebody may have redacted in it since, and the store may have been set
    /// back to before.
    pub(super) async fn admitted(
        &self,
        named: Named<'_>,
        held: Held,
    ) -> Result<Option<Held>, Failure> {
        if self.admits(named, held.edition).await? {
            return Ok(Some(held));
        }
        self.hot.forget(&named.key, Some(held.edition)).await?;
        // Whatever is there now is looked at as any other.
        self.fetched(named).await
    }

    async fn admits(&self, named: Named<'_>, edition: Edition) -> Result<bool, Failure> {
        let admitted = self
            .gate
            .admits(named.tenant, named.session, edition)
            .await?;
        if !admitted {
            tracing::warn!(
                session_id = %named.session,
                version = edition.version,
                "[SESSIONS][HOT_REFUSED] a state from before a redaction or a login is forgotten"
            );
        }
        Ok(admitted)
    }

    /// Forgets a session that the hot store has in an older state than it had before.
    async fn lost(&self, named: Named<'_>, edition: Edition) -> Result<bool, Failure> {
        self.count(|counts| counts.went_back += 1);
        tracing::warn!(
            session_id = %named.session,
            version = edition.version,
            "[SESSIONS][HOT_WENT_BACK] the hot store has lost acknowledged writes: the session is forgotten"
        );
        self.hot.forget(&named.key, Some(edition)).await
    }

    /// Forgets a session that is not what was put: it could not be read, written or taken out until it expires. Whether it
    /// is gone.
    pub(super) async fn damaged(
        &self,
        named: Named<'_>,
        edition: Edition,
        failure: &Failure,
    ) -> Result<bool, Failure> {
        self.count(|counts| counts.damaged += 1);
        tracing::warn!(
            tenant_id = %named.tenant,
            session_id = %named.session,
            seq = failure.place.as_ref().and_then(|place| place.seq),
            version = edition.version,
            "[SESSIONS][HOT_DAMAGED] the hot store has not got what was put: the session is forgotten"
        );
        self.hot.forget(&named.key, Some(edition)).await
    }

    /// The rows of what was loaded, which must be this session's and whole.
    fn read(&self, named: Named<'_>, loaded: &Loaded) -> Result<Held, Failure> {
        let broken = |what| Failure::integrity(named.session.as_str(), None, what);
        let rows = HeldRows::decode(&loaded.fields).map_err(|_| broken("a row is malformed"))?;
        let stored = rows.rows.session(named.tenant, named.session, None)?;
        let stored = stored.ok_or_else(|| broken("its row is missing, or another one's"))?;
        // What is suspect is for whoever asks to be told; here it is about what was loaded alone.
        let suspects = Suspects::default();
        let sight = self.sight(&rows, &suspects);
        // Which turns are there says where its items begin, so that is looked at first.
        let session = sight.load(stored)?;
        sight.all_turn_rows(&session)?;
        if let Some(what) = rows.changed(&self.keyring) {
            return Err(broken(what));
        }
        Ok(Held {
            rows,
            edition: loaded.edition,
        })
    }

    pub(super) fn sight<'s>(
        &'s self,
        rows: &'s HeldRows,
        suspects: &'s Suspects,
    ) -> Sight<'s, dyn View + 's> {
        Sight {
            view: &rows.rows,
            keyring: &self.keyring,
            check: Check::Keyed,
            suspects,
        }
    }
}

/// Whether a state is older than one of the same session that was seen before, or of a history without that one.
fn went_back(seen: Option<Edition>, now: Edition) -> bool {
    let place = |edition: Edition| (edition.incarnation, edition.version);
    seen.is_some_and(|seen| {
        place(now) < place(seen) || (place(now) == place(seen) && now.word != seen.word)
    })
}
