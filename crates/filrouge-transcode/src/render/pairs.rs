//! `pairs`: questions with their answers, of finalized turns; nothing else.

use filrouge_engine::restore::{Block, Calls, Fates, PlanTurn, Say};

use super::{NOT_IN_FORMAT, lose_all};
use crate::json;

/// Why what is neither question nor answer is left out.
const LEFT_OUT: &str = "not_in_format";

pub(super) fn write(
    summary: Option<&Say>,
    turns: &[PlanTurn],
    fates: &mut Fates,
    out: &mut String,
) {
    if let Some(summary) = summary {
        lose_say(summary, fates);
    }
    for turn in turns {
        if let Some(pair) = &turn.pair {
            json::next(out);
            out.push_str("{\"turn_id\":\"");
            out.push_str(&turn.turn_id.to_string());
            out.push_str("\",\"question\":");
            out.push_str(pair.question.as_token());
            out.push_str(",\"answer\":");
            out.push_str(pair.answer.as_token());
            out.push('}');
        }
        // A plan made for pairs has no blocks; of another plan they are told to be missing.
        for block in &turn.blocks {
            match block {
                Block::Say(say) => lose_say(say, fates),
                Block::Calls(calls) => lose_calls(calls, fates),
            }
        }
    }
}

fn lose_say(say: &Say, fates: &mut Fates) {
    lose_all(&say.reasoning, NOT_IN_FORMAT, fates);
    if let Some(seq) = say.seq {
        for _ in &say.contents {
            fates.lose(seq, LEFT_OUT);
        }
    }
}

fn lose_calls(calls: &Calls, fates: &mut Fates) {
    lose_all(&calls.reasoning, NOT_IN_FORMAT, fates);
    for call in &calls.calls {
        fates.lose(call.seq, LEFT_OUT);
        if let Some(seq) = call.result.seq {
            fates.lose(seq, LEFT_OUT);
        }
    }
}
