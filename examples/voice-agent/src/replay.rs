//! The dialogue of a call, made anew from its newest checkpoint and the items behind it.

use filrouge_types::{Channel, Item, RawJson, Role, Variant};
use serde::Deserialize;
use serde_json::json;

use crate::fsm::{Ask, Dialogue, Heard, Next, Told};

/// The name of the agenda in the journal.
const AGENDA: &str = "agenda";

/// A text, as questions and answers have it; or what the agenda was asked, or told.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    result: Option<Told>,
}

/// What the agenda was asked and what it told, as two items of a turn.
pub(crate) fn agenda_items(number: usize, ask: &Ask, told: &Told) -> [(Role, Channel, RawJson); 2] {
    let call_id = format!("{AGENDA}-{number}");
    let call = json!([{ "type": "tool_call", "call_id": call_id, "name": AGENDA, "args": ask }]);
    let result = json!([{ "type": "tool_result", "call_id": call_id, "result": told }]);
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

/// One turn as its items tell it.
#[derive(Default)]
struct ToldTurn {
    heard: Option<Heard>,
    told: Vec<Told>,
    answer: Option<String>,
}

/// How a replay went.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Turns that were put through the dialogue again.
    pub(crate) turns: u64,
    /// Of those, the ones in which the dialogue says something else today; the caller heard what is in the journal.
    pub(crate) differing: u64,
}

/// Puts items through the dialogue, oldest first; `None` when they cannot be understood. Turns without an answer are left
/// out: the caller heard none.
pub(crate) fn replay(dialogue: &mut Dialogue, items: &[Item]) -> Option<Replayed> {
    let mut replayed = Replayed::default();
    for turn in items.chunk_by(|a, b| a.turn_id == b.turn_id) {
        let ToldTurn {
            heard,
            told,
            answer: Some(answer),
        } = turn_of(turn)?
        else {
            continue;
        };
        let mut told = told.into_iter();
        let mut next = dialogue.hear(&heard?);
        let said = loop {
            match next {
                Next::Say(said) => break said,
                Next::Ask(ask) => next = dialogue.told(&ask, told.next()?),
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

fn turn_of(items: &[Item]) -> Option<ToldTurn> {
    let mut turn = ToldTurn::default();
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
            Channel::ToolResult => turn.told.push(part(item)?.result?),
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
