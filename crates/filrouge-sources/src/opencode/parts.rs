//! Parts to items.
//!
//! | part | role, channel | `parts` |
//! |---|---|---|
//! | text of the program | system, `system_note` | text |
//! | text of the user | user, `question` (`system_note` when synthetic or ignored) | text |
//! | text of the agent | assistant, `observation` (`final` and `partial` are given by the turn, `summary` by a compaction) | text |
//! | reasoning | assistant, `thought` | reasoning |
//! | tool | assistant, `tool_call` and, once it ended, tool, `tool_result` | tool_call, tool_result |
//! | file | user `question` or assistant `observation` | the part as written |
//! | any other | system, `system_note` | the part as written |
//!
//! Texts, arguments and outputs keep the bytes of the file. Fields without a place of their own go
//! into `metadata.opencode.part` and `.state`; a tool's copy of its output in its own metadata is
//! left out when it is the same token. A part whose fields are not of the expected types is kept
//! as a note, as written.

use filrouge_types::{Channel, ItemBody, ItemId, RawJson, Role, Timestamp};

use super::session::{check_own_id, missing};
use crate::object::{Object, Refusal, Writer, check_value};

/// The ids of a part, from its place.
pub(super) struct Owner<'a> {
    pub(super) session: &'a str,
    pub(super) message: &'a str,
    pub(super) part: &'a str,
}

/// What all items of a message share.
pub(super) struct Speaker {
    pub(super) role: Role,
    pub(super) summary: bool,
    pub(super) agent: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
    pub(super) created: Timestamp,
}

/// What the message and the turn may still make of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It can be the answer of the turn.
    Answer,
    /// It can carry the tokens of the message.
    StepFinish,
    /// Nothing.
    None,
}

/// An item whose metadata can still grow.
pub(super) struct Mapped {
    pub(super) item: ItemBody,
    /// The content of `metadata.opencode`.
    pub(super) notes: Writer,
    pub(super) usage: Use,
}

impl Mapped {
    /// The item with its metadata closed.
    pub(super) fn finish(self) -> ItemBody {
        let mut metadata = Writer::default();
        metadata.nested("opencode", self.notes);
        let metadata = (!metadata.is_empty()).then(|| RawJson::from_checked(metadata.finish()));
        ItemBody {
            metadata,
            ..self.item
        }
    }

    fn at(mut self, time: Option<Timestamp>) -> Self {
        self.item.occurred_at = time.or(self.item.occurred_at);
        self
    }

    fn note(mut self, key: &str, notes: Writer) -> Self {
        self.notes.nested(key, notes);
        self
    }
}

impl Speaker {
    /// An item with one part; `None` when `id` is no item id.
    pub(super) fn item(
        &self,
        id: &str,
        role: Role,
        channel: Channel,
        part: Writer,
    ) -> Option<Mapped> {
        self.raw_item(id, role, channel, &part.finish())
    }

    fn raw_item(&self, id: &str, role: Role, channel: Channel, part: &str) -> Option<Mapped> {
        let parts = RawJson::from_checked(format!("[{part}]"));
        let item = ItemBody {
            item_id: Some(ItemId::new(id).ok()?),
            agent: self.agent.clone(),
            model: self.model.clone(),
            occurred_at: Some(self.created),
            ..ItemBody::new(role, channel, parts)
        };
        Some(Mapped {
            item,
            notes: Writer::default(),
            usage: Use::None,
        })
    }
}

/// One part of a message.
struct Part<'a> {
    id: &'a str,
    raw: &'a str,
    object: Object<'a>,
    time: Option<Object<'a>>,
}

impl Part<'_> {
    /// When it began; a retry has only the time it was made.
    fn start(&self) -> Option<Timestamp> {
        let time = self.time.as_ref()?;
        time.time("start").or_else(|| time.time("created"))
    }

    /// What has no place of its own. The message's id stays: it tells which items belong together.
    fn rest(&self, taken: &[&str]) -> Writer {
        let own = ["id", "sessionID", "type"];
        self.object.without(&[&own, taken].concat())
    }
}

/// The items of the part in `text`.
pub(super) fn map(
    owner: &Owner<'_>,
    text: &str,
    speaker: &Speaker,
) -> Result<Vec<Mapped>, Refusal> {
    let raw = check_value(text)?;
    let object = Object::parse(raw)?;
    check_own_id(&object, "id", owner.part)?;
    check_own_id(&object, "messageID", owner.message)?;
    check_own_id(&object, "sessionID", owner.session)?;
    let kind = object.text("type").ok_or_else(|| missing("type"))?;
    let time = object.object("time")?;
    let part = Part {
        id: owner.part,
        raw,
        object,
        time,
    };
    let items = match kind.as_str() {
        "text" => said(&part, speaker),
        "reasoning" => reasoning(&part, speaker),
        "tool" => tool(&part, speaker)?,
        "file" => file(&part, speaker),
        _ => None,
    };
    let note = || {
        let mut note = speaker
            .raw_item(part.id, Role::System, Channel::SystemNote, part.raw)?
            .at(part.start());
        if kind == "step-finish" {
            note.usage = Use::StepFinish;
        }
        Some(vec![note])
    };
    items.or_else(note).ok_or_else(|| missing("id"))
}

fn said(part: &Part<'_>, speaker: &Speaker) -> Option<Vec<Mapped>> {
    let text = part.object.token("text")?;
    let aside = part.object.is_true("synthetic") || part.object.is_true("ignored");
    let channel = match speaker.role {
        Role::System => Channel::SystemNote,
        Role::User if aside => Channel::SystemNote,
        Role::User => Channel::Question,
        _ if speaker.summary => Channel::Summary,
        _ => Channel::Observation,
    };
    let mut content = Writer::default();
    content.text("type", "text");
    content.raw("text", text);
    let can_answer = channel == Channel::Observation && !aside && text != "\"\"";
    let mut mapped = speaker
        .item(part.id, speaker.role, channel, content)?
        .at(part.start())
        .note("part", part.rest(&["text"]));
    if can_answer {
        mapped.usage = Use::Answer;
    }
    Some(vec![mapped])
}

fn reasoning(part: &Part<'_>, speaker: &Speaker) -> Option<Vec<Mapped>> {
    let mut content = Writer::default();
    content.text("type", "reasoning");
    content.raw("text", part.object.token("text")?);
    let mapped = speaker
        .item(part.id, Role::Assistant, Channel::Thought, content)?
        .at(part.start())
        .note("part", part.rest(&["text"]));
    Some(vec![mapped])
}

fn file(part: &Part<'_>, speaker: &Speaker) -> Option<Vec<Mapped>> {
    let channel = match speaker.role {
        Role::System => Channel::SystemNote,
        Role::User => Channel::Question,
        _ => Channel::Observation,
    };
    let mapped = speaker.raw_item(part.id, speaker.role, channel, part.raw)?;
    Some(vec![mapped.at(part.start())])
}

fn tool(part: &Part<'_>, speaker: &Speaker) -> Result<Option<Vec<Mapped>>, Refusal> {
    let Some(state) = part.object.object("state")? else {
        return Ok(None);
    };
    let time = state.object("time")?;
    let tool = Tool { part, time, state };
    Ok(tool.items(speaker))
}

struct Tool<'p, 'a> {
    part: &'p Part<'a>,
    state: Object<'a>,
    time: Option<Object<'a>>,
}

impl Tool<'_, '_> {
    fn time(&self, key: &str) -> Option<Timestamp> {
        self.time.as_ref().and_then(|time| time.time(key))
    }

    fn items(&self, speaker: &Speaker) -> Option<Vec<Mapped>> {
        let call = self.call(speaker)?;
        match self.state.text("status").as_deref() {
            Some("completed") => Some(vec![call, self.result("output", true, speaker)?]),
            Some("error") => Some(vec![call, self.result("error", false, speaker)?]),
            // Without an end, the state's other fields have only the call to be with.
            _ => Some(vec![call.note("state", self.state.without(&["input"]))]),
        }
    }

    fn call(&self, speaker: &Speaker) -> Option<Mapped> {
        let mut content = Writer::default();
        content.text("type", "tool_call");
        content.raw("call_id", self.part.object.token("callID")?);
        content.raw("name", self.part.object.token("tool")?);
        content.raw("args", self.state.get("input").unwrap_or("null"));
        let id = format!("{}:call", self.part.id);
        let call = speaker.item(&id, Role::Assistant, Channel::ToolCall, content)?;
        let rest = self.part.rest(&["callID", "tool", "state"]);
        Some(call.at(self.time("start")).note("part", rest))
    }

    /// The result, whose text is in the field `key` of the state.
    fn result(&self, key: &str, ok: bool, speaker: &Speaker) -> Option<Mapped> {
        let text = self.state.token(key)?;
        let mut content = Writer::default();
        content.text("type", "tool_result");
        content.raw("call_id", self.part.object.token("callID")?);
        content.raw("ok", if ok { "true" } else { "false" });
        content.raw("latency_ms", &latency(self.time.as_ref()));
        content.raw("content", text);
        let id = format!("{}:result", self.part.id);
        let result = speaker.item(&id, Role::Tool, Channel::ToolResult, content)?;
        let at = self.time("end").or_else(|| self.time("start"));
        let rest = state_rest(&self.state, key, text);
        Some(
            result
                .at(at)
                .note("part", message_id(self.part))
                .note("state", rest),
        )
    }
}

fn message_id(part: &Part<'_>) -> Writer {
    let mut ids = Writer::default();
    if let Some(id) = part.object.get("messageID") {
        ids.raw("messageID", id);
    }
    ids
}

fn latency(time: Option<&Object<'_>>) -> String {
    let pair = time.and_then(|time| Some((time.millis("start")?, time.millis("end")?)));
    match pair {
        Some((start, end)) if end >= start => (end - start).to_string(),
        _ => "null".to_owned(),
    }
}

/// The state without what is in the call and the result, and without a second copy of the output.
fn state_rest(state: &Object<'_>, answer: &str, output: &str) -> Writer {
    let mut rest = state.without(&["status", "input", answer, "metadata"]);
    match state.object("metadata") {
        Ok(Some(metadata)) if metadata.get("output") == Some(output) => {
            rest.nested("metadata", metadata.without(&["output"]));
        }
        _ => {
            if let Some(raw) = state.get("metadata") {
                rest.raw("metadata", raw);
            }
        }
    }
    rest
}
