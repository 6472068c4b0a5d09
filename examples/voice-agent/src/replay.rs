//! Rebuilds the dialogue of a call from its newest checkpoint and the items after it.

use filrouge_types::{Channel, Item, RawJson, Role, Variant};
use serde::Deserialize;
use serde_json::json;

use crate::fsm::{CalendarAnswer, CalendarRequest, Dialogue, HeardUtterance, StepResult};

/// The name under which the ledger records the calendar as a tool.
const CALENDAR: &str = "agenda";

/// A part of an item: the text of a question or an answer, or the calendar's result.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    result: Option<CalendarAnswer>,
}

/// A request to the calendar and its answer, as two items of a turn.
pub(crate) fn calendar_items(
    number: usize,
    request: &CalendarRequest,
    answer: &CalendarAnswer,
) -> [(Role, Channel, RawJson); 2] {
    let call_id = format!("{CALENDAR}-{number}");
    let call =
        json!([{ "type": "tool_call", "call_id": call_id, "name": CALENDAR, "args": request }]);
    let result = json!([{ "type": "tool_result", "call_id": call_id, "result": answer }]);
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
    heard: Option<HeardUtterance>,
    calendar_answers: Vec<CalendarAnswer>,
    answer: Option<String>,
}

/// The result of a replay.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayResult {
    /// The number of replayed turns.
    pub(crate) turns: u64,
    /// The number of turns whose replayed answer differs from the recorded one. The caller heard the recorded one.
    pub(crate) differing: u64,
}

/// Replays items through the dialogue, oldest first; returns `None` if they cannot be read. Skips turns without an
/// answer: the caller heard none.
pub(crate) fn replay(dialogue: &mut Dialogue, items: &[Item]) -> Option<ReplayResult> {
    let mut result = ReplayResult::default();
    for turn in items.chunk_by(|a, b| a.turn_id == b.turn_id) {
        let RecordedTurn {
            heard,
            calendar_answers,
            answer: Some(answer),
        } = read_turn(turn)?
        else {
            continue;
        };
        let mut calendar_answers = calendar_answers.into_iter();
        let mut step = dialogue.hear(&heard?);
        let replayed_answer = loop {
            match step {
                StepResult::Say(text) => break text,
                StepResult::AskCalendar(request) => {
                    step = dialogue.calendar_answered(&request, calendar_answers.next()?);
                }
            }
        };
        result.turns += 1;
        if replayed_answer != answer {
            result.differing += 1;
            dialogue.last_utterance = answer;
        }
    }
    Some(result)
}

/// Reads one turn from its items.
fn read_turn(items: &[Item]) -> Option<RecordedTurn> {
    let mut turn = RecordedTurn::default();
    for item in items
        .iter()
        .filter(|item| item.body.variant == Variant::Neutral)
    {
        match item.body.channel {
            Channel::Question => {
                let mut heard: HeardUtterance =
                    serde_json::from_str(item.body.metadata.as_ref()?.as_str()).ok()?;
                heard.text = first_part(item)?.text;
                turn.heard = Some(heard);
            }
            Channel::ToolResult => turn.calendar_answers.push(first_part(item)?.result?),
            Channel::Final => turn.answer = Some(first_part(item)?.text),
            _ => {}
        }
    }
    Some(turn)
}

fn first_part(item: &Item) -> Option<Part> {
    let parts: Vec<Part> = serde_json::from_str(item.body.parts.as_str()).ok()?;
    parts.into_iter().next()
}
