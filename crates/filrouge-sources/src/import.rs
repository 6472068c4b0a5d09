//! A foreign session as the turns and items that `filrouge import` records (DESIGN §10).

use filrouge_types::{Channel, ItemBody, RawJson, RequestId, Timestamp, TurnStatus};

/// After this time without a change of the session, an answer that is not complete has been broken off.
const BROKEN_OFF_AFTER_MILLIS: i64 = 3_600_000;

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
    /// The content of the unfinished messages, if there are some.
    pub unfinished: Option<Box<Unfinished>>,
}

/// The content of a turn's unfinished messages, and what else changes if they become part of the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The items, each with its position among [`ForeignTurn::items`], in order. The text of an answer is on channel
    /// `partial`.
    pub items: Vec<(usize, ItemBody)>,
    /// The reports that the messages were left out.
    pub omitted: Vec<Skipped>,
    /// Parts of the messages that were left out.
    pub skipped: Vec<Skipped>,
    /// The turn's metadata with these messages.
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

    /// Adds the content of unfinished messages. If the last one of the turn is unfinished, the turn is interrupted and
    /// has no answer.
    fn add_unfinished(&mut self, unfinished: Unfinished) {
        let is_last = |(at, _): &(usize, ItemBody)| *at == self.items.len();
        if unfinished.items.last().is_some_and(is_last) {
            self.outcome = TurnStatus::Interrupted;
            let answers = self.items.iter_mut();
            let answers = answers.filter(|item| item.channel == Channel::Final);
            answers.for_each(|item| item.channel = Channel::Observation);
        }
        for (at, item) in unfinished.items.into_iter().rev() {
            self.items.insert(at, item);
        }
        self.metadata = unfinished.metadata;
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

impl LoadedSession {
    /// The session with the content of its unfinished messages, if it has not changed for an hour before `now`: their
    /// answers have been broken off. A later read can return them complete.
    #[must_use]
    pub fn with_broken_off_answers(mut self, now: Timestamp) -> Self {
        if now.as_millis().saturating_sub(self.session.updated) < BROKEN_OFF_AFTER_MILLIS {
            return self;
        }
        for turn in &mut self.turns {
            if let Some(unfinished) = turn.unfinished.take() {
                self.skipped
                    .retain(|skipped| !unfinished.omitted.contains(skipped));
                self.skipped.extend_from_slice(&unfinished.skipped);
                turn.add_unfinished(*unfinished);
            }
        }
        self.skipped.sort();
        self
    }
}
