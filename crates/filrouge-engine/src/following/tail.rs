//! Reads a session as it grows (DESIGN §12, tail): its items from any seq on, and the text of open turns' streams
//! before it becomes items.
//!
//! A reader has a position: the seq of the newest item that it has returned, and how much of each draft it has
//! returned. Each read gets items and drafts from one snapshot of the store, so that a draft's text is neither missing
//! nor repeated when its item arrives.

use std::sync::Arc;

use filrouge_store::Scope;
use filrouge_types::{Failure, Item, SessionId};

use super::drafts::{DraftEvent, SentDrafts};
use super::live::Follower;
use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Following;

/// The next event of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum TailEvent {
    /// New text of a draft. The texts of all draft events of a part, concatenated, are the text that the part has in
    /// the item.
    Draft(Box<DraftEvent>),
    /// An item.
    Item(Box<Item>),
}

/// One reader of one session.
pub struct Tail {
    core: Arc<Core>,
    scope: Scope,
    session: SessionId,
    position: u64,
    drafts: Option<SentDrafts>,
    follower: Follower,
}

impl Following {
    /// Opens a reader of the items after seq `after`; without it, of the items after the newest existing one. With
    /// `drafts`, the reader returns drafts as well.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's errors.
    pub async fn tail(
        &self,
        caller: &Caller,
        session: SessionId,
        after: Option<u64>,
        drafts: bool,
    ) -> Result<Tail, Failure> {
        let scope = caller.scope(Permission::Read)?;
        let follower = self.follow(caller, &session).await?;
        let position = match after {
            Some(seq) => seq,
            None => self.ledger.session(&scope, &session).await?.last_seq,
        };
        Ok(Tail {
            core: self.0.clone(),
            scope,
            session,
            position,
            drafts: drafts.then(SentDrafts::default),
            follower,
        })
    }
}

impl Tail {
    /// The session.
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Waits for a commit that touched the session since the last call. Cancel-safe.
    pub async fn changed(&mut self) {
        self.follower.changed().await;
    }

    /// The events since the previous call, with at most `max_items` items; and whether no further items remain. New
    /// drafts are returned only if no further items remain.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`, and the ledger's errors.
    pub async fn read(&mut self, max_items: usize) -> Result<(Vec<TailEvent>, bool), Failure> {
        let after = self.position;
        let received = self.drafts.as_ref().map(SentDrafts::received_chunks);
        let (items, updates, no_more_items) = self
            .core
            .ledger
            .query_session(&self.scope, &self.session, move |snapshot, scope, id| {
                let (items, next) = snapshot.items(scope, id, after, max_items)?;
                let updates = match received.filter(|_| next.is_none()) {
                    Some(received) => Some(snapshot.drafts(scope, id, &received)?),
                    None => None,
                };
                Ok((items, updates, next.is_none()))
            })
            .await?;
        let mut events = Vec::new();
        for item in items {
            self.position = item.seq;
            if let Some(drafts) = &mut self.drafts {
                events.extend(drafts.remaining_events(&item).into_iter().map(draft_event));
            }
            events.push(TailEvent::Item(Box::new(item)));
        }
        if let Some((drafts, updates)) = self.drafts.as_mut().zip(updates) {
            events.extend(drafts.update(updates).into_iter().map(draft_event));
        }
        Ok((events, no_more_items))
    }
}

fn draft_event(event: DraftEvent) -> TailEvent {
    TailEvent::Draft(Box::new(event))
}
