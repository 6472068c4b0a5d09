//! Remembers which sessions the ledger has shown to which viewers in this process. While the ledger does not answer, a
//! viewer may be shown only a session that it was shown before.

use std::sync::{Arc, Mutex};

use filrouge_store::command::{Scope, SessionToken, Viewer};
use filrouge_store::hot::{HistoryVersion, HotKey};
use filrouge_store::ledger::{QuerySubject, SnapshotQuery};
use filrouge_types::{ErrorCode, Failure, SessionId, lock};
use quick_cache::unsync::Cache;

use super::TieredLedger;
use super::recent::is_ledger_outage;

/// The maximum number of sessions that are remembered.
const SESSIONS_MAX: usize = 16_384;
/// The maximum number of viewers that are remembered for a session.
const VIEWERS_MAX: usize = 4;

/// The version of a session's history that a viewer was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShownVersion {
    /// The newest version of the history that the ledger has shown to any viewer since this viewer was remembered.
    pub(super) as_of: HistoryVersion,
    /// Whether the viewer is the operator or the session's owner, who do not lose access when the session changes.
    pub(super) has_permanent_access: bool,
}

/// A viewer of a session.
#[derive(Debug, Clone)]
struct ShownViewer {
    viewer: Viewer,
    token: Option<SessionToken>,
    verified: ShownVersion,
}

/// For each session, the viewers to whom the ledger has shown it, and in which version.
pub(super) struct ShownSessions(Mutex<Cache<HotKey, Vec<ShownViewer>>>);

impl ShownSessions {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(SESSIONS_MAX)))
    }

    /// Records that the ledger has shown the session to the scope's viewer, at the version `shown`. If that is
    /// newer than what another remembered viewer was shown, that viewer's version becomes this one too if the viewer has
    /// permanent access; otherwise the viewer is forgotten. So no caller is shown an older history from then on.
    pub(super) fn record_shown(&self, key: HotKey, scope: &Scope, shown: ShownVersion) {
        let mut sessions = lock(&self.0);
        let mut viewers = sessions
            .remove(&key)
            .map(|(_, viewers)| viewers)
            .unwrap_or_default();
        let index = viewers.iter().position(|s| is_viewer(s, scope));
        let before = index.map(|at| viewers.remove(at).verified);
        let verified = ShownVersion {
            as_of: before
                .map(|before| before.as_of)
                .filter(|before| before.seq > shown.as_of.seq)
                .unwrap_or(shown.as_of),
            has_permanent_access: shown.has_permanent_access
                || before.is_some_and(|b| b.has_permanent_access),
        };
        viewers.retain_mut(|other| {
            let before = &mut other.verified;
            let is_kept = before.as_of.seq >= verified.as_of.seq || before.has_permanent_access;
            if before.as_of.seq < verified.as_of.seq {
                before.as_of = verified.as_of;
            }
            is_kept
        });
        if viewers.len() == VIEWERS_MAX {
            viewers.remove(0);
        }
        viewers.push(ShownViewer {
            viewer: scope.viewer.clone(),
            token: scope.token,
            verified,
        });
        sessions.insert(key, viewers);
    }

    /// The version of the session that the scope's viewer was shown; `None` if no version is remembered.
    pub(super) fn shown_to(&self, key: &HotKey, scope: &Scope) -> Option<ShownVersion> {
        let sessions = lock(&self.0);
        sessions
            .get(key)?
            .iter()
            .find(|s| is_viewer(s, scope))
            .map(|s| s.verified)
    }

    /// Whether the session is remembered for any viewer.
    pub(super) fn contains(&self, key: &HotKey) -> bool {
        lock(&self.0).contains_key(key)
    }

    /// Forgets a session whose visibility or contents have changed.
    pub(super) fn forget(&self, key: &HotKey) {
        lock(&self.0).remove(key);
    }
}

fn is_viewer(shown: &ShownViewer, scope: &Scope) -> bool {
    shown.viewer == scope.viewer && shown.token == scope.token
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
            scope.viewer == Viewer::Operator || self.shown_sessions.shown_to(&key, scope).is_some();
        let subject = QuerySubject::Session(scope, session);
        if !was_shown || !self.shown_sessions.contains(&key) {
            return self.ledger.inspect(subject, query).await;
        }
        let shown = Arc::new(Mutex::new(None));
        let (head_slot, viewer, id) = (shown.clone(), scope.clone(), session.clone());
        let query_with_head: SnapshotQuery = Box::new(move |snapshot| {
            let head = ShownVersion::read(snapshot, &viewer, &id);
            *lock(&head_slot) = Some(head);
            query(snapshot);
        });
        let answered = self.ledger.inspect(subject, query_with_head).await;
        let head = lock(&shown).take();
        match head {
            Some(Ok(head)) => self.shown_sessions.record_shown(key, scope, head),
            Some(Err(failure)) if !is_ledger_outage(&failure) => {
                // Only an erasure, or a caller who was shown the session before, changes what is remembered.
                let erased = failure.code == ErrorCode::SessionErased;
                if erased || self.shown_sessions.shown_to(&key, scope).is_some() {
                    self.shown_sessions.forget(&key);
                }
            }
            _ => {}
        }
        answered
    }
}
