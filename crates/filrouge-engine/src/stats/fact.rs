//! What one item adds to the sums.

use filrouge_types::{Channel, Item, Part, Timestamp, TurnId, Variant};

use super::copies::Origin;
use super::usage::{Tokens, tokens};

/// What one item adds.
#[derive(Default)]
pub(super) struct Fact {
    pub(super) message: bool,
    pub(super) tool_calls: u64,
    pub(super) tool_errors: u64,
    pub(super) agent: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
    pub(super) tokens: Tokens,
    pub(super) usage_unknown: bool,
    pub(super) at: Option<Timestamp>,
}

impl Fact {
    /// `asked` is the turn whose question was the newest message: its question may go on in further items.
    pub(super) fn of(item: &Item, origin: &Origin, asked: &mut Option<TurnId>) -> Self {
        let usage = item.body.usage.as_ref();
        let counts = usage.map(|u| tokens(u.as_str(), origin.version()));
        let (mut tool_calls, mut tool_errors) = (0, 0);
        match item.body.channel {
            Channel::ToolCall => tool_calls = calls(item),
            Channel::ToolResult => tool_errors = errors(item),
            _ => {}
        }
        Self {
            message: is_message(item, asked),
            tool_calls,
            tool_errors,
            agent: item.body.agent.clone(),
            model: item.body.model.clone(),
            tokens: counts.flatten().unwrap_or_default(),
            usage_unknown: counts.is_some_and(|c| c.is_none()),
            at: Some(item.when()),
        }
    }
}

fn is_message(item: &Item, asked: &mut Option<TurnId>) -> bool {
    if item.body.variant != Variant::Neutral {
        return false;
    }
    match item.body.channel {
        Channel::Question => {
            let goes_on = item.turn_id.is_some() && *asked == item.turn_id;
            *asked = item.turn_id;
            !goes_on
        }
        Channel::Final | Channel::Partial | Channel::HitlRequest | Channel::HitlResponse => {
            *asked = None;
            true
        }
        _ => false,
    }
}

/// An item of the channel is one call at least, also once it was redacted.
fn calls(item: &Item) -> u64 {
    let parts = Part::all(&item.body.parts);
    let calls = parts.iter().filter(|p| p.is("tool_call"));
    (calls.count() as u64).max(1)
}

fn errors(item: &Item) -> u64 {
    let parts = Part::all(&item.body.parts);
    let failed = |p: &&Part<'_>| p.is("tool_result") && p.flag("ok") == Some(false);
    parts.iter().filter(failed).count() as u64
}
