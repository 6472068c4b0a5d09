//! A foreign session as the turns and items that `filrouge import` records (DESIGN §10).

use filrouge_types::{Channel, ItemBody, RawJson, RequestId, Timestamp, TurnStatus};

use crate::{Header, Skipped};

/// One user message and its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTurn {
    /// The id of the user message; for answers without one, of the first answer.
    pub request_id: RequestId,
    /// The items of the user message; not all are on channel `question`.
    pub question: Vec<ItemBody>,
    /// The items of the answers, in order.
    pub items: Vec<ItemBody>,
    /// The outcome. Finalized: the agent ended its work, with or without a text (see [`ForeignTurn::answer`]). Failed:
    /// its last message ended in an error. Cancelled: the user stopped it. Interrupted: it has no answer yet, or the
    /// agent had more to do; a later read can return more.
    pub outcome: TurnStatus,
    /// The time of the user message.
    pub created: Timestamp,
    /// The time at which its last message was completed, where the program records it.
    pub ended: Option<Timestamp>,
    /// Further facts from the source, a JSON object.
    pub metadata: RawJson,
}

impl ForeignTurn {
    /// The item on channel `final`. A finalized turn can lack one: a command that the user ran, a compaction, an agent
    /// that only called tools.
    #[must_use]
    pub fn answer(&self) -> Option<&ItemBody> {
        self.items
            .iter()
            .rev()
            .find(|item| item.channel == Channel::Final)
    }
}

/// One session with its turns, and the records that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedSession {
    /// The complete header.
    pub session: Header,
    /// All other facts in its record and in the records that belong to it, a JSON object.
    pub metadata: RawJson,
    /// The turns in order.
    pub turns: Vec<ForeignTurn>,
    /// Records that were left out, in a fixed order.
    pub skipped: Vec<Skipped>,
}
