//! Converts the items of the conversation to messages and parts.

use super::convert::{Mode, RolloutState};
use super::outputs::{join_texts, read_output, set_output};
use crate::jsonl::RecordInfo;
use crate::object::Object;
use crate::raw::Raw;
use crate::{PartKind, Role, Tool, ToolStatus};

/// Prefixes of texts that the program injects into messages of the user. They are compared only if the program recorded
/// no kind for the text.
const INJECTED: &[&str] = &[
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<collaboration_mode>",
    "<environment_context>",
    "<permissions instructions>",
    "<skill>",
    "<skills_instructions>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
];

/// Whether the program injected a text; `kind` is the kind that the program recorded for it.
pub(super) fn is_injected(kind: Option<&str>, text: &str) -> bool {
    match kind {
        Some(kind) if kind != "unknown" => !kind.starts_with("user."),
        _ => INJECTED
            .iter()
            .any(|begin| text.trim_start().starts_with(begin)),
    }
}

impl RolloutState {
    /// Adds the content of an item; `json` is its original text.
    pub(super) fn add_item(
        &mut self,
        item: &Object<'_>,
        passthrough: &Object<'_>,
        record: &RecordInfo,
        json: &str,
    ) {
        let kind = item.text("type").unwrap_or_default();
        match &*kind {
            "message" => self.add_message_item(item, passthrough, record),
            "reasoning" => {
                let mut texts = Vec::new();
                for pieces in [item.field("summary"), item.field("content")] {
                    let pieces: Vec<Object<'_>> = pieces.objects().unwrap_or_default();
                    texts.extend((!pieces.is_empty()).then(|| join_texts(&pieces)));
                }
                let text = texts.join("\n\n").into();
                self.add_answer_part(record, PartKind::Reasoning { text });
            }
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call"
            | "mcp_call" => {
                self.add_call(item, record, &kind);
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "tool_search_output" => self.add_output(item, record),
            "ghost_snapshot" => {}
            _ => {
                let name = kind.into();
                let json = json.into();
                self.add_answer_part(record, PartKind::Other { name, json });
            }
        }
    }

    /// Adds a part that the model wrote.
    pub(super) fn add_answer_part(&mut self, record: &RecordInfo, kind: PartKind) {
        let index = self.open_or_begin_answer(record);
        self.builder.add_part(index, record, 0, kind);
    }

    fn add_message_item(
        &mut self,
        item: &Object<'_>,
        passthrough: &Object<'_>,
        record: &RecordInfo,
    ) {
        let pieces: Vec<Raw<'_>> = item.field("content").list().unwrap_or_default();
        let kinds = passthrough.field("content_item_kinds").list();
        let kinds = kinds.unwrap_or_default();
        let role = match item.text("role").as_deref() {
            Some("assistant") => Role::Assistant,
            Some("user") => Role::User,
            _ => Role::System,
        };
        let mut parts = Vec::new();
        for (index, raw) in pieces.iter().enumerate() {
            let kind = kinds.get(index).and_then(|kind| kind.text());
            parts.extend(part_of(*raw, role, kind.as_deref()));
        }
        let has_typed = parts.iter().any(|part| match part {
            PartKind::Text { synthetic, .. } => !synthetic,
            _ => true,
        });
        self.modes_with_text[Mode::Items as usize] |= role != Role::System && has_typed;
        if self.mode != Mode::Items && role != Role::System && has_typed {
            return;
        }
        let index = if role == Role::Assistant {
            self.open_or_begin_answer(record)
        } else {
            if has_typed {
                self.end_answer();
            } else {
                self.open_message = None;
            }
            let agent = (role == Role::User).then(|| self.agent.clone());
            self.builder.add_message(record, role, agent)
        };
        for (at, kind) in parts.into_iter().enumerate() {
            self.builder.add_part(index, record, at, kind);
        }
    }

    fn add_call(&mut self, item: &Object<'_>, record: &RecordInfo, kind: &str) {
        let id = item.boxed("call_id").unwrap_or_else(|| record.id.clone());
        let full_name = match (item.text("namespace"), item.boxed("name")) {
            (Some(space), Some(name)) => Some(format!("{space}{name}").into()),
            (_, name) => name,
        };
        let name = full_name.unwrap_or_else(|| kind.strip_suffix("_call").unwrap_or(kind).into());
        // `arguments` is a string that contains JSON; `input`, of a custom tool, is any text.
        let arguments = item.text("arguments");
        let is_json =
            |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
        let input = match arguments.as_deref() {
            Some(text) if is_json(text) => text,
            Some(_) => item.field("arguments").json().unwrap_or("null"),
            None => item.get("input").or(item.get("action")).unwrap_or("null"),
        };
        let mut tool = Tool::call(id.clone(), name, input.into());
        tool.child = self.child_by_call.get(&id).cloned();
        self.add_answer_part(record, PartKind::Tool(Box::new(tool)));
        // The provider runs these tools itself, so no output follows.
        let runs_at_provider = matches!(kind, "web_search_call" | "image_generation_call");
        let done = runs_at_provider && item.text("status").as_deref() == Some("completed");
        if done && let Some(tool) = self.builder.tool_mut(&id, Some(record.at)) {
            tool.status = ToolStatus::Completed;
        }
    }

    fn add_output(&mut self, item: &Object<'_>, record: &RecordInfo) {
        let id = item.boxed("call_id").unwrap_or_else(|| record.id.clone());
        if !self.builder.calls.contains_key(&id) {
            // The call's record is missing, but its output exists.
            let call = Tool::call(id.clone(), "unknown".into(), "null".into());
            self.add_answer_part(record, PartKind::Tool(Box::new(call)));
        }
        let failed = self.failed_calls.remove(&id);
        if let Some(tool) = self.builder.tool_mut(&id, Some(record.at)) {
            let (text, is_failure) = read_output(item.field("output"));
            set_output(tool, text, failed || is_failure);
        }
        self.open_message = None;
    }
}

/// Converts a piece of a message's content. `recorded_kind` is the kind that the program recorded for it. Never keeps
/// the content of a file.
fn part_of(raw: Raw<'_>, role: Role, recorded_kind: Option<&str>) -> Option<PartKind> {
    let piece: Object<'_> = raw.object()?;
    if let Some(text) = piece.text("text") {
        let synthetic = match role {
            Role::Assistant => false,
            Role::User => is_injected(recorded_kind, &text),
            Role::System => true,
        };
        return Some(PartKind::Text {
            text: text.into(),
            synthetic,
        });
    }
    let kind = piece.boxed("type").unwrap_or_else(|| "unknown".into());
    if &*kind != "input_image" {
        let json = raw.json().unwrap_or_default().into();
        return Some(PartKind::Other { name: kind, json });
    }
    let url = piece.boxed("image_url");
    let data_url = url.as_ref().and_then(|url| url.strip_prefix("data:"));
    let mime = data_url
        .and_then(|data| data.split([';', ',']).next())
        .map(Box::from);
    Some(PartKind::File {
        mime,
        name: None,
        url: url.filter(|url| !url.starts_with("data:")),
    })
}
