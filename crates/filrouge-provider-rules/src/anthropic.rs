//! The rules of Anthropic's Messages API for the `messages` array.
//!
//! In the documentation of a rule, "API:" introduces an error text of the API, and "Stricter" says where the rule
//! refuses more than the API.

use std::collections::HashSet;

use serde_json::Value;

use crate::media::{self, Accept};
use crate::shape::{Findings, Object, array, is_word, rules, tag};

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
    /// only be in `assistant` messages", "`tool_result` blocks can only be in `user` messages", and so for thinking
    /// (assistant), images and documents (user).
    BLOCK_ROLE = "block-role";
    /// API: "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".
    TOOL_USE_ID = "tool-use-id";
    /// API: "messages.1.content.1: `tool_use` ids must be unique".
    TOOL_USE_ID_REUSED = "tool-use-id-reused";
    /// A name that a tool could be defined with: ^[a-zA-Z0-9_-]{1,128}$ (Define tools guide; API:
    /// "tools.18.custom.name: String should have at most 128 characters"). Stricter: of a call in the history the API
    /// says only "tool_use.name: String should have at least 1 character" and "at most 200 characters".
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

const BLOCKS: &[&str] = &[
    "text",
    "image",
    "document",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
];
/// The maximum length of a tool name, in characters.
const NAME_LIMIT: usize = 128;

/// The state of the check after the messages so far.
#[derive(Default)]
struct Walk<'v> {
    /// The ids of all tool_use blocks so far.
    ids: HashSet<&'v str>,
    /// The path of the previous message.
    at: String,
    /// The ids of the calls of the previous message.
    open: Vec<&'v str>,
    /// The ids of the calls of the current message.
    calls: Vec<&'v str>,
    /// The ids of the calls whose results are in the current message.
    results: Vec<&'v str>,
}

impl<'v> Walk<'v> {
    fn result(&mut self, id: &'v str, at: &str, findings: &mut Findings) {
        if !self.open.contains(&id) {
            let what = format!("{id:?} is no tool_use of the previous message");
            findings.add(at, TOOL_RESULT_STRAY, what);
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

    /// Ends the current message, whose path is `at`: all calls of the previous message must have results in it.
    fn turn(&mut self, at: String, findings: &mut Findings) {
        for id in self.open.drain(..).filter(|id| !self.results.contains(id)) {
            let what = format!("{id:?} has no tool_result in the next message");
            findings.add(&self.at, TOOL_USE_UNANSWERED, what);
        }
        self.results.clear();
        self.open.append(&mut self.calls);
        self.at = at;
    }
}

pub(crate) fn check(messages: &Value, findings: &mut Findings) {
    let Some(messages) = array(messages, "messages", findings) else {
        return;
    };
    let mut walk = Walk::default();
    let mut before = None;
    for (index, value) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = tag(value, "role", &["user", "assistant"], &at, findings);
        if index == 0 && role == Some("assistant") {
            findings.add(&at, FIRST_ROLE, "the first message is not the user's");
        }
        if role.is_some() && role == before {
            findings.add(&at, ALTERNATION, "the same role as the message before");
        }
        before = role;
        if let Some(message) = Object::open(value, &at, &["role", "content"], &[], findings) {
            content(&message, role, &mut walk, findings);
            if role == Some("assistant") && index + 1 == messages.len() {
                trailing(&message, findings);
            }
        }
        walk.turn(at, findings);
    }
    walk.turn(String::new(), findings);
}

fn content<'v>(
    message: &Object<'v>,
    role: Option<&str>,
    walk: &mut Walk<'v>,
    findings: &mut Findings,
) {
    let at = message.path("content");
    if let Some(text) = message.get("content").and_then(Value::as_str) {
        visible(text, &at, findings);
    }
    let blocks = message.parts("content", CONTENT_EMPTY, true, findings);
    let mut words = Vec::with_capacity(blocks.len());
    for (index, value) in blocks.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let word = tag(value, "type", BLOCKS, &at, findings);
        if let Some(word) = word {
            block(word, value, &at, walk, findings);
            placed(word, role, &at, findings);
            let after_other = words.iter().any(|before| *before != Some("tool_result"));
            if word == "tool_result" && after_other {
                findings.add(&at, TOOL_RESULT_ORDER, "follows another block");
            }
        }
        words.push(word);
    }
    thinking_order(&words, &at, findings);
}

fn thinking_order(words: &[Option<&str>], at: &str, findings: &mut Findings) {
    let thinks = |word: &Option<&str>| matches!(word, Some("thinking" | "redacted_thinking"));
    if !words.iter().any(thinks) {
        return;
    }
    if !words.first().is_some_and(thinks) {
        let at = format!("{at}[0]");
        findings.add(&at, THINKING_FIRST, "thinking follows later in the message");
    }
    if words.last().is_some_and(thinks) {
        let at = format!("{at}[{}]", words.len() - 1);
        findings.add(&at, THINKING_LAST, "is the last block");
    }
}

fn placed(word: &str, role: Option<&str>, at: &str, findings: &mut Findings) {
    let home = match word {
        "tool_use" | "thinking" | "redacted_thinking" => "assistant",
        "tool_result" | "image" | "document" => "user",
        _ => return,
    };
    if let Some(role) = role.filter(|role| *role != home) {
        let what = format!("{word} in a message of the {role}");
        findings.add(at, BLOCK_ROLE, what);
    }
}

fn block<'v>(word: &str, value: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    match word {
        "tool_use" => tool_use(value, at, walk, findings),
        "tool_result" => tool_result(value, at, walk, findings),
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
        _ => plain(word, value, at, findings),
    }
}

/// Checks a text, image or document block.
fn plain(word: &str, value: &Value, at: &str, findings: &mut Findings) {
    match word {
        "text" => {
            let block = Object::open(value, at, &["type", "text"], &[], findings);
            let text = block
                .as_ref()
                .and_then(|block| block.text("text", findings));
            if let Some(text) = text {
                visible(text, &format!("{at}.text"), findings);
            }
        }
        "image" => {
            let block = Object::open(value, at, &["type", "source"], &[], findings);
            if let Some(block) = block.filter(|block| block.has("source")) {
                source(&block, &["base64", "url", "file"], Accept::Images, findings);
            }
        }
        _ => document(value, at, findings),
    }
}

/// Whether the API treats a character as whitespace. As Python does, it also treats four control characters so.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn visible(text: &str, at: &str, findings: &mut Findings) {
    if text.is_empty() {
        findings.add(at, CONTENT_EMPTY, "is empty");
    } else if text.chars().all(is_space) {
        findings.add(at, TEXT_WHITESPACE, "is whitespace only");
    }
}

fn trailing(message: &Object<'_>, findings: &mut Findings) {
    let last = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.last().and_then(|block| block.get("text")),
        other => other,
    };
    let text = last.and_then(Value::as_str).unwrap_or_default();
    if text.ends_with(is_space) && !text.chars().all(is_space) {
        let what = "the last message ends with whitespace";
        findings.add(&message.path("content"), TRAILING_WHITESPACE, what);
    }
}

fn tool_use<'v>(value: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    let required = ["type", "id", "name", "input"];
    let Some(block) = Object::open(value, at, &required, &[], findings) else {
        return;
    };
    block.free_object("input", findings);
    let name = block.text("name", findings);
    if let Some(name) = name.filter(|name| !is_word(name, NAME_LIMIT)) {
        let what = format!("{name:?} does not match ^[a-zA-Z0-9_-]{{1,128}}$");
        findings.add(&block.path("name"), TOOL_NAME, what);
    }
    let Some(id) = block.text("id", findings) else {
        return;
    };
    if !is_word(id, usize::MAX) {
        let what = format!("{id:?} does not match ^[a-zA-Z0-9_-]+$");
        findings.add(&block.path("id"), TOOL_USE_ID, what);
    }
    if walk.ids.insert(id) {
        walk.calls.push(id);
    } else {
        let what = format!("{id:?} again");
        findings.add(&block.path("id"), TOOL_USE_ID_REUSED, what);
    }
}

fn tool_result<'v>(value: &'v Value, at: &str, walk: &mut Walk<'v>, findings: &mut Findings) {
    let (required, optional) = (["type", "tool_use_id"], ["content", "is_error"]);
    let Some(block) = Object::open(value, at, &required, &optional, findings) else {
        return;
    };
    let error = block.flag("is_error", findings);
    if let Some(id) = block.text("tool_use_id", findings) {
        walk.result(id, at, findings);
    }
    let at = block.path("content");
    if error && !block.has("content") {
        findings.add(&at, ERROR_RESULT, "an error without content");
    }
    let rule = if error { ERROR_RESULT } else { CONTENT_EMPTY };
    let parts = block.parts("content", rule, !error, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}[{index}]");
        if let Some(word) = tag(part, "type", &["text", "image", "document"], &at, findings) {
            plain(word, part, &at, findings);
            if error && word != "text" {
                findings.add(&at, ERROR_RESULT, format!("{word} in an error"));
            }
        }
    }
}

fn document(value: &Value, at: &str, findings: &mut Findings) {
    let optional = ["title", "context", "citations"];
    let Some(block) = Object::open(value, at, &["type", "source"], &optional, findings) else {
        return;
    };
    block.nullable_text("title", findings);
    block.nullable_text("context", findings);
    if let Some(value) = block.get("citations") {
        let at = block.path("citations");
        let citations = Object::open(value, &at, &[], &["enabled"], findings);
        citations.map(|citations| citations.flag("enabled", findings));
    }
    if block.has("source") {
        let types = ["base64", "text", "url", "content", "file"];
        source(&block, &types, Accept::Pdf, findings);
    }
}

fn source(block: &Object<'_>, types: &[&str], accept: Accept, findings: &mut Findings) {
    let Some(value) = block.get("source") else {
        return;
    };
    let at = block.path("source");
    let Some(word) = tag(value, "type", types, &at, findings) else {
        return;
    };
    let members: &[&str] = match word {
        "base64" | "text" => &["type", "media_type", "data"],
        "url" => &["type", "url"],
        "file" => &["type", "file_id"],
        _ => &["type", "content"],
    };
    let Some(source) = Object::open(value, &at, members, &[], findings) else {
        return;
    };
    let accept = if word == "text" {
        Accept::Plain
    } else {
        accept
    };
    if let Some(name) = source.text("media_type", findings) {
        media::media_type(name, accept, &source.path("media_type"), findings);
    }
    match word {
        "base64" => {
            if let Some(data) = source.text("data", findings) {
                media::base64(data, &source.path("data"), findings);
            }
        }
        "url" => {
            if let Some(url) = source.text("url", findings) {
                media::link(url, &["http", "https"], &source.path("url"), findings);
            }
        }
        "content" => nested(&source, findings),
        _ => {
            for key in ["data", "file_id"] {
                source.filled(key, CONTENT_EMPTY, findings);
            }
        }
    }
}

/// Checks the content of a document whose source has the type `content`: a string, or text and image blocks.
fn nested(source: &Object<'_>, findings: &mut Findings) {
    let parts = source.parts("content", CONTENT_EMPTY, false, findings);
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{}[{index}]", source.path("content"));
        if let Some(word) = tag(part, "type", &["text", "image"], &at, findings) {
            plain(word, part, &at, findings);
        }
    }
}
