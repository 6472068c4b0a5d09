//! Rebuilds the dialogue of a call from its newest checkpoint and the items after it.

use filrouge_types::{Channel, Item, RawJson, Role, Variant};
use serde::Deserialize;
use serde_json::json;

use crate::fsm::{AgendaAnswer, Ask, Dialogue, Heard, Next};

/// The agenda's name in the ledger.
const AGENDA: &str = "agenda";

/// A part of an item: the text of a question or an answer, or the agenda's result.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    result: Option<AgendaAnswer>,
}

/// A request to the agenda and its answer, as two items of a turn.
pub(crate) fn agenda_items(
    number: usize,
    ask: &Ask,
    reported: &AgendaAnswer,
) -> [(Role, Channel, RawJson); 2] {
    let call_id = format!("{AGENDA}-{number}");
    let call = json!([{ "type": "tool_call", "call_id": call_id, "name": AGENDA, "args": ask }]);
    let result = json!([{ "type": "tool_result", "call_id": call_id, "result": reported }]);
    [
        (
            Role::Assistant,
            Channel::ToolCall,
            RawJson::from_checked(call.to_string()),
        ),
        (
            Role::Tool,
            Channel::ToolResult,
            RawJson::from_checked(result.to_string()),
        ),
    ]
}

/// One turn, read from its items.
#[derive(Default)]
struct RecordedTurn {
    heard: Option<Heard>,
    reported: Vec<AgendaAnswer>,
    answer: Option<String>,
}

/// The result of a replay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// How many turns were replayed.
    pub(crate) turns: u64,
    /// The number of replayed turns whose answer differs today; the caller heard the one in the ledger.
    pub(crate) differing: u64,
}

/// Replays items through the dialogue, oldest first; `None` if they cannot be read. Turns without an answer are skipped: the
/// caller heard none.
pub(crate) fn replay(dialogue: &mut Dialogue, items: &[Item]) -> Option<Replayed> {
    let mut replayed = Replayed::default();
    for turn in items.chunk_by(|a, b| a.turn_id == b.turn_id) {
        let RecordedTurn {
            heard,
            reported,
            answer: Some(answer),
        } = turn_of(turn)?
        else {
            continue;
        };
        let mut reported = reported.into_iter();
        let mut next = dialogue.hear(&heard?);
        let said = loop {
            match next {
                Next::Say(said) => break said,
                Next::Ask(ask) => next = dialogue.agenda_answered(&ask, reported.next()?),
            }
        };
        replayed.turns += 1;
        if said != answer {
            replayed.differing += 1;
            dialogue.last_utterance = answer;
        }
    }
    Some(replayed)
}

fn turn_of(items: &[Item]) -> Option<RecordedTurn> {
    let mut turn = RecordedTurn::default();
    for item in items
        .iter()
        .filter(|item| item.body.variant == Variant::Neutral)
    {
        match item.body.channel {
            Channel::Question => {
                let mut heard: Heard =
                    serde_json::from_str(item.body.metadata.as_ref()?.as_str()).ok()?;
                heard.said = part(item)?.text;
                turn.heard = Some(heard);
            }
            Channel::ToolResult => turn.reported.push(part(item)?.result?),
            Channel::Final => turn.answer = Some(part(item)?.text),
            _ => {}
        }
    }
    Some(turn)
}

fn part(item: &Item) -> Option<Part> {
    let parts: Vec<Part> = serde_json::from_str(item.body.parts.as_str()).ok()?;
    parts.into_iter().next()
}
