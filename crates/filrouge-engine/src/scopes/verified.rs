//! Which sessions this process has seen the ledger show to whom: all that may be told while the ledger does not answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use filrouge_store::command::{Scope, SessionToken, Viewer};
use filrouge_store::hot::{AsOf, HotKey};
use filrouge_store::ledger::{About, Inspect};
use filrouge_types::{ErrorCode, Failure, SessionId};
use quick_cache::unsync::Cache;

use super::TwoScopes;
use super::recent::{Head, is_silent};

/// Most sessions remembered.
const SESSIONS: usize = 16_384;
/// Most viewers of one.
const VIEWERS: usize = 4;

/// What the ledger has shown a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verified {
    /// The newest history.
    pub(super) as_of: AsOf,
    /// Whether the session is the viewer's for good.
    pub(super) owned: bool,
}

#[derive(Debug, Clone)]
struct Seen {
    viewer: Viewer,
    token: Option<SessionToken>,
    verified: Verified,
}

/// What the ledger has shown lately.
pub(super) struct Sightings(Mutex<Cache<HotKey, Vec<Seen>>>);

impl Sightings {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Cache::new(SESSIONS)))
    }

    fn locked(&self) -> MutexGuard<'_, Cache<HotKey, Vec<Seen>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger has shown the session to its viewer. What is older than what is known changes nothing; of what is newer,
    /// nobody is shown less from now on.
    pub(super) fn saw(&self, key: HotKey, scope: &Scope, as_of: AsOf, owned: bool) {
        let mut all = self.locked();
        let mut seen = all.remove(&key).map(|(_, seen)| seen).unwrap_or_default();
        let known = seen.iter().position(|s| is(s, scope));
        let before = known.map(|at| seen.remove(at).verified);
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

    /// What the viewer has been shown of the session.
    pub(super) fn of(&self, key: &HotKey, scope: &Scope) -> Option<Verified> {
        let all = self.locked();
        all.get(key)?
            .iter()
            .find(|s| is(s, scope))
            .map(|s| s.verified)
    }

    /// Whether somebody has been shown the session.
    pub(super) fn knows(&self, key: &HotKey) -> bool {
        self.locked().contains_key(key)
    }

    /// Who may see the session has changed, or what.
    pub(super) fn forget(&self, key: &HotKey) {
        self.locked().remove(key);
    }
}

fn is(seen: &Seen, scope: &Scope) -> bool {
    seen.viewer == scope.viewer && seen.token == scope.token
}

impl TwoScopes {
    /// A question to the ledger. What it shows, no copy may be behind afterwards.
    pub(super) async fn inspect_durable(
        &self,
        scope: &Scope,
        session: &SessionId,
        question: Inspect,
    ) -> Result<(), Failure> {
        let key = self.key(scope, session);
        // To strangers a session that is known costs as much as one that never was (P6).
        let is_theirs = scope.viewer == Viewer::Operator || self.verified.of(&key, scope).is_some();
        if !is_theirs || !self.verified.knows(&key) {
            return self
                .ledger
                .inspect(About::Session(scope, session), question)
                .await;
        }
        let shown = Arc::new(Mutex::new(None));
        let (told, viewer, of) = (shown.clone(), scope.clone(), session.clone());
        let both: Inspect = Box::new(move |sight| {
            let head = Head::of(sight, &viewer, &of);
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
            question(sight);
        });
        let answered = self
            .ledger
            .inspect(About::Session(scope, session), both)
            .await;
        let head = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        match head {
            Some(Ok(head)) => self.verified.saw(key, scope, head.as_of, head.owned),
            Some(Err(failure)) if !is_silent(&failure) => {
                // Whoever has never seen it changes nothing for those who have.
                let erased = failure.code == ErrorCode::SessionErased;
                if erased || self.verified.of(&key, scope).is_some() {
                    self.verified.forget(&key);
                }
            }
            _ => {}
        }
        answered
    }
}
