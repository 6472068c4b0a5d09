//! Reading a session as it grows (DESIGN §12, tail): its items from any seq on, and the text of open turns' streams
//! before it becomes items.
//!
//! A reader holds a place: the seq of the last item, and how much of each draft it has given out. What is given out is
//! read from the store each time, items and drafts in one sight of it: the text that a draft had is neither missing
//! nor given twice when its item comes.

use filrouge_store::{Ledger, Scope};
use filrouge_types::{Failure, Item, SessionId};

mod drafts;

pub use drafts::DraftEvent;
use drafts::Drafts;

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
#[derive(Debug)]
pub struct Tail {
    position: u64,
    drafts: Option<Drafts>,
}

impl Tail {
    /// A reader of the items behind `position`, and of drafts if it wants them.
    #[must_use]
    pub fn behind(position: u64, drafts: bool) -> Self {
        Self {
            position,
            drafts: drafts.then(Drafts::default),
        }
    }

    /// What has come since the last call, at most `most` items; and whether that is all. Drafts are told when there
    /// are no more items.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`, `integrity_error`, `key_missing`, and the ledger's.
    pub async fn read(
        &mut self,
        ledger: &dyn Ledger,
        scope: &Scope,
        session: &SessionId,
        most: usize,
    ) -> Result<(Vec<TailEvent>, bool), Failure> {
        let (viewer, of, after) = (scope.clone(), session.clone(), self.position);
        let known = self.drafts.as_ref().map(Drafts::known);
        let (items, news, all) = ledger
            .ask_in(scope, session, move |sight| {
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
