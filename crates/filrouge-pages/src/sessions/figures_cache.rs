//! Keeps figures of sessions, because they are computed from all items.

use std::collections::HashMap;
use std::sync::Mutex;

use filrouge_types::{Session, SessionId, TenantId, lock};

/// The maximum number of sessions whose figures are kept.
const CACHE_SESSIONS: usize = 10_000;

/// The figures that are computed from all items.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// The sum of all tokens; `None` if no item says how many it used.
    pub(super) tokens: Option<u64>,
    /// The cost in US dollars; `None` if a model has no price.
    pub(super) cost: Option<f64>,
}

/// Keeps figures of sessions until the session has a new item.
#[derive(Debug, Default)]
pub(crate) struct FiguresCache(Mutex<HashMap<(TenantId, SessionId), (u64, Figures)>>);

impl FiguresCache {
    /// The figures of a session that has not changed since they were kept.
    pub(super) fn get(&self, session: &Session) -> Option<Figures> {
        let key = (session.tenant_id.clone(), session.session_id.clone());
        let (last_seq, figures) = lock(&self.0).get(&key).copied()?;
        (last_seq == session.last_seq).then_some(figures)
    }

    /// Keeps figures. A full cache is emptied first.
    pub(super) fn keep(&self, session: &Session, figures: Figures) {
        let key = (session.tenant_id.clone(), session.session_id.clone());
        let mut kept = lock(&self.0);
        if kept.len() >= CACHE_SESSIONS {
            kept.clear();
        }
        kept.insert(key, (session.last_seq, figures));
    }
}
