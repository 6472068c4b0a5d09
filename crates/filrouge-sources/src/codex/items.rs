//! Converts the items of the conversation to messages and parts.

use super::convert::{Mode, RolloutState};
use super::outputs::{joined, read, set_output};
use crate::jsonl::{MessageBuilder, RecordInfo};
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
    pub(super) fn take_item(
        &mut self,
        builder: &mut MessageBuilder,
        item: &Object<'_>,
        passthrough: &Object<'_>,
        record: &RecordInfo,
        json: &str,
    ) {
        let kind = item.text("type").unwrap_or_default();
        match &*kind {
            "message" => self.message(builder, item, passthrough, record),
            "reasoning" => {
                let mut texts = Vec::new();
                for pieces in [item.at("summary"), item.at("content")] {
                    let pieces: Vec<Object<'_>> = pieces.objects().unwrap_or_default();
                    texts.extend((!pieces.is_empty()).then(|| joined(&pieces)));
                }
                let text = texts.join("\n\n").into();
                self.add_answer_part(builder, record, PartKind::Reasoning { text });
            }
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call"
            | "mcp_call" => {
                self.add_call(builder, item, record, &kind);
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "tool_search_output" => self.add_output(builder, item, record),
            "ghost_snapshot" => {}
            _ => {
                let name = kind.into();
                let json = json.into();
                self.add_answer_part(builder, record, PartKind::Other { name, json });
            }
        }
    }

    /// Adds a part that the model wrote.
    pub(super) fn add_answer_part(
        &mut self,
        builder: &mut MessageBuilder,
        record: &RecordInfo,
        kind: PartKind,
    ) {
        let index = self.open_answer(builder, record);
        builder.part(index, record.id.clone(), record.at, kind);
    }

    fn message(
        &mut self,
        builder: &mut MessageBuilder,
        item: &Object<'_>,
        passthrough: &Object<'_>,
        record: &RecordInfo,
    ) {
        let pieces: Vec<Raw<'_>> = item.at("content").list().unwrap_or_default();
        let kinds: Vec<Raw<'_>> = passthrough
            .at("content_item_kinds")
            .list()
            .unwrap_or_default();
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
        let typed = |part: &PartKind| {
            !matches!(
                part,
                PartKind::Text {
                    synthetic: true,
                    ..
                }
            )
        };
        self.modes_with_text[0] |= role != Role::System && parts.iter().any(typed);
        if self.mode != Mode::Items && role != Role::System && parts.iter().any(typed) {
            return;
        }
        let index = if role == Role::Assistant {
            self.open_answer(builder, record)
        } else {
            if parts.iter().any(typed) {
                self.user_spoke();
            } else {
                self.close();
            }
            let agent = (role == Role::User).then(|| self.agent.clone());
            builder.begin(record, role, agent)
        };
        for (at, kind) in parts.into_iter().enumerate() {
            builder.part(index, record.part_id(at), record.at, kind);
        }
    }

    fn add_call(
        &mut self,
        builder: &mut MessageBuilder,
        item: &Object<'_>,
        record: &RecordInfo,
        kind: &str,
    ) {
        let id = item.boxed("call_id").unwrap_or_else(|| record.id.clone());
        let named = match (item.text("namespace"), item.boxed("name")) {
            (Some(space), Some(name)) => Some(format!("{space}{name}").into()),
            (_, name) => name,
        };
        let name = named.unwrap_or_else(|| kind.strip_suffix("_call").unwrap_or(kind).into());
        // `arguments` is a string that contains JSON; `input`, of a custom tool, is any text.
        let arguments = item.text("arguments");
        let valid = |text: &str| serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
        let input = match arguments.as_deref() {
            Some(text) if valid(text) => text,
            Some(_) => item.at("arguments").json().unwrap_or("null"),
            None => item
                .at("input")
                .json()
                .or(item.at("action").json())
                .unwrap_or("null"),
        };
        let mut tool = Tool::call(id.clone(), name, input.into());
        tool.child = self.children.get(&id).cloned();
        self.add_answer_part(builder, record, PartKind::Tool(Box::new(tool)));
        // The provider runs these tools itself, so no output follows.
        let runs_at_provider = matches!(kind, "web_search_call" | "image_generation_call");
        let done = runs_at_provider && item.text("status").as_deref() == Some("completed");
        if done && let Some(tool) = builder.tool(&id, Some(record.at)) {
            tool.status = ToolStatus::Completed;
        }
    }

    fn add_output(&mut self, builder: &mut MessageBuilder, item: &Object<'_>, record: &RecordInfo) {
        let id = item.boxed("call_id").unwrap_or_else(|| record.id.clone());
        if !builder.calls.contains_key(&id) {
            // The call's record is missing, but its output exists.
            let lost = Tool::call(id.clone(), "unknown".into(), "null".into());
            self.add_answer_part(builder, record, PartKind::Tool(Box::new(lost)));
        }
        let failed = self.failed.remove(&id);
        if let Some(tool) = builder.tool(&id, Some(record.at)) {
            let (text, is_failure) = read(item.at("output"));
            set_output(tool, text, failed || is_failure);
        }
        self.close();
    }
}

/// Converts a piece of a message's content. `named` is the kind that the program recorded for it. Never keeps the
/// content of a file.
fn part_of(raw: Raw<'_>, role: Role, named: Option<&str>) -> Option<PartKind> {
    let piece: Object<'_> = raw.object()?;
    if let Some(text) = piece.text("text") {
        let synthetic = match role {
            Role::Assistant => false,
            Role::User => is_injected(named, &text),
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
    let inside = url.as_ref().and_then(|url| url.strip_prefix("data:"));
    let mime = inside
        .and_then(|data| data.split([';', ',']).next())
        .map(Box::from);
    Some(PartKind::File {
        mime,
        name: None,
        url: url.filter(|url| !url.starts_with("data:")),
    })
}
