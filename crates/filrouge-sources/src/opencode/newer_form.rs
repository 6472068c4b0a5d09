//! Converts a row of `session_message` to a message and parts in the JSON of OpenCode 1.x (DESIGN §10).
//!
//! | type | message | parts |
//! |---|---|---|
//! | user | user | text, file, agent |
//! | assistant | assistant | text, reasoning, tool, in the order of `content` |
//! | synthetic, skill | user | text, `synthetic` |
//! | system | system | text, `synthetic` |
//! | shell | assistant | tool `bash` |
//! | compaction | user | compaction, with its summary once it has ended |
//! | all others | system | one of that type, with its original fields |
//!
//! Strings keep their original JSON tokens. Fields that only the model's provider can read (`native`, `providerState`,
//! `providerMetadata`, `state`) are left out. Every other field that has no equivalent is kept under `metadata`.

use crate::object::{Object, Result, Writer};
use crate::raw::Raw;

use super::neutral_message::UNNAMED;
use super::newer_piece::{convert_file, convert_span};
use super::newer_tool;
use super::storage::{MessageText, PartText};

/// Fields that only the model's provider can read; where a piece has no state of its own, `state` is another one.
pub(super) const PROVIDER_FIELDS: [&str; 3] = ["native", "providerState", "providerMetadata"];

/// A row of `session_message`.
#[derive(Clone, Copy)]
pub(super) struct NewerRow<'a> {
    pub(super) id: &'a str,
    /// The column `type`.
    pub(super) kind: &'a str,
    /// The time of its creation, in milliseconds since 1970.
    pub(super) created: i64,
    /// The column `data`: a JSON object.
    pub(super) data: &'a str,
}

/// A message that is being built.
struct Draft<'a> {
    row: NewerRow<'a>,
    message: Writer,
    parts: Vec<PartText>,
}

/// Converts a row to a message and its parts.
///
/// # Errors
/// When `data` is not a JSON object.
pub(super) fn convert_row(row: NewerRow<'_>) -> Result<MessageText> {
    let object = Object::parse(row.data)?;
    let mut draft = Draft {
        row,
        message: Writer::default(),
        parts: Vec::new(),
    };
    let converted: &[&str] = match row.kind {
        "user" => draft.add_user(&object),
        "assistant" => draft.add_assistant(&object),
        "synthetic" | "skill" => draft.add_injected("user", &object),
        "system" => draft.add_injected("system", &object),
        "shell" => draft.add_shell(&object)?,
        "compaction" => draft.add_compaction(&object),
        _ => draft.add_other(&object),
    };
    let converted = [converted, &["time", "state"], &PROVIDER_FIELDS].concat();
    let mut unconverted = object.without(&converted);
    if !matches!(row.kind, "user" | "assistant") {
        unconverted.text("type", row.kind);
    }
    draft.message.nested("metadata", unconverted);
    let text = draft.message.finish();
    Ok(MessageText::new(row.id, text, draft.parts))
}

impl Draft<'_> {
    /// Adds the role and the time to the message.
    fn begin_message(&mut self, role: &str, object: &Object<'_>) {
        self.message.text("role", role);
        match object.get("time").filter(|raw| raw.starts_with('{')) {
            Some(time) => self.message.raw("time", time),
            None => {
                let mut time = Writer::default();
                time.raw("created", &self.row.created.to_string());
                self.message.nested("time", time);
            }
        }
    }

    fn add_part(&mut self, text: String) {
        // The parts of a message are ordered by id.
        let id = format!("{}:{:05}", self.row.id, self.parts.len());
        self.parts.push(PartText {
            id: id.into(),
            text: text.into(),
        });
    }

    fn add_text_part(&mut self, token: &str, synthetic: bool) {
        let mut part = Writer::part("text");
        part.raw("text", token);
        if synthetic {
            part.raw("synthetic", "true");
        }
        self.add_part(part.finish());
    }

    /// Converts a row of the type `user`. This method and the methods below return the names of the fields that they
    /// have converted.
    fn add_user(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin_message("user", object);
        self.message.optional_raw("agent", object.token("agent"));
        if let Some(text) = object.token("text") {
            self.add_text_part(text, false);
        }
        for (key, convert) in [
            ("files", convert_file as fn(&Object<'_>) -> Writer),
            ("agents", agent_part),
        ] {
            let entries = object.field(key).list().unwrap_or_default();
            for object in entries.into_iter().filter_map(Raw::object) {
                self.add_part(convert(&object).finish());
            }
        }
        &["agent", "text", "files", "agents"]
    }

    fn add_assistant(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin_message("assistant", object);
        let model = object.field("model").object().unwrap_or_default();
        for (key, raw) in [
            ("agent", object.token("agent")),
            ("modelID", model.token("id")),
            ("providerID", model.token("providerID")),
            ("variant", model.token("variant")),
            ("finish", object.token("finish")),
            ("cost", object.get("cost")),
            ("tokens", object.get("tokens")),
        ] {
            self.message.optional_raw(key, raw);
        }
        if let Some(raw) = object.get("error") {
            add_error(&mut self.message, raw);
        }
        let Some(content) = object.field("content").list() else {
            return &["agent", "model", "finish", "cost", "tokens", "error"];
        };
        for raw in content {
            let part = raw.object().map(|object| content_part(&object, raw));
            self.add_part(part.unwrap_or_else(|| unknown_part(raw)));
        }
        &[
            "agent", "model", "finish", "cost", "tokens", "error", "content",
        ]
    }

    /// Converts a row with a text that the program injected.
    fn add_injected(&mut self, role: &str, object: &Object<'_>) -> &'static [&'static str] {
        self.begin_message(role, object);
        if let Some(text) = object.token("text") {
            self.add_text_part(text, true);
        }
        &["text", "sessionID"]
    }

    fn add_shell(&mut self, object: &Object<'_>) -> Result<&'static [&'static str]> {
        self.begin_message("assistant", object);
        let part = newer_tool::convert_shell(self.row.id, object)?;
        self.add_part(part.finish());
        Ok(&[
            "command", "output", "callID", "shellID", "shell", "status", "exit",
        ])
    }

    fn add_compaction(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin_message("user", object);
        self.message.copy(object, &["agent", "cost", "tokens"]);
        let ended = object.text("status").is_none_or(|s| s == "completed");
        let mut part = Writer::part("compaction");
        let auto = object.token("reason") == Some("\"auto\"");
        part.raw("auto", if auto { "true" } else { "false" });
        let summary = object.token("summary").filter(|token| *token != "\"\"");
        if let Some(summary) = summary {
            // While the compaction runs, this text is only a part of the summary.
            part.raw(if ended { "summary" } else { "partial" }, summary);
        }
        part.copy(object, &["status", "recent"]);
        self.add_part(part.finish());
        &[
            "agent", "cost", "tokens", "status", "reason", "summary", "recent",
        ]
    }

    fn add_other(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin_message("system", object);
        self.message.optional_raw("agent", object.token("agent"));
        let mut part = Writer::part(self.row.kind);
        let excluded = [&["type", "time"][..], &PROVIDER_FIELDS].concat();
        part.append(object.without(&excluded));
        self.add_part(part.finish());
        &["agent", "model", "location", "outcome"]
    }
}

/// Converts an error to the form of 1.x: `{name, data: {message}}`.
fn add_error(message: &mut Writer, raw: &str) {
    let (mut name, mut data) = (None, Writer::default());
    if let Ok(object) = Object::parse(raw) {
        name = object.token("name").or_else(|| object.token("type"));
        data = match object.object("data") {
            Ok(Some(data)) => data.without(&[]),
            _ => object.without(&["name", "type", "retryable"]),
        };
        data.optional_raw("isRetryable", object.get("retryable"));
    } else if raw.starts_with('"') {
        data.raw("message", raw);
    }
    let mut error = Writer::default();
    let name = name.filter(|token| *token != "\"unknown\"");
    error.raw("name", name.unwrap_or(UNNAMED));
    error.nested("data", data);
    message.nested("error", error);
}

/// Converts one element of an answer's `content`; `raw` is its JSON.
fn content_part(object: &Object<'_>, raw: Raw<'_>) -> String {
    match object.text("type").as_deref() {
        Some("text") => plain_part(object, "text"),
        Some("reasoning") => plain_part(object, "reasoning"),
        Some("tool") => match newer_tool::convert_tool(object) {
            Ok(part) => part.finish(),
            Err(_) => unconverted_fields(object, &[]).finish(),
        },
        Some(_) => unconverted_fields(object, &["state"]).finish(),
        None => unknown_part(raw),
    }
}

/// Converts a text or reasoning part.
fn plain_part(object: &Object<'_>, kind: &str) -> String {
    let mut part = Writer::part(kind);
    part.raw("text", object.get("text").unwrap_or("\"\""));
    let time = object.field("time").object().unwrap_or_default();
    part.nested("time", convert_span(&time));
    let converted = [&["type", "text", "time", "state"][..], &PROVIDER_FIELDS].concat();
    part.nested("metadata", object.without(&converted));
    part.finish()
}

/// The original fields of a piece of content that has no equivalent, without those in `converted`. Its id is stored as
/// `originalID`, because the part gets another id.
fn unconverted_fields(object: &Object<'_>, converted: &[&str]) -> Writer {
    let ids = ["id", "messageID", "sessionID"];
    let converted = [&ids[..], &PROVIDER_FIELDS, converted].concat();
    let mut out = object.without(&converted);
    out.optional_raw("originalID", object.token("id"));
    out
}

/// A part for content that is not an object with a type.
fn unknown_part(raw: Raw<'_>) -> String {
    let mut part = Writer::part("unknown");
    part.raw("value", raw.json().unwrap_or("null"));
    part.finish()
}

/// Converts an entry of `agents`: an agent that the user's text names.
fn agent_part(object: &Object<'_>) -> Writer {
    let mut part = Writer::part("agent");
    part.append(unconverted_fields(object, &["type"]));
    part
}
