//! Reading a session as it grows (DESIGN §12, tail): its items from any seq on, and the text of open turns' streams
//! before it becomes items.
//!
//! A reader holds a place: the seq of the last item, and how much of each draft it has given out. What is given out is
//! read from the store each time, items and drafts in one sight of it: the text that a draft had is neither missing
//! nor given twice when its item comes.

use std::sync::Arc;

use filrouge_store::Scope;
use filrouge_types::{Failure, Item, SessionId};

use super::drafts::{DraftEvent, Drafts};
use super::live::Follower;
use crate::caller::{Caller, Permission};
use crate::core::Core;
use crate::engine::Following;

/// What comes next in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum TailEvent {
    /// What has come to a draft. Draft events of an item's part, put together, are the text that the part has when
    /// the item comes.
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
    drafts: Option<Drafts>,
    follower: Follower,
}

impl Following {
    /// A reader of the items behind `after`, or behind those that are there, and of drafts if it wants them.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, and the ledger's.
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
            drafts: drafts.then(Drafts::default),
            follower,
        })
    }
}

impl Tail {
    /// The session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Waits for a commit that has touched the session since this was last called. May be given up at any time.
    pub async fn changed(&mut self) {
        self.follower.changed().await;
    }

    /// What has come since the last call, at most `most` items; and whether that is all. Drafts are told when there
    /// are no more items.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`, and the ledger's.
    pub async fn read(&mut self, most: usize) -> Result<(Vec<TailEvent>, bool), Failure> {
        let (viewer, of, after) = (self.scope.clone(), self.session.clone(), self.position);
        let known = self.drafts.as_ref().map(Drafts::known);
        let (items, news, all) = self
            .core
            .ledger
            .ask_in(&self.scope, &self.session, move |sight| {
                let (items, next) = sight.items(&viewer, &of, after, most)?;
                let news = match known.filter(|_| next.is_none()) {
                    Some(known) => Some(sight.drafts(&viewer, &of, &known)?),
                    None => None,
                };
                Ok((items, news, next.is_none()))
            })
            .await?;
        let mut events = Vec::new();
        for item in items {
            self.position = item.seq;
            if let Some(drafts) = &mut self.drafts {
                events.extend(drafts.rest(&item).into_iter().map(draft));
            }
            events.push(TailEvent::Item(Box::new(item)));
        }
        if let Some((drafts, news)) = self.drafts.as_mut().zip(news) {
            events.extend(drafts.grown(news).into_iter().map(draft));
        }
        Ok((events, all))
    }
}

fn draft(event: DraftEvent) -> TailEvent {
    TailEvent::Draft(Box::new(event))
}
