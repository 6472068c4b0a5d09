//! The rules of OpenAI's Chat Completions for the `messages` array.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::media::{self, Accepted};
use crate::shape::{Findings, Object, array, is_word, rules, tag};

rules! {
    /// Content is not empty. API: "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1,
    /// but got an empty array instead." Stricter for strings: the API accepts an empty string; here only a tool's
    /// output may be empty.
    CONTENT_EMPTY = "content-empty";
    /// An assistant message has content, tool calls or a refusal. API reference, assistant message: content is
    /// "Required unless `tool_calls` or `function_call` is specified."; API: "Invalid value for 'content': expected a
    /// string, got null."
    CONTENT_MISSING = "content-missing";
    /// API reference, assistant content array: "Can be one or more of type `text`, or exactly one of type `refusal`."
    REFUSAL_PART = "refusal-part";
    /// API: "Invalid 'messages[0].name': string does not match pattern. Expected a string that matches the pattern
    /// '^[^\\s<|\\\\/>]+$'." At most 64 characters.
    PARTICIPANT_NAME = "participant-name";
    /// API: "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty
    /// array instead."
    TOOL_CALLS_EMPTY = "tool-calls-empty";
    /// API: "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40". An id
    /// must not be empty either.
    CALL_ID = "call-id";
    /// Ids of calls are unique within a message, and an id is not used again if its call was never answered: otherwise
    /// a tool message could answer either call. Stricter: the API has no specific error for this.
    CALL_ID_REUSED = "call-id-reused";
    /// API: "Invalid 'messages[1].tool_calls[0].function.name': string does not match pattern. Expected a string that
    /// matches the pattern '^[a-zA-Z0-9_-]+$'."; API reference, function name: "maximum length of 64".
    FUNCTION_NAME = "function-name";
    /// API reference: `arguments` is a string "in JSON format". Stricter: here it is a JSON object; the API accepts any
    /// text in a history, but servers of the same format do not.
    ARGUMENTS = "arguments";
    /// API: "An assistant message with 'tool_calls' must be followed by tool messages responding to each
    /// 'tool_call_id'. The following tool_call_ids did not have response messages: ..."
    CALL_UNANSWERED = "call-unanswered";
    /// Each call is answered once. Stricter: a second tool message for the same call is not always refused.
    CALL_ANSWERED_TWICE = "call-answered-twice";
    /// API: "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with
    /// 'tool_calls'."
    TOOL_MESSAGE_STRAY = "tool-message-stray";
    /// A tool message answers a call of the assistant message before it. API: "Invalid parameter: 'tool_call_id' of 'x'
    /// not found in 'tool_calls' of previous message."
    TOOL_CALL_ID_UNKNOWN = "tool-call-id-unknown";
    /// API reference, file part: `file_id` is "The ID of an uploaded file", `file_data` and `filename` are "used when
    /// passing the file to the model as a string". Stricter: exactly one of the two forms, and the data is a data URL.
    FILE_SOURCE = "file-source";
}

const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool"];
/// The maximum length of a call id, in characters.
const MAX_ID_CHARS: usize = 40;
/// The maximum length of a function or participant name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The calls of the newest assistant message, and earlier calls without an answer.
#[derive(Default)]
struct Calls<'v> {
    /// The path of the message's `tool_calls`.
    at: String,
    /// For the id of each call: whether it was answered.
    answered: HashMap<&'v str, bool>,
    /// The ids in the order of the calls.
    order: Vec<&'v str>,
    /// The ids of unanswered calls of earlier assistant messages.
    abandoned: HashSet<&'v str>,
}

impl<'v> Calls<'v> {
    /// Ends the sequence of tool messages: adds a finding for each call without an answer.
    fn end_answers(&mut self, findings: &mut Findings) {
        for id in std::mem::take(&mut self.order) {
            if self.answered.get(id) == Some(&false) {
                let description =
                    format!("{id:?} is not answered by the tool messages right after");
                findings.add(&self.at, CALL_UNANSWERED, description);
                self.abandoned.insert(id);
            }
        }
        self.answered.clear();
    }

    /// Adds a call of the newest assistant message.
    fn add_call(&mut self, id: &'v str, at: &str, findings: &mut Findings) {
        let is_duplicate = self.answered.insert(id, false).is_some();
        if is_duplicate || self.abandoned.contains(id) {
            findings.add(at, CALL_ID_REUSED, format!("{id:?} is in use"));
        }
        if !is_duplicate {
            self.order.push(id);
        }
    }

    /// Adds a tool message that answers the call `id`.
    fn add_answer(&mut self, id: &'v str, at: &str, findings: &mut Findings) {
        if self.answered.is_empty() {
            findings.add(at, TOOL_MESSAGE_STRAY, "no message with tool_calls before");
            return;
        }
        match self.answered.insert(id, true) {
            Some(false) => {}
            Some(true) => {
                findings.add(at, CALL_ANSWERED_TWICE, format!("{id:?} has its answer"));
            }
            None => {
                self.answered.remove(id);
                findings.add(at, TOOL_CALL_ID_UNKNOWN, format!("{id:?} is no open call"));
            }
        }
    }
}

pub(crate) fn check(messages: &Value, findings: &mut Findings) {
    let Some(messages) = array(messages, "messages", findings) else {
        return;
    };
    let mut calls = Calls::default();
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = tag(message, "role", ROLES, &at, findings);
        if role != Some("tool") {
            calls.end_answers(findings);
        }
        match role {
            Some("assistant") => check_assistant(message, &at, &mut calls, findings),
            Some("tool") => check_tool_message(message, &at, &mut calls, findings),
            Some(role) => check_plain_message(role, message, &at, findings),
            None => {}
        }
    }
    calls.end_answers(findings);
}

fn check_plain_message(role: &str, message: &Value, at: &str, findings: &mut Findings) {
    let Some(message) = Object::open(message, at, &["role", "content"], &["name"], findings) else {
        return;
    };
    check_participant_name(&message, findings);
    let types: &[&str] = if role == "user" {
        &["text", "image_url", "input_audio", "file"]
    } else {
        &["text"]
    };
    check_content(&message, types, false, findings);
}

fn check_participant_name(message: &Object<'_>, findings: &mut Findings) {
    let Some(name) = message.text("name", findings) else {
        return;
    };
    let is_refused = |c: char| c.is_whitespace() || "<|\\/>".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(is_refused) {
        let description = format!("{name:?} is not accepted");
        findings.add(&message.path("name"), PARTICIPANT_NAME, description);
    }
}

fn check_assistant<'v>(
    message: &'v Value,
    at: &str,
    calls: &mut Calls<'v>,
    findings: &mut Findings,
) {
    let optional = ["content", "refusal", "tool_calls", "name"];
    let Some(message) = Object::open(message, at, &["role"], &optional, findings) else {
        return;
    };
    check_participant_name(&message, findings);
    let refusal = message.nullable_text("refusal", findings);
    if refusal == Some("") {
        findings.add(&message.path("refusal"), CONTENT_EMPTY, "is empty");
    }
    if message.get("content").is_none_or(Value::is_null) {
        if refusal.is_none() && !message.has("tool_calls") {
            findings.add(at, CONTENT_MISSING, "no content, tool_calls or refusal");
        }
    } else {
        check_content(&message, &["text", "refusal"], false, findings);
    }
    calls.at = message.path("tool_calls");
    let tool_calls = message.list("tool_calls", findings);
    if tool_calls.is_some_and(<[Value]>::is_empty) {
        findings.add(&calls.at, TOOL_CALLS_EMPTY, "is an empty array");
    }
    for (index, call) in tool_calls.unwrap_or_default().iter().enumerate() {
        let at = format!("{}[{index}]", message.path("tool_calls"));
        check_tool_call(call, &at, calls, findings);
    }
}

fn check_tool_call<'v>(call: &'v Value, at: &str, calls: &mut Calls<'v>, findings: &mut Findings) {
    let Some(call) = Object::open(call, at, &["id", "type", "function"], &[], findings) else {
        return;
    };
    call.choice("type", &["function"], findings);
    if let Some(id) = call.text("id", findings) {
        if id.is_empty() || id.chars().count() > MAX_ID_CHARS {
            let description = format!("{id:?} is not 1 to {MAX_ID_CHARS} characters long");
            findings.add(&call.path("id"), CALL_ID, description);
        }
        calls.add_call(id, &call.path("id"), findings);
    }
    let Some(function) = call.get("function") else {
        return;
    };
    let required = ["name", "arguments"];
    let function = Object::open(function, &call.path("function"), &required, &[], findings);
    let Some(function) = function else {
        return;
    };
    let name = function.text("name", findings);
    if let Some(name) = name.filter(|name| !is_word(name, MAX_NAME_CHARS)) {
        let description = format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$");
        findings.add(&function.path("name"), FUNCTION_NAME, description);
    }
    function.json_object("arguments", ARGUMENTS, findings);
}

fn check_tool_message<'v>(
    message: &'v Value,
    at: &str,
    calls: &mut Calls<'v>,
    findings: &mut Findings,
) {
    let required = ["role", "content", "tool_call_id"];
    let Some(message) = Object::open(message, at, &required, &[], findings) else {
        return;
    };
    check_content(&message, &["text"], true, findings);
    if let Some(id) = message.text("tool_call_id", findings) {
        calls.add_answer(id, at, findings);
    }
}

/// Checks the member `content`: a string, or parts of the given types. `allow_empty`: an empty string is allowed.
fn check_content(message: &Object<'_>, types: &[&str], allow_empty: bool, findings: &mut Findings) {
    let parts = message.parts("content", CONTENT_EMPTY, allow_empty, findings);
    for (index, value) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", message.path("content"));
        if tag(value, "type", types, &at, findings) == Some("refusal") && parts.len() > 1 {
            findings.add(&at, REFUSAL_PART, "occurs beside other parts");
        }
        check_part(value, &at, findings);
    }
}

fn check_part(value: &Value, at: &str, findings: &mut Findings) {
    let member = match value.get("type").and_then(Value::as_str) {
        Some(part_type @ ("text" | "refusal" | "image_url" | "input_audio" | "file")) => part_type,
        _ => return,
    };
    let Some(part) = Object::open(value, at, &["type", member], &[], findings) else {
        return;
    };
    match member {
        "text" | "refusal" => {
            part.filled(member, CONTENT_EMPTY, findings);
        }
        "image_url" => check_image(&part, findings),
        "input_audio" => check_audio(&part, findings),
        _ => check_file(&part, findings),
    }
}

fn check_image(part: &Object<'_>, findings: &mut Findings) {
    let Some(value) = part.get("image_url") else {
        return;
    };
    let at = part.path("image_url");
    let Some(image) = Object::open(value, &at, &["url"], &["detail"], findings) else {
        return;
    };
    image.choice("detail", &["auto", "low", "high", "original"], findings);
    if let Some(url) = image.text("url", findings) {
        media::check_image_url(url, &image.path("url"), findings);
    }
}

fn check_audio(part: &Object<'_>, findings: &mut Findings) {
    let Some(value) = part.get("input_audio") else {
        return;
    };
    let at = part.path("input_audio");
    let Some(audio) = Object::open(value, &at, &["data", "format"], &[], findings) else {
        return;
    };
    audio.choice("format", &["wav", "mp3"], findings);
    if let Some(data) = audio.text("data", findings) {
        media::check_base64(data, &audio.path("data"), findings);
    }
}

fn check_file(part: &Object<'_>, findings: &mut Findings) {
    let Some(value) = part.get("file") else {
        return;
    };
    let at = part.path("file");
    let members = ["file_id", "file_data", "filename"];
    let Some(file) = Object::open(value, &at, &[], &members, findings) else {
        return;
    };
    let present = members.map(|member| file.has(member));
    if !matches!(present, [true, false, false] | [false, true, true]) {
        findings.add(
            &at,
            FILE_SOURCE,
            "needs either file_id alone, or file_data with filename",
        );
    }
    file.filled("file_id", FILE_SOURCE, findings);
    file.filled("filename", FILE_SOURCE, findings);
    if let Some(data) = file.text("file_data", findings) {
        media::check_data_url(data, Accepted::Any, &file.path("file_data"), findings);
    }
}
