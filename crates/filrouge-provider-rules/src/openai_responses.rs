//! The rules of OpenAI's Responses API for the `input` array.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::media::{self, Accept};
use crate::shape::{Findings, MISSING_MEMBER, Object, WRONG_TYPE, array, is_word, rules, tag};

rules! {
    /// Content is not empty. API: "Invalid 'input[0].content': empty array. Expected an array with minimum length 1".
    /// Stricter for strings, which the API accepts when empty; here only a function's output may be an empty string.
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

const TYPES: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
];
const ROLES: &[&str] = &["user", "assistant", "system", "developer"];
const INPUTS: &[&str] = &["input_text", "input_image", "input_file"];
const STATUSES: &[&str] = &["in_progress", "completed", "incomplete"];
/// The maximum length of a call id, item id or function name, in characters.
const LIMIT: usize = 64;

/// The state of the check after the items so far.
#[derive(Default)]
struct Walk<'v> {
    /// By the id of each call: its path, and whether its output was read.
    calls: HashMap<&'v str, (String, bool)>,
    /// The ids in the order of the calls.
    order: Vec<&'v str>,
    /// The ids of all items so far.
    ids: HashSet<&'v str>,
    /// The paths of reasoning items that still lack the following item that they require.
    reasoning: Vec<String>,
}

impl<'v> Walk<'v> {
    /// Removes the reasoning items that lack a following item. `led_here`: the current item is the one that they
    /// require. Otherwise adds a finding for each.
    fn settle(&mut self, led_here: bool, findings: &mut Findings) {
        for at in self.reasoning.drain(..).filter(|_| !led_here) {
            findings.add(&at, REASONING_ALONE, "the item it led to does not follow");
        }
    }

    fn id(&mut self, item: &Object<'v>, prefix: &str, findings: &mut Findings) {
        let Some(id) = item.text("id", findings) else {
            return;
        };
        if !id.starts_with(prefix) || !is_word(id, LIMIT) {
            let what = format!("{id:?} is no id that begins with {prefix:?}");
            findings.add(&item.path("id"), ITEM_ID, what);
        }
        if !self.ids.insert(id) {
            findings.add(&item.path("id"), ITEM_ID_REUSED, format!("{id:?} again"));
        }
    }

    fn call_id(&self, item: &Object<'v>, findings: &mut Findings) -> Option<&'v str> {
        let id = item.text("call_id", findings)?;
        if id.is_empty() || id.chars().count() > LIMIT {
            let what = format!("{id:?} is not 1 to {LIMIT} characters long");
            findings.add(&item.path("call_id"), CALL_ID, what);
        }
        Some(id)
    }

    fn finish(mut self, findings: &mut Findings) {
        self.settle(false, findings);
        for id in self.order {
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
    let mut walk = Walk::default();
    for (index, item) in items.iter().enumerate() {
        let at = format!("input[{index}]");
        let easy = item.get("type").is_none() && item.get("role").is_some();
        let word = if easy {
            Some("message")
        } else {
            tag(item, "type", TYPES, &at, findings)
        };
        match word {
            Some("message") => message(item, &at, &mut walk, findings),
            Some("function_call") => {
                walk.settle(true, findings);
                function_call(item, &at, &mut walk, findings);
            }
            Some("function_call_output") => {
                walk.settle(false, findings);
                function_call_output(item, &at, &mut walk, findings);
            }
            Some(_) => reasoning(item, &at, &mut walk, findings),
            None => walk.settle(false, findings),
        }
    }
    walk.finish(findings);
}

fn message<'v>(item: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    let role = tag(item, "role", ROLES, at, findings);
    walk.settle(role == Some("assistant"), findings);
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
        Some("assistant") => output_message(&message, walk, findings),
        Some(role) => {
            if message.has("phase") {
                let what = format!("a {role} message has no phase");
                findings.add(&message.path("phase"), PHASE_ROLE, what);
            }
            let types = if role == "user" { INPUTS } else { &INPUTS[..1] };
            let parts = message.parts("content", CONTENT_EMPTY, false, findings);
            for (index, part) in parts.iter().enumerate() {
                let at = format!("{}[{index}]", message.path("content"));
                input_part(part, types, true, &at, findings);
            }
        }
        None => {}
    }
}

/// Checks an assistant message. With an id, the API calls it an output message, and requires all members. Without an
/// id, the API calls it an easy message.
fn output_message<'v>(message: &Object<'v>, walk: &mut Walk<'v>, findings: &mut Findings) {
    let full = message.has("id");
    for key in ["type", "status"] {
        if full && !message.has(key) {
            let what = format!("{key} is required in a message with an id");
            findings.add(&message.at, MISSING_MEMBER, what);
        }
    }
    walk.id(message, "msg", findings);
    message.choice("status", STATUSES, findings);
    let content = message.get("content");
    if full && content.is_some_and(Value::is_string) {
        let what = "a message with an id has an array";
        findings.add(&message.path("content"), WRONG_TYPE, what);
    }
    let parts = message.parts("content", CONTENT_EMPTY, false, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", message.path("content"));
        match tag(part, "type", &["output_text", "refusal"], &at, findings) {
            Some("output_text") => output_text(part, &at, full, findings),
            Some(_) => {
                let part = Object::open(part, &at, &["type", "refusal"], &[], findings);
                part.and_then(|part| part.filled("refusal", CONTENT_EMPTY, findings));
            }
            None => {}
        }
    }
}

fn output_text(part: &Value, at: &str, full: bool, findings: &mut Findings) {
    let (required, optional): (&[&str], &[&str]) = if full {
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
        annotation(value, &at, findings);
    }
}

fn annotation(value: &Value, at: &str, findings: &mut Findings) {
    let known = [
        "file_citation",
        "url_citation",
        "container_file_citation",
        "file_path",
    ];
    let (texts, numbers): (&[&str], &[&str]) = match tag(value, "type", &known, at, findings) {
        Some("file_citation") => (&["file_id", "filename"], &["index"]),
        Some("url_citation") => (&["title", "url"], &["start_index", "end_index"]),
        Some("container_file_citation") => (
            &["container_id", "file_id", "filename"],
            &["start_index", "end_index"],
        ),
        Some(_) => (&["file_id"], &["index"]),
        None => return,
    };
    let required = [&["type"], texts, numbers].concat();
    let Some(annotation) = Object::open(value, at, &required, &[], findings) else {
        return;
    };
    for key in texts {
        annotation.text(key, findings);
    }
    for key in numbers {
        annotation.whole(key, findings);
    }
}

/// Checks an input part of one of `types`. `in_message`: the part is in a message, not in a function's output. OpenAI's
/// request types require the `detail` of an image only in a message.
fn input_part(part: &Value, types: &[&str], in_message: bool, at: &str, findings: &mut Findings) {
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
                input_image(&part, findings);
            }
        }
        Some(_) => {
            let optional = ["file_id", "file_url", "file_data", "filename", "detail"];
            if let Some(part) = Object::open(part, at, &["type"], &optional, findings) {
                input_file(&part, findings);
            }
        }
        None => {}
    }
}

fn input_image(part: &Object<'_>, findings: &mut Findings) {
    part.choice("detail", &["auto", "low", "high", "original"], findings);
    if part.has("image_url") == part.has("file_id") {
        findings.add(&part.at, SOURCE, "not exactly one of image_url, file_id");
    }
    part.filled("file_id", SOURCE, findings);
    if let Some(url) = part.text("image_url", findings) {
        media::image_url(url, &part.path("image_url"), findings);
    }
}

fn input_file(part: &Object<'_>, findings: &mut Findings) {
    part.choice("detail", &["auto", "low", "high"], findings);
    let sources = ["file_id", "file_url", "file_data"];
    let given = sources.iter().filter(|key| part.has(key)).count();
    if given != 1 || part.has("file_data") != part.has("filename") {
        let what = "not exactly one of file_id, file_url, file_data + filename";
        findings.add(&part.at, SOURCE, what);
    }
    part.filled("file_id", SOURCE, findings);
    part.filled("filename", SOURCE, findings);
    if let Some(url) = part.text("file_url", findings) {
        media::link(url, &["http", "https"], &part.path("file_url"), findings);
    }
    if let Some(data) = part.text("file_data", findings) {
        media::data_url(data, Accept::Any, &part.path("file_data"), findings);
    }
}

fn function_call<'v>(item: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    let required = ["type", "call_id", "name", "arguments"];
    let Some(call) = Object::open(item, at, &required, &["id", "status"], findings) else {
        return;
    };
    walk.id(&call, "fc", findings);
    call.choice("status", STATUSES, findings);
    let name = call.text("name", findings);
    if let Some(name) = name.filter(|name| !is_word(name, LIMIT)) {
        let what = format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,64}}$");
        findings.add(&call.path("name"), FUNCTION_NAME, what);
    }
    call.json_object("arguments", ARGUMENTS, findings);
    let Some(id) = walk.call_id(&call, findings) else {
        return;
    };
    if walk.calls.contains_key(id) {
        findings.add(
            &call.path("call_id"),
            CALL_ID_REUSED,
            format!("{id:?} again"),
        );
    } else {
        walk.calls.insert(id, (at.to_owned(), false));
        walk.order.push(id);
    }
}

fn function_call_output<'v>(
    item: &'v Value,
    at: &str,
    walk: &mut Walk<'v>,
    findings: &mut Findings,
) {
    let required = ["type", "call_id", "output"];
    let Some(output) = Object::open(item, at, &required, &["id", "status"], findings) else {
        return;
    };
    walk.id(&output, "fc", findings);
    output.choice("status", STATUSES, findings);
    let parts = output.parts("output", CONTENT_EMPTY, true, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", output.path("output"));
        input_part(part, INPUTS, false, &at, findings);
    }
    let Some(id) = walk.call_id(&output, findings) else {
        return;
    };
    match walk.calls.get_mut(id) {
        Some((_, answered)) if *answered => {
            findings.add(at, OUTPUT_TWICE, format!("{id:?} has its output"));
        }
        Some((_, answered)) => *answered = true,
        None => findings.add(at, OUTPUT_STRAY, format!("no call {id:?} before")),
    }
}

fn reasoning<'v>(item: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    walk.reasoning.push(at.to_owned());
    let optional = ["encrypted_content", "content", "status"];
    let Some(item) = Object::open(item, at, &["type", "id", "summary"], &optional, findings) else {
        return;
    };
    walk.id(&item, "rs", findings);
    item.choice("status", STATUSES, findings);
    if item.nullable_text("encrypted_content", findings) == Some("") {
        findings.add(&item.path("encrypted_content"), CONTENT_EMPTY, "is empty");
    }
    for (key, word) in [("summary", "summary_text"), ("content", "reasoning_text")] {
        let parts = item.list(key, findings).unwrap_or_default();
        for (index, part) in parts.iter().enumerate() {
            let at = format!("{}[{index}]", item.path(key));
            let part = Object::open(part, &at, &["type", "text"], &[], findings);
            if let Some(part) = part {
                part.choice("type", &[word], findings);
                part.text("text", findings);
            }
        }
    }
}
