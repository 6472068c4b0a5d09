//! Converts messages to items.

use std::borrow::Cow;
use std::collections::HashSet;

use filrouge_types::{Channel, ItemBody, ItemId, JsonText, RawJson, Role as Speaker, Timestamp};
use serde_json::{Map, Value};

use super::Records;
use crate::object::{Object, Writer, check_value};
use crate::{Message, Part, PartKind, Role, SkipReason, Skipped, Tool, ToolStatus};

/// The state of a conversion: the item ids in use, and reports of what was left out.
pub(super) struct Items<'a> {
    pub(super) program: &'static str,
    pub(super) records: &'a dyn Records,
    pub(super) item_ids: HashSet<ItemId>,
    pub(super) skipped: Vec<Skipped>,
}

/// An item whose metadata is still being built.
pub(crate) struct ItemDraft {
    pub(crate) item: ItemBody,
    /// The content of `metadata` under the program's name.
    pub(crate) foreign_fields: Writer,
    /// Whether the item can be the answer of its turn.
    pub(super) can_answer: bool,
}

impl ItemDraft {
    /// Creates a note that filrouge adds, which does not come from a message.
    pub(crate) fn system_note(text: &str, millis: i64) -> Self {
        let parts = RawJson::from_checked(format!("[{}]", text_part(text).finish()));
        let item = ItemBody {
            occurred_at: Timestamp::from_millis(millis),
            ..ItemBody::new(Speaker::System, Channel::SystemNote, parts)
        };
        Self {
            item,
            foreign_fields: Writer::default(),
            can_answer: false,
        }
    }

    /// Replaces the item's content with one part, given as JSON.
    pub(crate) fn set_part(&mut self, part: &str) {
        self.item.parts = RawJson::from_checked(format!("[{part}]"));
    }

    /// Adds members to the item's only part.
    pub(crate) fn add_members(&mut self, members: Map<String, Value>) {
        let part: Result<[Map<String, Value>; 1], _> =
            serde_json::from_str(self.item.parts.as_str());
        if let (Ok([mut part]), false) = (part, members.is_empty()) {
            part.extend(members);
            self.set_part(&Value::Object(part).to_string());
        }
    }

    /// Returns the item with its finished metadata.
    pub(super) fn finish(self, program: &str) -> ItemBody {
        let mut metadata = Writer::default();
        metadata.nested(program, self.foreign_fields);
        let metadata = (!metadata.is_empty()).then(|| RawJson::from_checked(metadata.finish()));
        ItemBody {
            metadata,
            ..self.item
        }
    }
}

/// The content of an item, without the fields that come from its message.
struct ItemContent {
    id: String,
    role: Speaker,
    channel: Channel,
    json: String,
    /// The time in milliseconds since 1970; `None` means the time of the message.
    at: Option<i64>,
}

impl Items<'_> {
    pub(super) fn skip(
        &mut self,
        message: &Message,
        part: Option<&Part>,
        reason: SkipReason,
        detail: String,
    ) {
        let place = self.records.place(message, part);
        self.skipped.push(Skipped::new(&place, reason, detail));
    }

    /// The items of one message: its parts in order, then its error.
    pub(super) fn convert_message(&mut self, message: &Message) -> Vec<ItemDraft> {
        let mut drafts = Vec::new();
        for part in &message.parts {
            let first = drafts.len();
            match part_contents(message, part, self.records.keeps_all()) {
                Ok(contents) => {
                    let contents = contents.into_iter();
                    drafts.extend(contents.filter_map(|c| self.new_draft(message, Some(part), c)));
                }
                Err(reason) => {
                    let detail = format!("part {:?}", part.id);
                    self.skip(message, Some(part), reason, detail);
                }
            }
            self.records
                .complete_part(message, part, &mut drafts[first..]);
        }
        let message_content =
            error_content(message).or_else(|| drafts.is_empty().then(|| placeholder(message)));
        if let Some(message_content) = message_content {
            drafts.extend(self.new_draft(message, None, message_content));
        }
        self.records.complete_message(message, &mut drafts);
        drafts
    }

    /// Creates an item; `None` if its id is invalid or repeated, which is reported.
    fn new_draft(
        &mut self,
        message: &Message,
        part: Option<&Part>,
        content: ItemContent,
    ) -> Option<ItemDraft> {
        let id = ItemId::new(&*content.id).ok();
        let is_new = id
            .as_ref()
            .is_some_and(|id| self.item_ids.insert(id.clone()));
        if !is_new && !self.records.keeps_all() {
            let (reason, detail) = match id {
                None => (
                    SkipReason::BadField,
                    format!("{:?} is not a valid id", content.id),
                ),
                Some(id) => {
                    let detail = format!("{id} was read from another message");
                    (SkipReason::DuplicateId, detail)
                }
            };
            self.skip(message, part, reason, detail);
            return None;
        }
        let parts = RawJson::from_checked(format!("[{}]", content.json));
        let item = ItemBody {
            item_id: id,
            agent: message.agent.clone(),
            model: message.model.clone(),
            occurred_at: Timestamp::from_millis(content.at.unwrap_or(message.created)),
            ..ItemBody::new(content.role, content.channel, parts)
        };
        Some(ItemDraft {
            item,
            foreign_fields: Writer::default(),
            can_answer: part.is_some_and(|part| can_answer(message, part)),
        })
    }
}

/// Adds the message's usage to its last item, and its other fields to its first item.
pub(super) fn complete_drafts(message: &Message, drafts: &mut [ItemDraft]) {
    if let Some(last) = drafts.last_mut() {
        last.item.usage = usage(message);
    }
    if let Some(first) = drafts.first_mut() {
        first
            .foreign_fields
            .nested("message", message_fields(message));
    }
}

/// Whether a part can be the answer of its turn: a nonempty text that the agent wrote.
fn can_answer(message: &Message, part: &Part) -> bool {
    match &part.kind {
        PartKind::Text { text, synthetic } => {
            message.role == Role::Assistant && !message.summary && !synthetic && !text.is_empty()
        }
        _ => false,
    }
}

/// The contents of one item for a part, or of two for a tool call that has ended. If `keep_invalid` is true, invalid
/// JSON becomes a text instead of an error.
fn part_contents(
    message: &Message,
    part: &Part,
    keep_invalid: bool,
) -> Result<Vec<ItemContent>, SkipReason> {
    let single = |role, channel, json: Writer| {
        Ok(vec![ItemContent {
            id: part.id.to_string(),
            role,
            channel,
            json: json.finish(),
            at: part.start,
        }])
    };
    match &part.kind {
        PartKind::Text { text, synthetic } => {
            let (role, channel) = role_and_channel(message, *synthetic);
            single(role, channel, text_part(text))
        }
        PartKind::Reasoning { text } => {
            let mut json = Writer::part("reasoning");
            json.text("text", text);
            single(Speaker::Assistant, Channel::Thought, json)
        }
        PartKind::Tool(tool) => tool_contents(part, tool, keep_invalid),
        PartKind::File { mime, name, url } => {
            let (role, channel) = role_and_channel(message, false);
            let mut json = Writer::part("file");
            for (key, value) in [("mime", mime), ("name", name), ("url", url)] {
                json.optional_text(key, value.as_deref());
            }
            single(role, channel, json)
        }
        PartKind::Patch { files } => {
            let files: Vec<&str> = files.iter().map(|file| &**file).collect();
            let mut json = Writer::part("patch");
            json.raw("files", &Value::from(files).to_string());
            single(Speaker::System, Channel::SystemNote, json)
        }
        PartKind::Compaction { automatic, summary } => match summary {
            Some(text) => single(Speaker::System, Channel::Summary, text_part(text)),
            None => {
                let mut json = Writer::part("compaction");
                json.raw("automatic", if *automatic { "true" } else { "false" });
                single(Speaker::System, Channel::SystemNote, json)
            }
        },
        PartKind::Other { name, json } => {
            let json = original_part(name, &checked_json(json, keep_invalid)?);
            single(Speaker::System, Channel::SystemNote, json)
        }
    }
}

/// The role and the channel of a text.
fn role_and_channel(message: &Message, synthetic: bool) -> (Speaker, Channel) {
    match message.role {
        _ if message.summary => (Speaker::System, Channel::Summary),
        Role::User if !synthetic => (Speaker::User, Channel::Question),
        Role::Assistant => (Speaker::Assistant, Channel::Observation),
        Role::User | Role::System => (Speaker::System, Channel::SystemNote),
    }
}

fn text_part(text: &str) -> Writer {
    let mut json = Writer::part("text");
    json.text("text", text);
    json
}

/// A part in its original JSON. JSON without a `type` becomes the field `value` of a part with the type `name`.
fn original_part(name: &str, raw: &str) -> Writer {
    let object = Object::parse(raw).unwrap_or_default();
    if object.token("type").is_some() {
        return object.without(&[]);
    }
    let mut json = Writer::part(name);
    json.raw("value", raw);
    json
}

/// Checked JSON in its original form; if `keep_invalid` is true, invalid JSON becomes a JSON string with the
/// text.
fn checked_json(json: &str, keep_invalid: bool) -> Result<Cow<'_, str>, SkipReason> {
    match check_value(json) {
        Ok(json) => Ok(json.into()),
        Err(_) if keep_invalid => Ok(JsonText::from_plain(json).as_token().to_owned().into()),
        Err((reason, _)) => Err(reason),
    }
}

fn tool_contents(
    part: &Part,
    tool: &Tool,
    keep_invalid: bool,
) -> Result<Vec<ItemContent>, SkipReason> {
    let args = checked_json(&tool.input, keep_invalid)?;
    let mut json = Writer::part("tool_call");
    json.text("call_id", &tool.call_id);
    json.text("name", &tool.name);
    json.raw("args", &args);
    json.optional_text("child_session_id", tool.child.as_deref());
    let mut items = vec![ItemContent {
        id: format!("{}:call", part.id),
        role: Speaker::Assistant,
        channel: Channel::ToolCall,
        json: json.finish(),
        at: part.start,
    }];
    let ok = match tool.status {
        ToolStatus::Completed => true,
        ToolStatus::Error => false,
        ToolStatus::Pending | ToolStatus::Running => return Ok(items),
    };
    let text = tool.error.as_ref().filter(|_| !ok).or(tool.output.as_ref());
    let mut json = Writer::part("tool_result");
    json.text("call_id", &tool.call_id);
    json.raw("ok", if ok { "true" } else { "false" });
    json.raw("latency_ms", &latency(part));
    json.text("content", text.map_or("", |text| text));
    items.push(ItemContent {
        id: format!("{}:result", part.id),
        role: Speaker::Tool,
        channel: Channel::ToolResult,
        json: json.finish(),
        at: part.end.or(part.start),
    });
    Ok(items)
}

/// The milliseconds from start to end of a part, as JSON; `null` if they are unknown.
pub(crate) fn latency(part: &Part) -> String {
    match (part.start, part.end) {
        (Some(start), Some(end)) if end >= start => (end - start).to_string(),
        _ => "null".to_owned(),
    }
}

fn error_content(message: &Message) -> Option<ItemContent> {
    let error = message.error.as_ref()?;
    let mut json = Writer::part("error");
    json.text("code", &error.name);
    json.text("message", &error.message);
    json.raw("retryable", if error.retryable { "true" } else { "false" });
    Some(ItemContent {
        id: format!("{}:error", message.id),
        role: Speaker::Assistant,
        channel: Channel::Error,
        json: json.finish(),
        at: message.completed,
    })
}

/// The item of a message without other items; the message's fields are stored with it.
fn placeholder(message: &Message) -> ItemContent {
    let mut json = Writer::part("message");
    json.text("id", &message.id);
    ItemContent {
        id: message.id.to_string(),
        role: Speaker::System,
        channel: Channel::SystemNote,
        json: json.finish(),
        at: None,
    }
}

fn usage(message: &Message) -> Option<RawJson> {
    let mut usage = Writer::default();
    if let Some(tokens) = &message.tokens {
        let mut cache = Writer::default();
        cache.raw("read", &tokens.cache_read.to_string());
        cache.raw("write", &tokens.cache_write.to_string());
        let mut json = Writer::default();
        json.raw("input", &tokens.input.to_string());
        json.raw("output", &tokens.output.to_string());
        json.raw("reasoning", &tokens.reasoning.to_string());
        json.nested("cache", cache);
        usage.nested("tokens", json);
    }
    if let Some(cost) = message.cost {
        usage.raw("cost", &Value::from(cost).to_string());
    }
    (!usage.is_empty()).then(|| RawJson::from_checked(usage.finish()))
}

/// The message's own fields.
fn message_fields(message: &Message) -> Writer {
    let mut foreign_fields = Writer::default();
    foreign_fields.text("id", &message.id);
    foreign_fields.optional_text("parent_id", message.parent_id.as_deref());
    foreign_fields.optional_text("finish", message.finish.as_deref());
    if message.copied {
        foreign_fields.raw("copied", "true");
    }
    foreign_fields
}
