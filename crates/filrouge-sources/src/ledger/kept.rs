//! Keeps the conversations that were read last, so that the pages of a session do not each read all of it.

use std::sync::Arc;

use filrouge_types::{Session, SessionId, TenantId, Timestamp};
use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::Conversation;
use crate::library::cache::Weigh;

/// The maximum size of all conversations in memory, in bytes.
const BYTES: u64 = 64 << 20;
/// The maximum size of one conversation that is kept, in bytes.
const CONVERSATION_BYTES: u64 = BYTES / 4;

type Key = (TenantId, SessionId);
type Cache = sync::Cache<Key, Arc<Kept>, ByWeight>;

/// The conversations that were read last, at most 64 MiB, each in the state in which it was read. Callers may share
/// them: a conversation is found by the session as a caller has just read it, so only by callers who may read it.
pub struct KeptConversations(Option<Cache>);

/// The state of a session. Every change of its items, even a redaction, adds a seq.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    last_seq: u64,
    /// Changes with the fields that a caller can set.
    version: [u8; 16],
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl State {
    const fn of(session: &Session) -> Self {
        Self {
            last_seq: session.last_seq,
            version: session.version,
            created_at: session.created_at,
            updated_at: session.updated_at,
        }
    }
}

struct Kept {
    state: State,
    conversation: Arc<Conversation>,
}

#[derive(Clone)]
struct ByWeight;

impl Weighter<Key, Arc<Kept>> for ByWeight {
    fn weight(&self, _: &Key, kept: &Arc<Kept>) -> u64 {
        kept.conversation.weight() as u64
    }
}

impl Default for KeptConversations {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            // With several shards, each shard would keep only what fits into its share of the budget.
            .shards(1)
            .estimated_items_capacity(256)
            .weight_capacity(BYTES)
            .build();
        let lifecycle = DefaultLifecycle::default();
        let cache = options
            .map(|options| Cache::with_options(options, ByWeight, Default::default(), lifecycle));
        Self(cache.ok())
    }
}

fn key_of(session: &Session) -> Key {
    (session.tenant_id.clone(), session.session_id.clone())
}

impl KeptConversations {
    /// The conversation of a session that was just read, if it was kept in this state.
    pub(super) fn get(&self, session: &Session) -> Option<Arc<Conversation>> {
        let kept = self.0.as_ref()?.get(&key_of(session))?;
        (kept.state == State::of(session)).then(|| kept.conversation.clone())
    }

    /// Keeps a conversation, in place of an earlier state of it.
    pub(super) fn add(&self, session: &Session, conversation: &Arc<Conversation>) {
        let Some(cache) = &self.0 else { return };
        let key = key_of(session);
        if conversation.weight() as u64 > CONVERSATION_BYTES {
            cache.remove(&key);
            return;
        }
        let kept = Kept {
            state: State::of(session),
            conversation: conversation.clone(),
        };
        cache.insert(key, Arc::new(kept));
    }
}
