//! `pairs`: questions with their answers, of finalized turns, after the summary of older turns; nothing else.

use filrouge_engine::restore::{Block, Calls, Content, Dispositions, Message, PlanTurn};

use super::{NOT_IN_FORMAT, omit_reasoning};
use crate::json;

/// The reason for leaving out items that are neither question nor answer.
const NOT_A_PAIR: &str = "not_in_format";

pub(super) fn write(
    summary: Option<&Message>,
    turns: &[PlanTurn],
    dispositions: &mut Dispositions,
    out: &mut String,
) {
    if let Some(summary) = summary {
        omit_reasoning(&summary.reasoning, NOT_IN_FORMAT, dispositions);
        if let [Content::Summary(text)] = &summary.contents[..] {
            json::push_comma(out);
            out.push('{');
            json::push_member(out, "summary", text.as_token());
            out.push('}');
        }
    }
    for turn in turns {
        if let Some(pair) = &turn.pair {
            json::push_comma(out);
            out.push('{');
            json::push_text_member(out, "turn_id", &turn.turn_id.to_string());
            json::push_member(out, "question", pair.question.as_token());
            json::push_member(out, "answer", pair.answer.as_token());
            out.push('}');
        }
        // A plan for pairs has no blocks; blocks of any other plan are reported as left out.
        for block in &turn.blocks {
            match block {
                Block::Message(message) => omit_message(message, dispositions),
                Block::Calls(calls) => omit_calls(calls, dispositions),
            }
        }
    }
}

fn omit_message(message: &Message, dispositions: &mut Dispositions) {
    omit_reasoning(&message.reasoning, NOT_IN_FORMAT, dispositions);
    if let Some(seq) = message.seq {
        for _ in &message.contents {
            dispositions.omit_piece(seq, NOT_A_PAIR);
        }
    }
}

fn omit_calls(calls: &Calls, dispositions: &mut Dispositions) {
    omit_reasoning(&calls.reasoning, NOT_IN_FORMAT, dispositions);
    for call in &calls.calls {
        dispositions.omit_piece(call.seq, NOT_A_PAIR);
        if let Some(seq) = call.result.seq {
            dispositions.omit_piece(seq, NOT_A_PAIR);
        }
    }
}
