//! Converts tool calls of `session_message` to tool parts of OpenCode 1.x.

use crate::object::{Object, Result, Writer};
use crate::raw::Raw;

use super::newer_form::PROVIDER_FIELDS;
use super::newer_piece::{convert_file, convert_span, convert_times};
use super::session::{missing_field, required_object};

/// Fields of a state that are converted separately or left out.
const CONVERTED: [&str; 12] = [
    "status",
    "input",
    "content",
    "output",
    "title",
    "error",
    "metadata",
    "structured",
    "attachments",
    "native",
    "providerState",
    "state",
];

/// Converts a tool call in an answer's content.
pub(super) fn convert_tool(object: &Object<'_>) -> Result<Writer> {
    let state = required_object(object, "state")?;
    let required = |key: &str| object.token(key).ok_or_else(|| missing_field(key));
    let mut part = Writer::part("tool");
    part.raw("callID", required("id")?);
    part.raw("tool", required("name")?);
    let time = object.object("time")?.unwrap_or_default();
    part.nested("state", convert_state(&state, &time));
    let converted = [
        &["type", "id", "name", "state", "time"][..],
        &PROVIDER_FIELDS,
    ]
    .concat();
    part.nested("metadata", object.without(&converted));
    Ok(part)
}

/// Converts the state of a tool call; `time` contains the times of the call.
fn convert_state(state: &Object<'_>, time: &Object<'_>) -> Writer {
    let status = state.text("status").filter(|s| s != "streaming");
    let status = status.as_deref().unwrap_or("pending");
    let mut out = Writer::default();
    out.text("status", status);
    add_input(&mut out, state);
    let content = state.field("content").list().unwrap_or_default();
    let content: Vec<Object<'_>> = content.into_iter().filter_map(Raw::object).collect();
    let output = joined_output(state, &content).filter(|_| status != "pending");
    out.optional_raw("output", output.as_deref());
    out.optional_raw("title", state.token("title"));
    out.optional_raw("error", error_token(state));
    if let Some(raw) = state.get("metadata").or_else(|| state.get("structured")) {
        out.raw("metadata", &add_session_id(raw));
    }
    let names: [(&str, &[&str]); 3] = [
        ("start", &["ran", "created"]),
        ("end", &["completed"]),
        ("compacted", &["pruned", "compacted"]),
    ];
    out.nested("time", convert_times(time, &names));
    add_attachments(&mut out, state, &content);
    out.append(state.without(&CONVERTED));
    out
}

fn add_input(out: &mut Writer, state: &Object<'_>) {
    match state.get("input") {
        // The call is still being written: the string contains the beginning of the JSON of its arguments.
        Some(raw) if raw.starts_with('"') => {
            out.raw("input", "{}");
            out.raw("raw", raw);
        }
        raw => out.raw("input", raw.unwrap_or("{}")),
    }
}

/// The texts of a call's content, joined with line feeds into one JSON token; without texts, the call's `output`.
fn joined_output(state: &Object<'_>, content: &[Object<'_>]) -> Option<String> {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|object| unquoted(object.token("text")?))
        .collect();
    if texts.is_empty() {
        return state.token("output").map(str::to_owned);
    }
    let mut output = String::from("\"");
    for (index, text) in texts.iter().enumerate() {
        if index > 0 && !output.ends_with("\\n") {
            output.push_str("\\n");
        }
        output.push_str(text);
    }
    output.push('"');
    Some(output)
}

/// The text between a token's quotes.
fn unquoted(token: &str) -> Option<&str> {
    token.strip_prefix('"')?.strip_suffix('"')
}

fn error_token<'a>(state: &Object<'a>) -> Option<&'a str> {
    let raw = state.get("error")?;
    match state.object("error") {
        Ok(Some(error)) => error.token("message").or_else(|| error.token("type")),
        _ => Some(raw).filter(|raw| raw.starts_with('"')),
    }
}

fn add_attachments(out: &mut Writer, state: &Object<'_>, content: &[Object<'_>]) {
    let attached = state.field("attachments").list().unwrap_or_default();
    let attached = attached.into_iter().filter_map(Raw::object);
    let is_file = |object: &&Object<'_>| object.token("type") == Some("\"file\"");
    let files = content.iter().filter(is_file).map(convert_file);
    let attachments: Vec<String> = files
        .chain(attached.map(|object| convert_file(&object)))
        .map(Writer::finish)
        .collect();
    if !attachments.is_empty() {
        out.raw("attachments", &format!("[{}]", attachments.join(",")));
    }
}

/// The metadata of a call in the form of 1.x: the id of the session that the call started is also stored as
/// `sessionId`.
fn add_session_id(raw: &str) -> String {
    if !raw.contains("\"sessionID\"") {
        return raw.to_owned();
    }
    let Ok(object) = Object::parse(raw) else {
        return raw.to_owned();
    };
    match (object.get("sessionId"), object.token("sessionID")) {
        (None, Some(id)) => {
            let mut out = object.without(&[]);
            out.raw("sessionId", id);
            out.finish()
        }
        _ => raw.to_owned(),
    }
}

/// Converts a command that the user ran. Early versions write all fields at the top level; later ones write the command
/// under `shell` and the output under `output`. A command without an id gets the id of its row, `row`, as the call id.
pub(super) fn convert_shell(row: &str, object: &Object<'_>) -> Result<Writer> {
    let shell = object.object("shell")?.unwrap_or_default();
    let shell_output = object.object("output")?.unwrap_or_default();
    let find = |key: &str| object.get(key).or_else(|| shell.get(key));
    let id = ["callID", "shellID", "id"].iter().find_map(|key| find(key));
    let mut part = Writer::part("tool");
    match id.filter(|raw| raw.starts_with('"')) {
        Some(id) => part.raw("callID", id),
        None => part.text("callID", row),
    }
    part.text("tool", "bash");
    let time = object.object("time")?.unwrap_or_default();
    let running = find("status").map(|status| status == "\"running\"");
    let running = running.unwrap_or_else(|| !time.has("completed"));
    let mut input = Writer::default();
    input.raw("command", find("command").unwrap_or("\"\""));
    let mut state = Writer::default();
    state.text("status", if running { "running" } else { "completed" });
    state.nested("input", input);
    let text = shell_output.token("output").or(shell_output.token("text"));
    let output = object.token("output").or(text);
    state.optional_raw("output", output.or((!running).then_some("\"\"")));
    let mut metadata = Writer::default();
    for key in ["exit", "status"] {
        metadata.optional_raw(key, find(key));
    }
    if shell_output.is_true("truncated") {
        metadata.raw("truncated", "true");
    }
    state.nested("metadata", metadata);
    state.nested("time", convert_span(&time));
    part.nested("state", state);
    Ok(part)
}
