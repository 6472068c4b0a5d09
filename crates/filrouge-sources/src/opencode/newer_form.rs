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

use crate::object::{Object, Refusal, Writer};
use crate::raw::Raw;

use super::newer_piece::{file, times};
use super::newer_tool;
use super::storage::PartText;

/// Fields that only the model's provider can read.
pub(super) const SEALED: [&str; 4] = ["native", "providerState", "providerMetadata", "state"];

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

/// The result of converting a row: the message as JSON, and its parts.
pub(super) struct RowForm {
    pub(super) text: String,
    pub(super) parts: Vec<PartText>,
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
pub(super) fn form(row: NewerRow<'_>) -> Result<RowForm, Refusal> {
    let object = Object::parse(row.data)?;
    let mut draft = Draft {
        row,
        message: Writer::default(),
        parts: Vec::new(),
    };
    let converted: &[&str] = match row.kind {
        "user" => draft.user(&object),
        "assistant" => draft.assistant(&object),
        "synthetic" | "skill" => draft.note("user", &object),
        "system" => draft.note("system", &object),
        "shell" => draft.shell(&object)?,
        "compaction" => draft.compaction(&object),
        _ => draft.other(&object),
    };
    let converted: Vec<&str> = converted
        .iter()
        .copied()
        .chain(["time"])
        .chain(SEALED)
        .collect();
    let mut rest = object.without(&converted);
    if !matches!(row.kind, "user" | "assistant") {
        rest.text("type", row.kind);
    }
    draft.message.nested("metadata", rest);
    Ok(RowForm {
        text: draft.message.finish(),
        parts: draft.parts,
    })
}

impl Draft<'_> {
    /// Adds the role and the time to the message.
    fn begin(&mut self, role: &str, object: &Object<'_>) {
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

    fn part(&mut self, text: String) {
        // The parts of a message are ordered by id.
        let id = format!("{}:{:05}", self.row.id, self.parts.len());
        self.parts.push(PartText {
            id: id.into(),
            text: text.into(),
        });
    }

    fn text_part(&mut self, token: &str, synthetic: bool) {
        let mut part = Writer::part("text");
        part.raw("text", token);
        if synthetic {
            part.raw("synthetic", "true");
        }
        self.part(part.finish());
    }

    /// Converts a row of the type `user`. This method and those below it return the names of the fields that they have
    /// converted.
    fn user(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin("user", object);
        if let Some(agent) = object.token("agent") {
            self.message.raw("agent", agent);
        }
        if let Some(text) = object.token("text") {
            self.text_part(text, false);
        }
        for (key, form) in [
            ("files", file as fn(&Object<'_>) -> Writer),
            ("agents", agent_part),
        ] {
            let all = object.at(key).list().unwrap_or_default();
            for one in all.into_iter().filter_map(Raw::object) {
                self.part(form(&one).finish());
            }
        }
        &["agent", "text", "files", "agents"]
    }

    fn assistant(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin("assistant", object);
        let model = object.object("model").ok().flatten();
        for (key, raw) in [
            ("agent", object.token("agent")),
            ("modelID", model.as_ref().and_then(|m| m.token("id"))),
            (
                "providerID",
                model.as_ref().and_then(|m| m.token("providerID")),
            ),
            ("variant", model.as_ref().and_then(|m| m.token("variant"))),
            ("finish", object.token("finish")),
            ("cost", object.get("cost")),
            ("tokens", object.get("tokens")),
        ] {
            if let Some(raw) = raw {
                self.message.raw(key, raw);
            }
        }
        if let Some(raw) = object.get("error") {
            error(&mut self.message, raw);
        }
        let Some(content) = object.at("content").list() else {
            return &["agent", "model", "finish", "cost", "tokens", "error"];
        };
        for raw in content {
            let text = match raw.object() {
                Some(one) => content_part(&one, raw),
                None => unknown(raw),
            };
            self.part(text);
        }
        &[
            "agent", "model", "finish", "cost", "tokens", "error", "content",
        ]
    }

    /// Converts a row with a text that the program injected.
    fn note(&mut self, role: &str, object: &Object<'_>) -> &'static [&'static str] {
        self.begin(role, object);
        if let Some(text) = object.token("text") {
            self.text_part(text, true);
        }
        &["text", "sessionID"]
    }

    fn shell(&mut self, object: &Object<'_>) -> Result<&'static [&'static str], Refusal> {
        self.begin("assistant", object);
        let part = newer_tool::shell(self.row.id, object)?;
        self.part(part.finish());
        Ok(&[
            "command", "output", "callID", "shellID", "shell", "status", "exit",
        ])
    }

    fn compaction(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin("user", object);
        for key in ["agent", "cost", "tokens"] {
            if let Some(raw) = object.get(key) {
                self.message.raw(key, raw);
            }
        }
        let ended = match object.text("status").as_deref() {
            None => true,
            Some(status) => status == "completed",
        };
        let mut part = Writer::part("compaction");
        let auto = object.token("reason") == Some("\"auto\"");
        part.raw("auto", if auto { "true" } else { "false" });
        let summary = object.token("summary").filter(|token| *token != "\"\"");
        if let Some(summary) = summary {
            // While the compaction runs, this text is only a part of the summary.
            part.raw(if ended { "summary" } else { "partial" }, summary);
        }
        for key in ["status", "recent"] {
            if let Some(raw) = object.get(key) {
                part.raw(key, raw);
            }
        }
        self.part(part.finish());
        &[
            "agent", "cost", "tokens", "status", "reason", "summary", "recent",
        ]
    }

    fn other(&mut self, object: &Object<'_>) -> &'static [&'static str] {
        self.begin("system", object);
        if let Some(agent) = object.token("agent") {
            self.message.raw("agent", agent);
        }
        let mut part = Writer::part(self.row.kind);
        part.append(object.without(&[
            "type",
            "time",
            "native",
            "providerState",
            "providerMetadata",
        ]));
        self.part(part.finish());
        &["agent", "model", "location", "outcome"]
    }
}

/// Converts an error to the form of 1.x: `{name, data: {message}}`.
fn error(message: &mut Writer, raw: &str) {
    let Ok(object) = Object::parse(raw) else {
        let mut data = Writer::default();
        if raw.starts_with('"') {
            data.raw("message", raw);
        }
        let mut error = Writer::default();
        error.text("name", "UnknownError");
        error.nested("data", data);
        return message.nested("error", error);
    };
    let mut data = match object.object("data") {
        Ok(Some(data)) => data.without(&[]),
        _ => object.without(&["name", "type", "retryable"]),
    };
    if let Some(raw) = object.get("retryable") {
        data.raw("isRetryable", raw);
    }
    let mut error = Writer::default();
    let name = object.token("name").or_else(|| object.token("type"));
    match name.filter(|token| *token != "\"unknown\"") {
        Some(name) => error.raw("name", name),
        None => error.text("name", "UnknownError"),
    }
    error.nested("data", data);
    message.nested("error", error);
}

/// Converts one element of an answer's `content`; `raw` is its JSON.
fn content_part(one: &Object<'_>, raw: Raw<'_>) -> String {
    match one.text("type").as_deref() {
        Some("text") => plain_part(one, "text"),
        Some("reasoning") => plain_part(one, "reasoning"),
        Some("tool") => match newer_tool::tool(one) {
            Ok(part) => part.finish(),
            Err(_) => as_written(one, &[]).finish(),
        },
        Some(_) => as_written(one, &["state"]).finish(),
        None => unknown(raw),
    }
}

/// Converts a text or reasoning part.
fn plain_part(one: &Object<'_>, kind: &str) -> String {
    let mut part = Writer::part(kind);
    part.raw("text", one.get("text").unwrap_or("\"\""));
    if let Ok(Some(time)) = one.object("time") {
        part.nested(
            "time",
            times(&time, &[("start", &["created"]), ("end", &["completed"])]),
        );
    }
    let converted: Vec<&str> = ["type", "text", "time"].into_iter().chain(SEALED).collect();
    part.nested("metadata", one.without(&converted));
    part.finish()
}

/// The original fields of a piece of content that has no equivalent, without those in `converted`. Its id is stored as
/// `originalID`, because the part gets another id.
fn as_written(one: &Object<'_>, converted: &[&str]) -> Writer {
    let ids = [
        "id",
        "messageID",
        "sessionID",
        "native",
        "providerState",
        "providerMetadata",
    ];
    let converted: Vec<&str> = ids.iter().chain(converted).copied().collect();
    let mut out = one.without(&converted);
    if let Some(id) = one.token("id") {
        out.raw("originalID", id);
    }
    out
}

/// A part for content that is not an object with a type.
fn unknown(raw: Raw<'_>) -> String {
    let mut part = Writer::part("unknown");
    part.raw("value", raw.json().unwrap_or("null"));
    part.finish()
}

/// Converts an entry of `agents`: an agent that the user's text names.
fn agent_part(one: &Object<'_>) -> Writer {
    let mut part = Writer::part("agent");
    part.append(as_written(one, &["type"]));
    part
}
