//! A foreign session as the turns and items that `filrouge import` records (DESIGN §10).

use filrouge_types::{Channel, ItemBody, RawJson, RequestId, Timestamp, TurnStatus};

use crate::{Header, Skipped};

/// One user message and its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTurn {
    /// The id of the user message; if there is none, the id of the first answer.
    pub request_id: RequestId,
    /// The items of the user message, and of texts that the program injected before it. Only what the user typed or
    /// attached is on channel `question`.
    pub question: Vec<ItemBody>,
    /// The items of the answers, in order.
    pub items: Vec<ItemBody>,
    /// The outcome of the turn:
    /// - finalized: the agent ended its work, with or without a text (see [`ForeignTurn::answer`]);
    /// - failed: the agent's last message ended in an error;
    /// - cancelled: the user stopped the agent;
    /// - interrupted: the turn has no complete answer yet, or the agent had more to do. A later read can return more
    ///   items.
    pub outcome: TurnStatus,
    /// The time of the user message.
    pub created: Timestamp,
    /// The time at which the turn's last message was completed, where the program records it.
    pub ended: Option<Timestamp>,
    /// A JSON object that contains, under the program's name, the ids of the messages from which the turn was built,
    /// and those of its unfinished messages.
    pub metadata: RawJson,
}

impl ForeignTurn {
    /// The item on channel `final`. A finalized turn can lack it: for example a command that the user ran, a
    /// compaction, or a turn in which the agent only called tools.
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
    /// A JSON object that contains, under the program's name, the recorded facts that have no field in the header.
    pub metadata: RawJson,
    /// The turns in order.
    pub turns: Vec<ForeignTurn>,
    /// Records that were left out, in a fixed order.
    pub skipped: Vec<Skipped>,
}
