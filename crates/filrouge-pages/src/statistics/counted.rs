//! The sessions that were counted last, so that a period with many sessions is not read for each request.

use std::sync::Arc;

use filrouge_engine::SessionDays;
use filrouge_types::{Session, SessionId, TenantId, Timestamp};
use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

/// The maximum size of all kept figures, in bytes.
const BYTES: u64 = 32 << 20;
/// The size of a kept session without its rows, and of a row without its names.
const SESSION_BYTES: usize = 300;
const ROW_BYTES: usize = 200;

type Key = (TenantId, SessionId);
type Cache = sync::Cache<Key, Kept, BySize>;

/// The figures of the sessions that were counted last, at most 32 MiB. Callers may share them: figures are found by the
/// session as a caller has just listed it, so only by callers who may read it.
pub(crate) struct CountedSessions(Option<Cache>);

/// Figures, with the state of the session in which they were counted. Every change of its items adds a seq, and the end
/// of a turn changes the time.
#[derive(Clone)]
struct Kept {
    state: (u64, Timestamp),
    days: Arc<SessionDays>,
}

#[derive(Clone)]
struct BySize;

impl Weighter<Key, Kept> for BySize {
    fn weight(&self, _: &Key, kept: &Kept) -> u64 {
        let name = |name: &Option<Box<str>>| name.as_ref().map_or(0, |name| name.len());
        let rows = kept.days.keys();
        let rows = rows.map(|row| ROW_BYTES + name(&row.agent) + name(&row.model));
        (SESSION_BYTES + rows.sum::<usize>()) as u64
    }
}

impl Default for CountedSessions {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(10_000)
            .weight_capacity(BYTES)
            .build();
        let lifecycle = DefaultLifecycle::default();
        let cache = options
            .map(|options| Cache::with_options(options, BySize, Default::default(), lifecycle));
        Self(cache.ok())
    }
}

fn key_of(session: &Session) -> Key {
    (session.tenant_id.clone(), session.session_id.clone())
}

const fn state_of(session: &Session) -> (u64, Timestamp) {
    (session.last_seq, session.updated_at)
}

impl CountedSessions {
    /// The figures of a session that was just listed, if they were kept in this state.
    pub(crate) fn get(&self, session: &Session) -> Option<Arc<SessionDays>> {
        let kept = self.0.as_ref()?.get(&key_of(session))?;
        (kept.state == state_of(session)).then_some(kept.days)
    }

    /// Keeps the figures of a session, in place of earlier ones.
    pub(super) fn add(&self, session: &Session, days: &Arc<SessionDays>) {
        if let Some(cache) = &self.0 {
            let kept = Kept {
                state: state_of(session),
                days: days.clone(),
            };
            cache.insert(key_of(session), kept);
        }
    }
}
