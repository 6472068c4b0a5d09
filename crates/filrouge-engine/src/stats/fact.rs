//! What one item adds to the sums.

use std::borrow::Cow;

use filrouge_types::{Channel, Item, Timestamp, TurnId, Variant};
use serde::Deserialize;
use serde_json::value::RawValue;

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

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    ok: Option<&'a RawValue>,
}

fn parts(item: &Item) -> Vec<Part<'_>> {
    // Parts whose members are of other types than is usual are no calls and no results.
    let raw: Vec<&RawValue> = serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
    raw.into_iter()
        .filter_map(|part| serde_json::from_str(part.get()).ok())
        .collect()
}

/// An item of the channel is one call at least, also once it was redacted.
fn calls(item: &Item) -> u64 {
    let parts = parts(item);
    let calls = parts.iter().filter(|p| p.r#type == "tool_call");
    (calls.count() as u64).max(1)
}

fn errors(item: &Item) -> u64 {
    let failed =
        |p: &&Part<'_>| p.r#type == "tool_result" && p.ok.is_some_and(|ok| ok.get() == "false");
    parts(item).iter().filter(failed).count() as u64
}
