//! The rules of OpenAI's Responses API for the `input` array.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::media::{self, Accepted};
use crate::shape::{Findings, MISSING_MEMBER, Object, WRONG_TYPE, array, is_word, rules, tag};

rules! {
    /// Content is not empty. API: "Invalid 'input[0].content': empty array. Expected an array with minimum length 1".
    /// Stricter for strings: the API accepts an empty string; here only a function's output may be empty.
    CONTENT_EMPTY = "content-empty";
    /// API: "Invalid 'input[2].call_id': string too long. Expected a string with maximum length 64"; "empty string.
    /// Expected a string with minimum length 1".
    CALL_ID = "call-id";
    /// A call id names one call of the entire input. Stricter: the API only requires an output for each id.
    CALL_ID_REUSED = "call-id-reused";
    /// API: "Invalid 'input[2].name': string does not match pattern. Expected a string that matches the pattern
    /// '^[a-zA-Z0-9_-]+$'."; API reference, function call item: at most 64 characters. Stricter than some models, which
    /// accept 128.
    FUNCTION_NAME = "function-name";
    /// API reference, function call item: "A JSON string of the arguments to pass to the function." Stricter: here it
    /// is a JSON object.
    ARGUMENTS = "arguments";
    /// API: "No tool output found for function call call_..."
    CALL_UNANSWERED = "call-unanswered";
    /// API: "No tool call found for function call output with call_id call_..." Stricter: the call must precede its
    /// output.
    OUTPUT_STRAY = "output-stray";
    /// A call has one output. Stricter: the API has no documented error for a second one.
    OUTPUT_TWICE = "output-twice";
    /// API: "Invalid 'input[1].id': 'x'. Expected an ID that begins with 'fc'." ('msg' for messages, 'rs' for
    /// reasoning), "Expected an ID that contains letters, numbers, underscores, or dashes", "string too long. Expected
    /// a string with maximum length 64".
    ITEM_ID = "item-id";
    /// API: "Duplicate item found with id rs_.... Remove duplicate items from your input and try again."
    ITEM_ID_REUSED = "item-id-reused";
    /// API: "Item 'rs_...' of type 'reasoning' was provided without its required following item." The following item is
    /// a function call or an assistant message; other reasoning items may be in between.
    REASONING_ALONE = "reasoning-alone";
    /// API reference, input image: `image_url` or `file_id`; input file: one of `file_id`, `file_url`, `file_data` with
    /// `filename`. API: "Missing required parameter: 'input[0].content[0].image_url'." Stricter: never two at once.
    SOURCE = "source";
    /// API reference, message: `phase` is "Not used for user messages".
    PHASE_ROLE = "phase-role";
}

const ITEM_TYPES: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
];
const ROLES: &[&str] = &["user", "assistant", "system", "developer"];
const INPUT_PART_TYPES: &[&str] = &["input_text", "input_image", "input_file"];
const STATUSES: &[&str] = &["in_progress", "completed", "incomplete"];
/// The maximum length of a call id, item id or function name, in characters.
const MAX_CHARS: usize = 64;

/// The state of the check after the items so far.
#[derive(Default)]
struct State<'v> {
    /// By the id of each call: its path, and whether its output was read.
    calls: HashMap<&'v str, (String, bool)>,
    /// The ids in the order of the calls.
    call_order: Vec<&'v str>,
    /// The ids of all items so far.
    item_ids: HashSet<&'v str>,
    /// The paths of reasoning items that still lack the following item that they require.
    reasoning: Vec<String>,
}

impl<'v> State<'v> {
    /// Removes the reasoning items that lack a following item. Adds a finding for each, unless `requirement_met`: the
    /// current item is the one that they require.
    fn end_reasoning(&mut self, requirement_met: bool, findings: &mut Findings) {
        for at in self.reasoning.drain(..).filter(|_| !requirement_met) {
            findings.add(&at, REASONING_ALONE, "its following item is missing");
        }
    }

    fn check_id(&mut self, item: &Object<'v>, prefix: &str, findings: &mut Findings) {
        let Some(id) = item.text("id", findings) else {
            return;
        };
        if !id.starts_with(prefix) || !is_word(id, MAX_CHARS) {
            let description = format!("{id:?} is no id that begins with {prefix:?}");
            findings.add(&item.path("id"), ITEM_ID, description);
        }
        if !self.item_ids.insert(id) {
            findings.add(&item.path("id"), ITEM_ID_REUSED, format!("{id:?} again"));
        }
    }

    fn check_call_id(&self, item: &Object<'v>, findings: &mut Findings) -> Option<&'v str> {
        let id = item.text("call_id", findings)?;
        if id.is_empty() || id.chars().count() > MAX_CHARS {
            let description = format!("{id:?} is not 1 to {MAX_CHARS} characters long");
            findings.add(&item.path("call_id"), CALL_ID, description);
        }
        Some(id)
    }

    fn finish(mut self, findings: &mut Findings) {
        self.end_reasoning(false, findings);
        for id in self.call_order {
            if let Some((at, false)) = self.calls.get(id) {
                findings.add(at, CALL_UNANSWERED, format!("{id:?} has no output"));
            }
        }
    }
}

pub(crate) fn check(input: &Value, findings: &mut Findings) {
    let Some(items) = array(input, "input", findings) else {
        return;
    };
    let mut state = State::default();
    for (index, item) in items.iter().enumerate() {
        let at = format!("input[{index}]");
        // An easy message (the SDK's `EasyInputMessage`): its type may be left out.
        let is_easy_message = item.get("type").is_none() && item.get("role").is_some();
        let item_type = if is_easy_message {
            Some("message")
        } else {
            tag(item, "type", ITEM_TYPES, &at, findings)
        };
        match item_type {
            Some("message") => check_message(item, &at, &mut state, findings),
            Some("function_call") => {
                state.end_reasoning(true, findings);
                check_call(item, &at, &mut state, findings);
            }
            Some("function_call_output") => {
                state.end_reasoning(false, findings);
                check_output(item, &at, &mut state, findings);
            }
            Some(_) => check_reasoning(item, &at, &mut state, findings),
            None => state.end_reasoning(false, findings),
        }
    }
    state.finish(findings);
}

fn check_message<'v>(item: &'v Value, at: &str, state: &mut State<'v>, findings: &mut Findings) {
    let role = tag(item, "role", ROLES, at, findings);
    state.end_reasoning(role == Some("assistant"), findings);
    let optional: &[&str] = match role {
        Some("assistant") => &["type", "phase", "id", "status"],
        _ => &["type", "phase"],
    };
    let Some(message) = Object::open(
        item,
        at,
        &["content"],
        &[optional, &["role"]].concat(),
        findings,
    ) else {
        return;
    };
    message.choice("phase", &["commentary", "final_answer"], findings);
    match role {
        Some("assistant") => check_assistant(&message, state, findings),
        Some(role) => {
            if message.has("phase") {
                let description = format!("a {role} message has no phase");
                findings.add(&message.path("phase"), PHASE_ROLE, description);
            }
            let types = if role == "user" {
                INPUT_PART_TYPES
            } else {
                &INPUT_PART_TYPES[..1]
            };
            let parts = message.parts("content", CONTENT_EMPTY, false, findings);
            for (index, part) in parts.iter().enumerate() {
                let at = format!("{}[{index}]", message.path("content"));
                check_input(part, types, true, &at, findings);
            }
        }
        None => {}
    }
}

/// Checks an assistant message. With an id, it is an output message (the SDK's `ResponseOutputMessage`), which
/// requires all members. Without an id, it is an easy message (`EasyInputMessage`).
fn check_assistant<'v>(message: &Object<'v>, state: &mut State<'v>, findings: &mut Findings) {
    let has_id = message.has("id");
    for key in ["type", "status"] {
        if has_id && !message.has(key) {
            let description = format!("{key} is required in a message with an id");
            findings.add(&message.at, MISSING_MEMBER, description);
        }
    }
    state.check_id(message, "msg", findings);
    message.choice("status", STATUSES, findings);
    let content = message.get("content");
    if has_id && content.is_some_and(Value::is_string) {
        let description = "a message with an id has an array";
        findings.add(&message.path("content"), WRONG_TYPE, description);
    }
    let parts = message.parts("content", CONTENT_EMPTY, false, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", message.path("content"));
        match tag(part, "type", &["output_text", "refusal"], &at, findings) {
            Some("output_text") => check_output_text(part, &at, has_id, findings),
            Some(_) => {
                let part = Object::open(part, &at, &["type", "refusal"], &[], findings);
                part.and_then(|part| part.filled("refusal", CONTENT_EMPTY, findings));
            }
            None => {}
        }
    }
}

fn check_output_text(part: &Value, at: &str, has_id: bool, findings: &mut Findings) {
    let (required, optional): (&[&str], &[&str]) = if has_id {
        (&["type", "text", "annotations"], &[])
    } else {
        (&["type", "text"], &["annotations"])
    };
    let Some(part) = Object::open(part, at, required, optional, findings) else {
        return;
    };
    part.filled("text", CONTENT_EMPTY, findings);
    let annotations = part.list("annotations", findings).unwrap_or_default();
    for (index, value) in annotations.iter().enumerate() {
        let at = format!("{}[{index}]", part.path("annotations"));
        check_annotation(value, &at, findings);
    }
}

fn check_annotation(value: &Value, at: &str, findings: &mut Findings) {
    let types = [
        "file_citation",
        "url_citation",
        "container_file_citation",
        "file_path",
    ];
    let (texts, integers): (&[&str], &[&str]) = match tag(value, "type", &types, at, findings) {
        Some("file_citation") => (&["file_id", "filename"], &["index"]),
        Some("url_citation") => (&["title", "url"], &["start_index", "end_index"]),
        Some("container_file_citation") => (
            &["container_id", "file_id", "filename"],
            &["start_index", "end_index"],
        ),
        Some(_) => (&["file_id"], &["index"]),
        None => return,
    };
    let required = [&["type"], texts, integers].concat();
    let Some(annotation) = Object::open(value, at, &required, &[], findings) else {
        return;
    };
    for key in texts {
        annotation.text(key, findings);
    }
    for key in integers {
        annotation.integer(key, findings);
    }
}

/// Checks an input part of one of `types`. `in_message`: the part is in a message, not in a function's output. OpenAI's
/// request types require the `detail` of an image only in a message.
fn check_input(part: &Value, types: &[&str], in_message: bool, at: &str, findings: &mut Findings) {
    match tag(part, "type", types, at, findings) {
        Some("input_text") => {
            let part = Object::open(part, at, &["type", "text"], &[], findings);
            part.and_then(|part| part.filled("text", CONTENT_EMPTY, findings));
        }
        Some("input_image") => {
            let (required, optional): (&[&str], &[&str]) = if in_message {
                (&["type", "detail"], &["image_url", "file_id"])
            } else {
                (&["type"], &["image_url", "file_id", "detail"])
            };
            if let Some(part) = Object::open(part, at, required, optional, findings) {
                check_input_image(&part, findings);
            }
        }
        Some(_) => {
            let optional = ["file_id", "file_url", "file_data", "filename", "detail"];
            if let Some(part) = Object::open(part, at, &["type"], &optional, findings) {
                check_input_file(&part, findings);
            }
        }
        None => {}
    }
}

fn check_input_image(part: &Object<'_>, findings: &mut Findings) {
    part.choice("detail", &["auto", "low", "high", "original"], findings);
    if part.has("image_url") == part.has("file_id") {
        findings.add(&part.at, SOURCE, "not exactly one of image_url, file_id");
    }
    part.filled("file_id", SOURCE, findings);
    if let Some(url) = part.text("image_url", findings) {
        media::check_image_url(url, &part.path("image_url"), findings);
    }
}

fn check_input_file(part: &Object<'_>, findings: &mut Findings) {
    part.choice("detail", &["auto", "low", "high"], findings);
    let sources = ["file_id", "file_url", "file_data"];
    let present = sources.iter().filter(|key| part.has(key)).count();
    if present != 1 || part.has("file_data") != part.has("filename") {
        let description = "not exactly one of file_id, file_url, file_data + filename";
        findings.add(&part.at, SOURCE, description);
    }
    part.filled("file_id", SOURCE, findings);
    part.filled("filename", SOURCE, findings);
    if let Some(url) = part.text("file_url", findings) {
        media::check_link(url, &["http", "https"], &part.path("file_url"), findings);
    }
    if let Some(data) = part.text("file_data", findings) {
        media::check_data_url(data, Accepted::Any, &part.path("file_data"), findings);
    }
}

fn check_call<'v>(item: &'v Value, at: &str, state: &mut State<'v>, findings: &mut Findings) {
    let required = ["type", "call_id", "name", "arguments"];
    let Some(call) = Object::open(item, at, &required, &["id", "status"], findings) else {
        return;
    };
    state.check_id(&call, "fc", findings);
    call.choice("status", STATUSES, findings);
    let name = call.text("name", findings);
    if let Some(name) = name.filter(|name| !is_word(name, MAX_CHARS)) {
        let description = format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$");
        findings.add(&call.path("name"), FUNCTION_NAME, description);
    }
    call.json_object("arguments", ARGUMENTS, findings);
    let Some(id) = state.check_call_id(&call, findings) else {
        return;
    };
    if state.calls.contains_key(id) {
        findings.add(
            &call.path("call_id"),
            CALL_ID_REUSED,
            format!("{id:?} again"),
        );
    } else {
        state.calls.insert(id, (at.to_owned(), false));
        state.call_order.push(id);
    }
}

fn check_output<'v>(item: &'v Value, at: &str, state: &mut State<'v>, findings: &mut Findings) {
    let required = ["type", "call_id", "output"];
    let Some(output) = Object::open(item, at, &required, &["id", "status"], findings) else {
        return;
    };
    state.check_id(&output, "fc", findings);
    output.choice("status", STATUSES, findings);
    let parts = output.parts("output", CONTENT_EMPTY, true, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", output.path("output"));
        check_input(part, INPUT_PART_TYPES, false, &at, findings);
    }
    let Some(id) = state.check_call_id(&output, findings) else {
        return;
    };
    match state.calls.get_mut(id) {
        Some((_, answered)) if *answered => {
            findings.add(at, OUTPUT_TWICE, format!("{id:?} has its output"));
        }
        Some((_, answered)) => *answered = true,
        None => findings.add(at, OUTPUT_STRAY, format!("no call {id:?} before")),
    }
}

fn check_reasoning<'v>(item: &'v Value, at: &str, state: &mut State<'v>, findings: &mut Findings) {
    state.reasoning.push(at.to_owned());
    let optional = ["encrypted_content", "content", "status"];
    let Some(item) = Object::open(item, at, &["type", "id", "summary"], &optional, findings) else {
        return;
    };
    state.check_id(&item, "rs", findings);
    item.choice("status", STATUSES, findings);
    if item.nullable_text("encrypted_content", findings) == Some("") {
        findings.add(&item.path("encrypted_content"), CONTENT_EMPTY, "is empty");
    }
    for (key, part_type) in [("summary", "summary_text"), ("content", "reasoning_text")] {
        let parts = item.list(key, findings).unwrap_or_default();
        for (index, part) in parts.iter().enumerate() {
            let at = format!("{}[{index}]", item.path(key));
            let part = Object::open(part, &at, &["type", "text"], &[], findings);
            if let Some(part) = part {
                part.choice("type", &[part_type], findings);
                part.text("text", findings);
            }
        }
    }
}
