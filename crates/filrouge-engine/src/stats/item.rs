//! The contribution of one item to a session's statistics.

use std::collections::BTreeSet;

use filrouge_types::{Channel, Item, Part, TurnId, Variant};
use serde_json::Value;

use super::Statistics;
use super::copies::Origin;
use super::usage::tokens;

/// The statistics of one item. `open_question` is the turn of the newest message so far if that message is a question:
/// a further question item of that turn continues the same message. The call updates `open_question`.
pub(super) fn statistics_of(
    item: &Item,
    origin: &Origin,
    open_question: &mut Option<TurnId>,
) -> Statistics {
    let usage = item.body.usage.as_ref().map(|usage| {
        let usage: Value = serde_json::from_str(usage.as_str()).ok()?;
        tokens(&usage, origin.version.as_deref())
    });
    let (mut tool_calls, mut tool_errors) = (0, 0);
    match item.body.channel {
        // At least one call, even if the item is redacted.
        Channel::ToolCall => tool_calls = count(item, |p| p.is("tool_call")).max(1),
        Channel::ToolResult => {
            let has_failed = |p: &&Part<'_>| p.is("tool_result") && p.flag("ok") == Some(false);
            tool_errors = count(item, has_failed);
        }
        _ => {}
    }
    let at = Some(item.when());
    Statistics {
        items: 1,
        messages: u64::from(is_message(item, open_question)),
        tool_calls,
        tool_errors,
        agents: BTreeSet::from_iter(item.body.agent.clone()),
        models: BTreeSet::from_iter(item.body.model.clone()),
        usage_unknown: u64::from(usage == Some(None)),
        tokens: usage.flatten().unwrap_or_default(),
        first_at: at,
        last_at: at,
        ..Statistics::default()
    }
}

fn is_message(item: &Item, open_question: &mut Option<TurnId>) -> bool {
    if item.body.variant != Variant::default() {
        return false;
    }
    match item.body.channel {
        Channel::Question => {
            let continues = item.turn_id.is_some() && *open_question == item.turn_id;
            *open_question = item.turn_id;
            !continues
        }
        Channel::Final | Channel::Partial | Channel::HitlRequest | Channel::HitlResponse => {
            *open_question = None;
            true
        }
        _ => false,
    }
}

fn count(item: &Item, is_counted: impl Fn(&&Part<'_>) -> bool) -> u64 {
    Part::all(&item.body.parts)
        .iter()
        .filter(is_counted)
        .count() as u64
}
