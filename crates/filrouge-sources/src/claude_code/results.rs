//! What a tool gave: its text, what it changed, and the agent it has started.

use serde::Deserialize;

use super::record::Block;
use crate::Changes;
use crate::jsonl::Raw;

/// `toolUseResult` of a record, as far as it is read; its fields differ from tool to tool.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Result<'a> {
    #[serde(borrow)]
    agent_id: Raw<'a>,
    #[serde(borrow)]
    file_path: Raw<'a>,
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    structured_patch: Raw<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hunk<'a> {
    #[serde(borrow)]
    lines: Raw<'a>,
}

impl Result<'_> {
    /// The agent that was started, as its file is named.
    pub(super) fn agent(&self) -> Option<Box<str>> {
        let id = self.agent_id.boxed()?;
        Some(format!("agent-{id}").into())
    }

    /// What a file tool changed, and the file.
    pub(super) fn changes(&self) -> Option<(Changes, Box<str>)> {
        let file = self.file_path.boxed()?;
        let hunks: Vec<Hunk<'_>> = self.structured_patch.read()?;
        let mut changes = Changes {
            files: 1,
            ..Changes::default()
        };
        for hunk in &hunks {
            for line in hunk.lines.read::<Vec<Raw<'_>>>().unwrap_or_default() {
                match line.text().as_deref().and_then(|text| text.chars().next()) {
                    Some('+') => changes.additions += 1,
                    Some('-') => changes.deletions += 1,
                    _ => {}
                }
            }
        }
        if hunks.is_empty() && self.kind.text().as_deref() == Some("create") {
            let lines = self.content.text().map_or(0, |text| text.lines().count());
            changes.additions = lines as u64;
        }
        Some((changes, file))
    }
}

/// The text of a result's content: a string, or blocks. What is no text is named by its kind.
pub(super) fn text_of(content: Raw<'_>) -> Box<str> {
    if let Some(text) = content.text() {
        return text.into();
    }
    let blocks: Vec<Block<'_>> = match content.read() {
        Some(blocks) => blocks,
        None => return content.json().unwrap_or_default().into(),
    };
    let mut whole = String::new();
    for block in blocks {
        if !whole.is_empty() {
            whole.push('\n');
        }
        match block.text.text() {
            Some(text) => whole.push_str(&text),
            None => {
                let kind = block.kind.text().unwrap_or_default();
                whole.push_str(&format!("[{kind}]"));
            }
        }
    }
    whole.into()
}
