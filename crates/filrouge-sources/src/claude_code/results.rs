//! What a tool gave: its text, what it changed, and the agent it has started.

use crate::Changes;
use crate::object::Object;
use crate::raw::Raw;

/// The agent that was started, as its file is named; `told` is `toolUseResult` of a record.
pub(super) fn agent_of(told: &Object<'_>) -> Option<Box<str>> {
    let id = told.boxed("agentId")?;
    Some(format!("agent-{id}").into())
}

/// What a file tool changed, and the file.
pub(super) fn changes_of(told: &Object<'_>) -> Option<(Changes, Box<str>)> {
    let file = told.boxed("filePath")?;
    let hunks = told.at("structuredPatch").objects()?;
    let mut changes = Changes {
        files: 1,
        ..Changes::default()
    };
    for hunk in &hunks {
        for line in hunk.at("lines").list().unwrap_or_default() {
            match line.text().as_deref().and_then(|text| text.chars().next()) {
                Some('+') => changes.additions += 1,
                Some('-') => changes.deletions += 1,
                _ => {}
            }
        }
    }
    if hunks.is_empty() && told.text("type").as_deref() == Some("create") {
        let lines = told.text("content").map_or(0, |text| text.lines().count());
        changes.additions = lines as u64;
    }
    Some((changes, file))
}

/// The text of a result's content: a string, or blocks. What is no text is named by its kind.
pub(super) fn text_of(content: Raw<'_>) -> Box<str> {
    if let Some(text) = content.text() {
        return text.into();
    }
    let blocks = match content.objects() {
        Some(blocks) => blocks,
        None => return content.json().unwrap_or_default().into(),
    };
    let mut whole = String::new();
    for block in blocks {
        if !whole.is_empty() {
            whole.push('\n');
        }
        match block.text("text") {
            Some(text) => whole.push_str(&text),
            None => {
                let kind = block.text("type").unwrap_or_default();
                whole.push_str(&format!("[{kind}]"));
            }
        }
    }
    whole.into()
}
