//! The sessions that the ledger has shown in this process, each with its viewers. Only these may be shown while the ledger does
//! not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_store::command::{Scope, SessionToken, Viewer};
use filrouge_store::hot::{HistoryVersion, HotKey};
use filrouge_store::ledger::{QuerySubject, SnapshotQuery};
use filrouge_types::{ErrorCode, Failure, SessionId};
use quick_cache::unsync::Cache;

use super::TieredLedger;
use super::recent::{LedgerHead, is_silent};

/// The maximum number of sessions remembered.
const SESSIONS: usize = 16_384;
/// The maximum number of viewers remembered per session.
const VIEWERS: usize = 4;

/// The history of a session that the ledger has shown to a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verified {
    /// The newest history.
    pub(super) as_of: HistoryVersion,
    /// Whether the viewer's access is permanent, because it is the operator or the session's owner.
    pub(super) owned: bool,
}

#[derive(Debug, Clone)]
struct Seen {
    viewer: Viewer,
    token: Option<SessionToken>,
    verified: Verified,
}

/// The histories that the ledger has shown recently.
pub(super) struct Sightings(Mutex<Cache<HotKey, Vec<Seen>>>);

impl Sightings {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(SESSIONS)))
    }

    fn locked(&self) -> MutexGuard<'_, Cache<HotKey, Vec<Seen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the ledger has shown the session to its viewer. An older history changes nothing. A newer one applies to
    /// all remembered viewers, and those who do not own the session are forgotten, so that no caller is shown an older history
    /// from then on.
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

    /// The history of the session that the viewer was shown.
    pub(super) fn shown_to(&self, key: &HotKey, scope: &Scope) -> Option<Verified> {
        let all = self.locked();
        all.get(key)?
            .iter()
            .find(|s| is_viewer(s, scope))
            .map(|s| s.verified)
    }

    /// Whether any viewer has been shown the session.
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
    /// Runs a query on the ledger. Afterwards no copy older than the history that it showed is used.
    pub(super) async fn inspect_durable(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let key = self.key(scope, session);
        // For strangers a known session must cost as much as one that never existed (P6).
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
                // A caller who has never seen the session changes nothing for those who have.
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
