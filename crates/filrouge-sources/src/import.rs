//! A foreign session as the turns and items that `filrouge import` records (DESIGN §10).

use filrouge_types::{Channel, ItemBody, RawJson, RequestId, Timestamp, TurnStatus};

use crate::{Header, Skipped};

/// One user message and what answered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTurn {
    /// The id of the user message; for answers without one, of the first answer.
    pub request_id: RequestId,
    /// The items of the user message; not all are on channel `question`.
    pub question: Vec<ItemBody>,
    /// The items of the answers, in order.
    pub items: Vec<ItemBody>,
    /// How it ended. Finalized: the agent ended its work, with a text or without (see [`ForeignTurn::answer`]). Failed: its
    /// last message ended in an error. Cancelled: the user stopped it. Interrupted: no answer yet, or the agent had more to
    /// do; a later read can return more.
    pub outcome: TurnStatus,
    /// When it was asked.
    pub created: Timestamp,
    /// When its last message was complete, where the program says so.
    pub ended: Option<Timestamp>,
    /// What the source adds, a JSON object.
    pub metadata: RawJson,
}

impl ForeignTurn {
    /// The item on channel `final`. A finalized turn can be without: a command the user ran
    /// himself, a compaction, an agent that only called tools.
    #[must_use]
    pub fn answer(&self) -> Option<&ItemBody> {
        self.items
            .iter()
            .rev()
            .find(|item| item.channel == Channel::Final)
    }
}

/// One session with its turns, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSession {
    /// The header, complete.
    pub session: Header,
    /// Everything else in its record and in the records that belong to it, a JSON object.
    pub metadata: RawJson,
    /// The turns in order.
    pub turns: Vec<ForeignTurn>,
    /// What was left out, in a fixed order.
    pub skipped: Vec<Skipped>,
}
