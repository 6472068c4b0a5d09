//! What OpenCode keeps beside the messages of a session: its to-do list, the files that it changed, and the address at
//! which it is shared.

use serde::Serialize;
use serde_json::Value;

use super::clean::display_text;

/// An entry of a to-do list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Todo {
    /// Its text.
    pub content: String,
    /// Its state, for example `pending`.
    pub status: Option<String>,
    /// Its priority.
    pub priority: Option<String>,
}

/// A file that a session changed, with the numbers of changed lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ChangedFile {
    /// Its path.
    pub file: String,
    /// Lines added.
    pub additions: u64,
    /// Lines deleted.
    pub deletions: u64,
}

/// What a session has beside its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extras {
    /// Its to-do list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub todos: Vec<Todo>,
    /// The files in its session diff.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<ChangedFile>,
    /// The address at which it is shared.
    #[serde(rename = "shareURL", skip_serializing_if = "Option::is_none")]
    pub share_url: Option<String>,
}

impl Extras {
    /// Reads them from a session's metadata, as [`crate::Source::metadata`] returns it. Members of another form are left
    /// out.
    pub(super) fn parse(metadata: &str, mask: bool) -> Self {
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let text = |value: &Value, name| {
            let text = value.get(name).and_then(Value::as_str);
            text.map(|text| display_text(text, mask))
        };
        let list = |name| metadata.get(name).and_then(Value::as_array);
        let todos = list("todo").into_iter().flatten().filter_map(|todo| {
            Some(Todo {
                content: text(todo, "content")?,
                status: text(todo, "status"),
                priority: text(todo, "priority"),
            })
        });
        let files = list("session_diff").into_iter().flatten();
        let files = files.filter_map(|diff| {
            let count = |name| diff.get(name).and_then(Value::as_u64).unwrap_or(0);
            Some(ChangedFile {
                file: text(diff, "file")?,
                additions: count("additions"),
                deletions: count("deletions"),
            })
        });
        let share = metadata.pointer("/session/share");
        Self {
            todos: todos.collect(),
            changed_files: files.collect(),
            share_url: share.and_then(|share| text(share, "url")),
        }
    }
}
