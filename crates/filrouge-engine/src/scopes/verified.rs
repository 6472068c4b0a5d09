//! Remembers which sessions the ledger has shown to which viewers in this process. While the ledger does not answer, a
//! viewer may be shown only a session that it was shown before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_store::command::{Scope, SessionToken, Viewer};
use filrouge_store::hot::{HistoryVersion, HotKey};
use filrouge_store::ledger::{QuerySubject, SnapshotQuery};
use filrouge_types::{ErrorCode, Failure, SessionId};
use quick_cache::unsync::Cache;

use super::TieredLedger;
use super::recent::{LedgerHead, is_silent};

/// The maximum number of sessions that are remembered.
const SESSIONS: usize = 16_384;
/// The maximum number of viewers that are remembered for a session.
const VIEWERS: usize = 4;

/// What a viewer was shown of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verified {
    /// The newest version of the history that the ledger has shown to any viewer since this viewer was remembered.
    pub(super) as_of: HistoryVersion,
    /// Whether the viewer is the operator or the session's owner. Such a viewer does not lose access when the session
    /// changes.
    pub(super) owned: bool,
}

#[derive(Debug, Clone)]
struct Seen {
    viewer: Viewer,
    token: Option<SessionToken>,
    verified: Verified,
}

/// For each session, the viewers to whom the ledger has shown it, and what they were shown.
pub(super) struct Sightings(Mutex<Cache<HotKey, Vec<Seen>>>);

impl Sightings {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(SESSIONS)))
    }

    fn locked(&self) -> MutexGuard<'_, Cache<HotKey, Vec<Seen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the ledger has shown the session to the scope's viewer, at the history version `as_of`. If that is
    /// newer than what another remembered viewer was shown, that viewer's version becomes `as_of` too if the viewer is
    /// `owned`; otherwise the viewer is forgotten. So no caller is shown an older history from then on.
    pub(super) fn note_shown(
        &self,
        key: HotKey,
        scope: &Scope,
        as_of: HistoryVersion,
        owned: bool,
    ) {
        let mut all = self.locked();
        let mut seen = all.remove(&key).map(|(_, seen)| seen).unwrap_or_default();
        let index = seen.iter().position(|s| is_viewer(s, scope));
        let before = index.map(|at| seen.remove(at).verified);
        let verified = Verified {
            as_of: before
                .map(|before| before.as_of)
                .filter(|before| before.seq > as_of.seq)
                .unwrap_or(as_of),
            owned: owned || before.is_some_and(|b| b.owned),
        };
        seen.retain_mut(|other| {
            let before = &mut other.verified;
            let stays = before.as_of.seq >= verified.as_of.seq || before.owned;
            if before.as_of.seq < verified.as_of.seq {
                before.as_of = verified.as_of;
            }
            stays
        });
        if seen.len() == VIEWERS {
            seen.remove(0);
        }
        seen.push(Seen {
            viewer: scope.viewer.clone(),
            token: scope.token,
            verified,
        });
        all.insert(key, seen);
    }

    /// What the scope's viewer was shown of the session; `None` if nothing, or if it is no longer remembered.
    pub(super) fn shown_to(&self, key: &HotKey, scope: &Scope) -> Option<Verified> {
        let all = self.locked();
        all.get(key)?
            .iter()
            .find(|s| is_viewer(s, scope))
            .map(|s| s.verified)
    }

    /// Whether the session is remembered for any viewer.
    pub(super) fn knows(&self, key: &HotKey) -> bool {
        self.locked().contains_key(key)
    }

    /// Forgets a session whose visibility or contents have changed.
    pub(super) fn forget(&self, key: &HotKey) {
        self.locked().remove(key);
    }
}

fn is_viewer(seen: &Seen, scope: &Scope) -> bool {
    seen.viewer == scope.viewer && seen.token == scope.token
}

impl TieredLedger {
    /// Runs a query about a session on the ledger. If the scope's viewer was shown the session before, records the
    /// history version that the query has seen, so that no older copy is used afterwards; or forgets the session if it
    /// is no longer visible.
    pub(super) async fn inspect_durable(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let key = self.key(scope, session);
        // For a caller who was never shown the session, the query must take as long as one for a session that never
        // existed (P6).
        let was_shown =
            scope.viewer == Viewer::Operator || self.verified.shown_to(&key, scope).is_some();
        if !was_shown || !self.verified.knows(&key) {
            return self
                .ledger
                .inspect(QuerySubject::Session(scope, session), query)
                .await;
        }
        let shown = Arc::new(Mutex::new(None));
        let (head_slot, viewer, id) = (shown.clone(), scope.clone(), session.clone());
        let both: SnapshotQuery = Box::new(move |snapshot| {
            let head = LedgerHead::of(snapshot, &viewer, &id);
            *head_slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
            query(snapshot);
        });
        let answered = self
            .ledger
            .inspect(QuerySubject::Session(scope, session), both)
            .await;
        let head = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        match head {
            Some(Ok(head)) => self.verified.note_shown(key, scope, head.as_of, head.owned),
            Some(Err(failure)) if !is_silent(&failure) => {
                // Only an erasure, or a caller who was shown the session before, changes what is remembered.
                let erased = failure.code == ErrorCode::SessionErased;
                if erased || self.verified.shown_to(&key, scope).is_some() {
                    self.verified.forget(&key);
                }
            }
            _ => {}
        }
        answered
    }
}
