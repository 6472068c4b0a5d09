//! What the parts of an item tell, for whoever looks for a fault: as they were recorded, and in short.

use std::collections::HashMap;

use filrouge_types::{Item, JsonText, RawJson};
use serde_json::value::RawValue;

use super::TEXT_MAX;

/// One part with its members; of one that stands twice the last counts, as most JSON readers have it.
pub(super) struct Part<'a> {
    /// As it was recorded.
    pub(super) raw: &'a str,
    members: HashMap<String, &'a RawValue>,
}

/// The parts of an item; what is no object is left out.
pub(super) fn parts(item: &Item) -> Vec<Part<'_>> {
    let all: Vec<&RawValue> = serde_json::from_str(item.body.parts.as_str()).unwrap_or_default();
    all.into_iter()
        .filter_map(|raw| {
            Some(Part {
                raw: raw.get(),
                members: serde_json::from_str(raw.get()).ok()?,
            })
        })
        .collect()
}

impl Part<'_> {
    /// A member that is a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let raw = self.members.get(name)?.get();
        let text = JsonText::from_raw(RawJson::from_checked(raw)).ok()?;
        Some(text.to_plain())
    }

    /// A member as it was recorded; `null` is none.
    pub(super) fn value(&self, name: &str) -> Option<RawJson> {
        let raw = self.members.get(name)?.get();
        (raw != "null").then(|| RawJson::from_checked(raw))
    }

    /// A member that is true or false.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.members.get(name)?.get().parse().ok()
    }

    /// Whether it is of this type.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.text("type").as_deref() == Some(kind)
    }

    /// What it says, in short.
    fn short(&self) -> String {
        let kind = self.text("type").unwrap_or_default();
        let told = |name: &str| {
            let raw = || self.value(name).map(|v| v.as_str().to_owned());
            self.text(name).or_else(raw)
        };
        let names: &[&str] = match kind.as_str() {
            "text" | "reasoning" => &["text"],
            "refusal" => &["refusal"],
            "tool_call" | "tool_call_partial" => &["name", "args"],
            "tool_result" => &["content"],
            "error" => &["code", "message"],
            _ => &["status", "filename", "name", "url", "reason"],
        };
        let told: Vec<String> = names.iter().filter_map(|name| told(name)).collect();
        let told = told.join(if kind == "error" { ": " } else { " " });
        match kind.as_str() {
            "text" | "refusal" | "tool_call" | "tool_result" | "error" => told,
            _ => format!("[{kind}] {told}").trim_end().to_owned(),
        }
    }
}

/// What an item says in at most [`TEXT_MAX`] characters, and whether it says more.
pub(super) fn short(item: &Item) -> (String, bool) {
    let told: Vec<String> = parts(item).iter().map(Part::short).collect();
    let told = told.join(" ");
    match told.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => (told[..at].to_owned(), true),
        None => (told, false),
    }
}
