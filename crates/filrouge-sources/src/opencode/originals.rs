//! Adds the data of OpenCode's records that an import keeps in addition to the neutral form: the original JSON of
//! texts, arguments and outputs, and every field that has no equivalent in an item.
//!
//! The fields without an equivalent are stored in `metadata.opencode.message`, `.part`, `.state` and `.error`; if a
//! tool's own metadata repeats the tool's output exactly, that copy is left out. Files, and parts of kinds without a
//! neutral form, keep their original JSON. A turn is a user message and every answer up to the next one. Answers whose
//! user message exists but cannot be read (their `parentID` names it) become a turn with the id of that message, so
//! that it is the same turn once the message can be read.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use filrouge_types::{Channel, RawJson, Role as Speaker, Timestamp};

use super::neutral_message::{UNNAMED, error, model};
use super::storage::{MessageText, NAME, SessionText, Storage};
use crate::object::{Object, Writer};
use crate::turns_of::{ItemDraft, Records, latency};
use crate::{Message, Part, PartKind, Role, Skipped};

/// Fields of a message that are not stored in its metadata: the session id is that of the recorded session, tokens and
/// cost become the item's `usage`, and the error becomes an item.
const CONVERTED: [&str; 4] = ["sessionID", "cost", "tokens", "error"];

/// The original records of one session.
pub(super) struct OriginalRecords<'a> {
    storage: &'a dyn Storage,
    session: &'a SessionText,
    /// The JSON of each message, by id.
    messages: HashMap<&'a str, &'a str>,
    /// The JSON of each part, by id.
    parts: HashMap<&'a str, &'a str>,
    /// The ids of records that could not be used.
    broken: HashSet<&'a str>,
}

impl<'a> OriginalRecords<'a> {
    pub(super) fn new(
        (storage, session): (&'a dyn Storage, &'a SessionText),
        texts: &'a [MessageText],
        skipped: &'a [Skipped],
    ) -> Self {
        let file_names = skipped.iter().filter_map(|s| s.path.file_name()?.to_str());
        let parts = texts.iter().flat_map(|text| &text.parts);
        Self {
            storage,
            session,
            messages: texts.iter().map(|text| (&*text.id, &*text.text)).collect(),
            parts: parts.map(|part| (&*part.id, &*part.text)).collect(),
            broken: file_names
                .map(|name| name.strip_suffix(".json").unwrap_or(name))
                .collect(),
        }
    }
}

impl Records for OriginalRecords<'_> {
    fn place(&self, message: &Message, part: Option<&Part>) -> PathBuf {
        let part = part.map(|part| &*part.id);
        self.storage.place(self.session, &message.id, part)
    }

    fn begins_turn(&self, message: &Message) -> bool {
        message.role == Role::User
    }

    fn can_begin_first_turn(&self, _: &Message) -> bool {
        true
    }

    fn unreadable_question<'m>(&self, message: &'m Message) -> Option<&'m str> {
        let parent = message.parent_id.as_deref();
        parent.filter(|id| self.broken.contains(id))
    }

    fn is_open(&self, message: &Message) -> bool {
        let ended = message.completed.is_some() || message.error.is_some();
        message.role == Role::Assistant && !ended
    }

    /// After a message that ended with one of these two `finish` reasons, OpenCode's own loop continues.
    fn has_more(&self, message: &Message, _: bool) -> bool {
        matches!(message.finish.as_deref(), Some("tool-calls" | "unknown"))
    }

    fn complete_part(&self, message: &Message, part: &Part, items: &mut [ItemDraft]) {
        let Some((raw, object)) = find_record(&self.parts, &part.id) else {
            return;
        };
        match (&part.kind, items) {
            (PartKind::Text { .. } | PartKind::Reasoning { .. }, [item]) => {
                let key = match object.token("text") {
                    None if object.token("reasoning").is_some() => "reasoning",
                    _ => "text",
                };
                let mut content = Writer::part(part.kind.name());
                content.raw("text", object.token(key).unwrap_or("\"\""));
                item.set_part(&content.finish());
                item.foreign_fields
                    .nested("part", remaining_fields(&object, &[key]));
                if let PartKind::Text { .. } = &part.kind {
                    item.item.role = speaker(message);
                }
            }
            (PartKind::Tool(_), items) => complete_tool(part, &object, items),
            (PartKind::File { .. }, [item]) => {
                item.set_part(raw);
                item.item.role = speaker(message);
            }
            (_, [item]) => {
                item.set_part(raw);
                (item.item.role, item.item.channel) = (Speaker::System, Channel::SystemNote);
            }
            _ => {}
        }
    }

    /// Adds tokens and cost to the item of the last finished step, or else to the last item.
    fn complete_message(&self, message: &Message, items: &mut Vec<ItemDraft>) {
        let Some((_, object)) = find_record(&self.messages, &message.id) else {
            return;
        };
        let model = model(&object);
        for item in &mut *items {
            item.item.model.clone_from(&model);
        }
        if let (Some(item), Some(_)) = (items.last_mut(), &message.error) {
            let error = error(&object);
            let name = error.name.unwrap_or(UNNAMED);
            let mut part = Writer::part("error");
            part.raw("code", name);
            part.raw("message", error.message.unwrap_or(name));
            part.text("source", NAME);
            part.raw("retryable", if error.retryable { "true" } else { "false" });
            item.set_part(&part.finish());
            item.foreign_fields.nested("error", error.other_fields);
            item.item.occurred_at = Timestamp::from_millis(message.created);
        }
        let is_step = |part: &&Part| part.kind.name() == "step-finish";
        let step = message.parts.iter().rfind(is_step).map(|part| &*part.id);
        let is_last_step = |item: &ItemDraft| {
            item.item.item_id.as_ref().map(|id| id.as_str()) == step && step.is_some()
        };
        let index = items.iter().rposition(is_last_step);
        let index = index.unwrap_or(items.len().saturating_sub(1));
        if let Some(item) = items.get_mut(index) {
            item.item.usage = usage(&object);
        }
        if let Some(first) = items.first_mut() {
            first
                .foreign_fields
                .nested("message", object.without(&CONVERTED));
        }
    }
}

fn find_record<'a>(texts: &HashMap<&'a str, &'a str>, id: &str) -> Option<(&'a str, Object<'a>)> {
    let raw = texts.get(id)?.trim();
    Some((raw, Object::parse(raw).ok()?))
}

fn speaker(message: &Message) -> Speaker {
    match message.role {
        Role::User => Speaker::User,
        Role::Assistant => Speaker::Assistant,
        Role::System => Speaker::System,
    }
}

/// The fields of a part that are not stored elsewhere; `converted` are the fields that are. The message's id is kept,
/// because it shows which items belong together.
fn remaining_fields(part: &Object<'_>, converted: &[&str]) -> Writer {
    part.without(&[&["id", "sessionID", "type"], converted].concat())
}

/// Tokens and cost of the entire message, in their original JSON.
fn usage(message: &Object<'_>) -> Option<RawJson> {
    let mut usage = Writer::default();
    usage.copy(message, &["tokens", "cost"]);
    (!usage.is_empty()).then(|| RawJson::from_checked(usage.finish()))
}

/// Completes the items of a tool call: the call, and its result if it has ended. `neutral` is the neutral form of
/// `part`.
fn complete_tool(neutral: &Part, part: &Object<'_>, items: &mut [ItemDraft]) {
    let state = part.field("state").object().unwrap_or_default();
    let id = part.token("callID").unwrap_or("\"\"");
    let Some((call, result)) = items.split_first_mut() else {
        return;
    };
    let mut content = Writer::part("tool_call");
    content.raw("call_id", id);
    content.raw("name", part.token("tool").unwrap_or("\"\""));
    content.raw("args", state.get("input").unwrap_or("null"));
    call.set_part(&content.finish());
    call.foreign_fields
        .nested("part", remaining_fields(part, &["callID", "tool", "state"]));
    let Some(result) = result.first_mut() else {
        // An unfinished call has no result, so the state's other fields are stored with the call.
        return call
            .foreign_fields
            .nested("state", state.without(&["input"]));
    };
    let key = match state.text("status").as_deref() {
        Some("error") => "error",
        _ => "output",
    };
    let output = state.token(key).unwrap_or("\"\"");
    let mut content = Writer::part("tool_result");
    content.raw("call_id", id);
    content.raw("ok", if key == "error" { "false" } else { "true" });
    content.raw("latency_ms", &latency(neutral));
    content.raw("content", output);
    result.set_part(&content.finish());
    let mut ids = Writer::default();
    ids.copy(part, &["messageID"]);
    result.foreign_fields.nested("part", ids);
    result
        .foreign_fields
        .nested("state", remaining_state(&state, key, output));
}

/// The fields of a tool call's state that neither the call nor the result contains, without a second copy of the
/// output. `output_key` is the key of the output.
fn remaining_state(state: &Object<'_>, output_key: &str, output: &str) -> Writer {
    let mut rest = state.without(&["status", "input", output_key, "metadata"]);
    match state.field("metadata").object() {
        Some(metadata) if metadata.get("output") == Some(output) => {
            rest.nested("metadata", metadata.without(&["output"]));
        }
        _ => rest.copy(state, &["metadata"]),
    }
    rest
}
