//! The rules of Anthropic's Messages API for the `messages` array.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use std::collections::HashSet;

use serde_json::Value;

use crate::media::Accepted;
use crate::shape::{Findings, Object, array, is_word, rules, tag};

mod documents;

use documents::{check_document, check_source};

rules! {
    /// API: "messages: first message must use the \"user\" role".
    FIRST_ROLE = "first-role";
    /// Roles alternate. API, first versions: "messages: roles must alternate between \"user\" and \"assistant\", but
    /// found multiple \"user\" roles in a row". Stricter: the API now merges turns of the same role.
    ALTERNATION = "alternation";
    /// API: "messages.0: all messages must have non-empty content except for the optional final assistant message";
    /// "messages: text content blocks must be non-empty". Stricter for the final assistant message.
    CONTENT_EMPTY = "content-empty";
    /// API: "messages: text content blocks must contain non-whitespace text". Stricter: the API refuses it only where
    /// no other block of the message has text.
    TEXT_WHITESPACE = "text-whitespace";
    /// API: "messages: final assistant content cannot end with trailing whitespace". Stricter: applied here to a
    /// history that ends with the assistant's turn, although a user message will follow.
    TRAILING_WHITESPACE = "trailing-whitespace";
    /// A block occurs only in messages of its role. Messages API reference, input messages; API: "`tool_use` blocks can
    /// only be in `assistant` messages", "`tool_result` blocks can only be in `user` messages". The same applies to
    /// thinking (assistant), images and documents (user).
    BLOCK_ROLE = "block-role";
    /// API: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".
    TOOL_USE_ID = "tool-use-id";
    /// API: "messages.1.content.1: `tool_use` ids must be unique".
    TOOL_USE_ID_REUSED = "tool-use-id-reused";
    /// The name matches the pattern of tool definitions: ^[a-zA-Z0-9_-]{1,128}$ (Define tools guide; API:
    /// "tools.18.custom.name: String should have at most 128 characters"). Stricter: for a call in the history, the API
    /// requires only "tool_use.name: String should have at least 1 character" and "at most 200 characters".
    TOOL_NAME = "tool-name";
    /// API: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_.... Each
    /// `tool_use` block must have a corresponding `tool_result` block in the next message."
    TOOL_USE_UNANSWERED = "tool-use-unanswered";
    /// API: "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_.... Each
    /// `tool_result` block must have a corresponding `tool_use` block in the previous message."
    TOOL_RESULT_STRAY = "tool-result-stray";
    /// API: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with
    /// id: toolu_..."
    TOOL_RESULT_TWICE = "tool-result-twice";
    /// Handle tool calls guide: "In the user message containing tool results, the tool_result blocks must come first in
    /// the content array. Any text must come after all tool results." The API answers with the error of an unanswered
    /// call.
    TOOL_RESULT_ORDER = "tool-result-order";
    /// API: "messages.4.content.0.tool_result: content cannot be empty if `is_error` is true"; "all content must be
    /// type `text` if `is_error` is true".
    ERROR_RESULT = "error-result";
    /// Extended thinking guide: thinking blocks are sent back complete and unmodified, with their signature. API:
    /// "Invalid `signature` in `thinking` block".
    SIGNATURE = "signature";
    /// Extended thinking guide: the `data` of a redacted block is sent back unchanged. API: "Invalid `data` in
    /// `redacted_thinking` block".
    REDACTED_DATA = "redacted-data";
    /// API: "messages.1: The final block in an assistant message cannot be `thinking`."
    THINKING_LAST = "thinking-last";
    /// API: "messages.1.content.0: If an assistant message contains any thinking blocks, the first block must be
    /// `thinking` or `redacted_thinking`. Found `text`."
    THINKING_FIRST = "thinking-first";
}

const BLOCK_TYPES: &[&str] = &[
    "text",
    "image",
    "document",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
];
/// The maximum length of a tool name, in characters.
const MAX_NAME_CHARS: usize = 128;

/// The state of the check after the messages so far.
#[derive(Default)]
struct State<'v> {
    /// The ids of all tool_use blocks so far.
    call_ids: HashSet<&'v str>,
    /// The path of the previous message.
    path: String,
    /// The ids of the calls of the previous message.
    previous_calls: Vec<&'v str>,
    /// The ids of the calls of the current message.
    calls: Vec<&'v str>,
    /// The ids of the calls whose results are in the current message.
    results: Vec<&'v str>,
}

impl<'v> State<'v> {
    /// Records the result of the call `id` in the current message.
    fn add_result(&mut self, id: &'v str, at: &str, findings: &mut Findings) {
        if !self.previous_calls.contains(&id) {
            let description = format!("{id:?} is no tool_use of the previous message");
            findings.add(at, TOOL_RESULT_STRAY, description);
        } else if self.results.contains(&id) {
            findings.add(
                at,
                TOOL_RESULT_TWICE,
                format!("{id:?} already has a result"),
            );
        } else {
            self.results.push(id);
        }
    }

    /// Ends the current message, whose path is `at`. Adds a finding for each call of the previous message that has no
    /// result in the current one.
    fn end_message(&mut self, at: String, findings: &mut Findings) {
        for id in self
            .previous_calls
            .drain(..)
            .filter(|id| !self.results.contains(id))
        {
            let description = format!("{id:?} has no tool_result in the next message");
            findings.add(&self.path, TOOL_USE_UNANSWERED, description);
        }
        self.results.clear();
        self.previous_calls.append(&mut self.calls);
        self.path = at;
    }
}

pub(crate) fn check(messages: &Value, findings: &mut Findings) {
    let Some(messages) = array(messages, "messages", findings) else {
        return;
    };
    let mut state = State::default();
    let mut previous_role = None;
    for (index, value) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = tag(value, "role", &["user", "assistant"], &at, findings);
        if index == 0 && role == Some("assistant") {
            findings.add(&at, FIRST_ROLE, "the first message is not the user's");
        }
        if role.is_some() && role == previous_role {
            findings.add(&at, ALTERNATION, "the same role as the message before");
        }
        previous_role = role;
        if let Some(message) = Object::open(value, &at, &["role", "content"], &[], findings) {
            check_content(&message, role, &mut state, findings);
            if role == Some("assistant") && index + 1 == messages.len() {
                check_trailing_whitespace(&message, findings);
            }
        }
        state.end_message(at, findings);
    }
    // An empty last message reports the calls of the final message, which have no results.
    state.end_message(String::new(), findings);
}

fn check_content<'v>(
    message: &Object<'v>,
    role: Option<&str>,
    state: &mut State<'v>,
    findings: &mut Findings,
) {
    let at = message.path("content");
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        check_visible_text(text, &at, findings);
    }
    let blocks = message.parts("content", CONTENT_EMPTY, true, findings);
    let mut block_types = Vec::with_capacity(blocks.len());
    for (index, value) in blocks.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let block_type = tag(value, "type", BLOCK_TYPES, &at, findings);
        if let Some(block_type) = block_type {
            check_block(block_type, value, &at, state, findings);
            check_block_role(block_type, role, &at, findings);
            let after_other = block_types.iter().any(|kind| *kind != Some("tool_result"));
            if block_type == "tool_result" && after_other {
                findings.add(&at, TOOL_RESULT_ORDER, "follows another block");
            }
        }
        block_types.push(block_type);
    }
    check_thinking_order(&block_types, &at, findings);
}

fn check_thinking_order(block_types: &[Option<&str>], at: &str, findings: &mut Findings) {
    let is_thinking =
        |block_type: &Option<&str>| matches!(block_type, Some("thinking" | "redacted_thinking"));
    if !block_types.iter().any(is_thinking) {
        return;
    }
    if !block_types.first().is_some_and(is_thinking) {
        let at = format!("{at}[0]");
        findings.add(&at, THINKING_FIRST, "thinking follows later in the message");
    }
    if block_types.last().is_some_and(is_thinking) {
        let at = format!("{at}[{}]", block_types.len() - 1);
        findings.add(&at, THINKING_LAST, "is the last block");
    }
}

fn check_block_role(block_type: &str, role: Option<&str>, at: &str, findings: &mut Findings) {
    let required_role = match block_type {
        "tool_use" | "thinking" | "redacted_thinking" => "assistant",
        "tool_result" | "image" | "document" => "user",
        _ => return,
    };
    if let Some(role) = role.filter(|role| *role != required_role) {
        let description = format!("{block_type} in a message of the {role}");
        findings.add(at, BLOCK_ROLE, description);
    }
}

fn check_block<'v>(
    block_type: &str,
    value: &'v Value,
    at: &str,
    state: &mut State<'v>,
    findings: &mut Findings,
) {
    match block_type {
        "tool_use" => check_tool_use(value, at, state, findings),
        "tool_result" => check_tool_result(value, at, state, findings),
        "thinking" => {
            let required = ["type", "thinking", "signature"];
            if let Some(block) = Object::open(value, at, &required, &[], findings) {
                block.text("thinking", findings);
                block.filled("signature", SIGNATURE, findings);
            }
        }
        "redacted_thinking" => {
            if let Some(block) = Object::open(value, at, &["type", "data"], &[], findings) {
                block.filled("data", REDACTED_DATA, findings);
            }
        }
        _ => check_content_block(block_type, value, at, findings),
    }
}

/// Checks a text, image or document block.
fn check_content_block(block_type: &str, value: &Value, at: &str, findings: &mut Findings) {
    match block_type {
        "text" => {
            let block = Object::open(value, at, &["type", "text"], &[], findings);
            let text = block
                .as_ref()
                .and_then(|block| block.text("text", findings));
            if let Some(text) = text {
                check_visible_text(text, &format!("{at}.text"), findings);
            }
        }
        "image" => {
            let block = Object::open(value, at, &["type", "source"], &[], findings);
            if let Some(block) = block.filter(|block| block.has("source")) {
                check_source(
                    &block,
                    &["base64", "url", "file"],
                    Accepted::Images,
                    findings,
                );
            }
        }
        _ => check_document(value, at, findings),
    }
}

/// Whether the API treats a character as whitespace. Like Python, it includes four control characters.
fn is_api_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn check_visible_text(text: &str, at: &str, findings: &mut Findings) {
    if text.is_empty() {
        findings.add(at, CONTENT_EMPTY, "is empty");
    } else if text.chars().all(is_api_space) {
        findings.add(at, TEXT_WHITESPACE, "is whitespace only");
    }
}

fn check_trailing_whitespace(message: &Object<'_>, findings: &mut Findings) {
    let last = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.last().and_then(|block| block.get("text")),
        other => other,
    };
    let text = last.and_then(Value::as_str).unwrap_or_default();
    if text.ends_with(is_api_space) && !text.chars().all(is_api_space) {
        let description = "the last message ends with whitespace";
        findings.add(&message.path("content"), TRAILING_WHITESPACE, description);
    }
}

fn check_tool_use<'v>(value: &'v Value, at: &str, state: &mut State<'v>, findings: &mut Findings) {
    let required = ["type", "id", "name", "input"];
    let Some(block) = Object::open(value, at, &required, &[], findings) else {
        return;
    };
    block.free_object("input", findings);
    let name = block.text("name", findings);
    if let Some(name) = name.filter(|name| !is_word(name, MAX_NAME_CHARS)) {
        let description = format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,128}}$");
        findings.add(&block.path("name"), TOOL_NAME, description);
    }
    let Some(id) = block.text("id", findings) else {
        return;
    };
    if !is_word(id, usize::MAX) {
        let description = format!("{id:?} does not match ^[a-zA-Z0-9_-]+$");
        findings.add(&block.path("id"), TOOL_USE_ID, description);
    }
    if state.call_ids.insert(id) {
        state.calls.push(id);
    } else {
        let description = format!("{id:?} again");
        findings.add(&block.path("id"), TOOL_USE_ID_REUSED, description);
    }
}

fn check_tool_result<'v>(
    value: &'v Value,
    at: &str,
    state: &mut State<'v>,
    findings: &mut Findings,
) {
    let (required, optional) = (["type", "tool_use_id"], ["content", "is_error"]);
    let Some(block) = Object::open(value, at, &required, &optional, findings) else {
        return;
    };
    let error = block.flag("is_error", findings);
    if let Some(id) = block.text("tool_use_id", findings) {
        state.add_result(id, at, findings);
    }
    let at = block.path("content");
    if error && !block.has("content") {
        findings.add(&at, ERROR_RESULT, "an error without content");
    }
    let rule = if error { ERROR_RESULT } else { CONTENT_EMPTY };
    let parts = block.parts("content", rule, !error, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if let Some(block_type) = tag(part, "type", &["text", "image", "document"], &at, findings) {
            check_content_block(block_type, part, &at, findings);
            if error && block_type != "text" {
                findings.add(&at, ERROR_RESULT, format!("{block_type} in an error"));
            }
        }
    }
}
