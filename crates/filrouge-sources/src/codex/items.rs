//! Items of the talk to parts.

use super::outputs::{joined, read, settle};
use super::talk::{Lines, Mode};
use crate::jsonl::{Place, Talk};
use crate::object::Object;
use crate::raw::Raw;
use crate::{PartKind, Role, Tool, ToolStatus};

/// How texts begin that the program puts into messages of the user, where it does not say what a text is.
const PUT_IN: &[&str] = &[
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

/// Whether a text was put in by the program; `kind` is what the program calls it.
pub(super) fn is_put_in(kind: Option<&str>, text: &str) -> bool {
    match kind {
        Some(kind) if kind != "unknown" => !kind.starts_with("user."),
        _ => PUT_IN
            .iter()
            .any(|begin| text.trim_start().starts_with(begin)),
    }
}

impl Lines {
    pub(super) fn take_item(
        &mut self,
        talk: &mut Talk,
        item: &Object<'_>,
        passed: &Object<'_>,
        place: &Place,
        json: &str,
    ) {
        let kind = item.text("type").unwrap_or_default();
        match &*kind {
            "message" => self.message(talk, item, passed, place),
            "reasoning" => {
                let mut texts = Vec::new();
                for pieces in [item.at("summary"), item.at("content")] {
                    let pieces: Vec<Object<'_>> = pieces.objects().unwrap_or_default();
                    texts.extend((!pieces.is_empty()).then(|| joined(&pieces)));
                }
                let text = texts.join("\n\n").into();
                self.wrote(talk, place, PartKind::Reasoning { text });
            }
            "function_call"
            | "custom_tool_call"
            | "local_shell_call"
            | "web_search_call"
            | "tool_search_call"
            | "image_generation_call"
            | "mcp_call" => {
                self.called(talk, item, place, &kind);
            }
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "tool_search_output" => self.gave(talk, item, place),
            "ghost_snapshot" => {}
            _ => {
                let name = kind.into();
                let json = json.into();
                self.wrote(talk, place, PartKind::Other { name, json });
            }
        }
    }

    /// Something the model wrote.
    pub(super) fn wrote(&mut self, talk: &mut Talk, place: &Place, kind: PartKind) {
        let index = self.answer(talk, place);
        talk.part(index, place.id.clone(), place.at, kind);
    }

    fn message(&mut self, talk: &mut Talk, item: &Object<'_>, passed: &Object<'_>, place: &Place) {
        let pieces: Vec<Raw<'_>> = item.at("content").list().unwrap_or_default();
        let kinds: Vec<Raw<'_>> = passed.at("content_item_kinds").list().unwrap_or_default();
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
        self.seen[0] |= role != Role::System && parts.iter().any(typed);
        if self.mode != Mode::Items && role != Role::System && parts.iter().any(typed) {
            return;
        }
        let index = if role == Role::Assistant {
            self.answer(talk, place)
        } else {
            if parts.iter().any(typed) {
                self.spoken();
            } else {
                self.close();
            }
            let agent = (role == Role::User).then(|| self.agent.clone());
            talk.begin(place, role, agent)
        };
        for (at, kind) in parts.into_iter().enumerate() {
            talk.part(index, place.part(at), place.at, kind);
        }
    }

    fn called(&mut self, talk: &mut Talk, item: &Object<'_>, place: &Place, kind: &str) {
        let id = item.boxed("call_id").unwrap_or_else(|| place.id.clone());
        let named = match (item.text("namespace"), item.boxed("name")) {
            (Some(space), Some(name)) => Some(format!("{space}{name}").into()),
            (_, name) => name,
        };
        let name = named.unwrap_or_else(|| kind.strip_suffix("_call").unwrap_or(kind).into());
        // Arguments are JSON in a string; the input of a custom tool is any text.
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
        self.wrote(talk, place, PartKind::Tool(Box::new(tool)));
        // These are done by whoever runs the model; no output follows.
        let alone = matches!(kind, "web_search_call" | "image_generation_call");
        let done = alone && item.text("status").as_deref() == Some("completed");
        if done && let Some(tool) = talk.tool(&id, Some(place.at)) {
            tool.status = ToolStatus::Completed;
        }
    }

    fn gave(&mut self, talk: &mut Talk, item: &Object<'_>, place: &Place) {
        let id = item.boxed("call_id").unwrap_or_else(|| place.id.clone());
        if !talk.calls.contains_key(&id) {
            // The call was in a line that is lost; what it gave is not.
            let lost = Tool::call(id.clone(), "unknown".into(), "null".into());
            self.wrote(talk, place, PartKind::Tool(Box::new(lost)));
        }
        let failed = self.failed.remove(&id);
        if let Some(tool) = talk.tool(&id, Some(place.at)) {
            let (text, is_failure) = read(item.at("output"));
            settle(tool, text, failed || is_failure);
        }
        self.close();
    }
}

/// A piece of a message's content. Never the content of a file.
fn part_of(raw: Raw<'_>, role: Role, named: Option<&str>) -> Option<PartKind> {
    let piece: Object<'_> = raw.object()?;
    if let Some(text) = piece.text("text") {
        let synthetic = match role {
            Role::Assistant => false,
            Role::User => is_put_in(named, &text),
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
