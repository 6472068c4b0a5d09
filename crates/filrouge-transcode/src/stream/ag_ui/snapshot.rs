//! Snapshots of a conversation: its history, followed by the run's messages.

use filrouge_engine::stream::Transcript;
use serde_json::value::RawValue;

use super::texts::Texts;
use crate::stream::json::{self, Raw};

json::members! {
    #[serde(rename_all = "camelCase")]
    Message {
        id, role, content, error, tool_call_id | "tool_call_id",
        tool_calls | "tool_calls": Option<Vec<Call<'a>>>,
    }

    Call { id, function: Function<'a> }

    Function { name, arguments }
}

/// The messages of the newest snapshot, if they may be the run's only content.
#[derive(Default)]
pub(super) struct Snapshot {
    /// A JSON array, or empty.
    pending: String,
}

impl Snapshot {
    /// Decodes a snapshot; `false` if its shape is wrong. Records the messages after the last one that has arrived
    /// before. If the run has no content yet, the snapshot may contain only earlier history, so it is held back until
    /// the run ends.
    pub(super) fn decode(&mut self, raw: Raw<'_>, texts: &mut Texts, out: &mut Transcript) -> bool {
        let Some(raw) = json::non_null(raw) else {
            return false;
        };
        if texts.is_empty() {
            raw.clone_into(&mut self.pending);
            return true;
        }
        self.pending.clear();
        let Some(messages) = json::read::<Vec<&RawValue>>(raw) else {
            return false;
        };
        let has_arrived = |raw: &&RawValue| {
            let id = json::read::<Message<'_>>(raw.get()).and_then(|m| m.id);
            json::string_content(id).is_some_and(|id| texts.has(id))
        };
        if let Some(last) = messages.iter().rposition(has_arrived) {
            for raw in messages.iter().skip(last + 1) {
                record_message(raw, texts, out);
            }
        }
        true
    }

    /// Records the snapshot of a run that sent nothing else: the messages after the user's last one, provided that the
    /// final message is the assistant's.
    pub(super) fn record_pending(&mut self, texts: &mut Texts, out: &mut Transcript) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() || !texts.is_empty() {
            return;
        }
        let Some(messages) = json::read::<Vec<&RawValue>>(&pending) else {
            return out.unknown(&pending);
        };
        let has_role = |raw: &RawValue, role: &str| {
            let message_role = json::read::<Message<'_>>(raw.get()).and_then(|m| m.role);
            json::string_content(message_role) == Some(role)
        };
        if messages
            .last()
            .is_some_and(|last| has_role(last, "assistant"))
        {
            let question = messages.iter().rposition(|raw| has_role(raw, "user"));
            for raw in messages.iter().skip(question.map_or(0, |index| index + 1)) {
                record_message(raw, texts, out);
            }
        }
    }
}

/// Records one message of a snapshot, with its calls.
fn record_message(raw: &RawValue, texts: &mut Texts, out: &mut Transcript) {
    let Some(message) = json::read::<Message<'_>>(raw.get()) else {
        return out.unknown(raw.get());
    };
    let id = json::string_content(message.id).unwrap_or_default();
    let role = json::string_content(message.role);
    if role == Some("tool")
        && let Some(call) = json::string_content(message.tool_call_id)
    {
        return texts.record_result(call, message.content, message.error, message.id, out);
    }
    match json::nonempty_string(message.content) {
        Some(text) => texts.record_complete_message(id, role, text, out),
        // A list of parts, or an activity's object.
        None if json::non_null(message.content).is_some_and(|c| c != "\"\"") => {
            out.unknown(raw.get());
        }
        None => {}
    }
    for call in message.tool_calls.iter().flatten() {
        let name = json::string_token(call.function.name).unwrap_or("\"\"");
        let args = json::string_content(call.function.arguments).unwrap_or_default();
        if let Some(id) = json::string_content(call.id) {
            texts.record_complete_call(id, name, args, out);
        }
    }
}
