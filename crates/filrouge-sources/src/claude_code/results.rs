//! Reads the results of tool calls: the text, the changes to a file, and the agent that was started.

use crate::Changes;
use crate::object::Object;
use crate::raw::Raw;

/// Returns the agent that a call started, as the name of the agent's file without its extension. `tool_result` is the
/// `toolUseResult` of a record.
pub(super) fn agent_of(tool_result: &Object<'_>) -> Option<Box<str>> {
    let id = tool_result.boxed("agentId")?;
    Some(format!("agent-{id}").into())
}

/// Returns the changes that a tool made to a file, and the file; `None` for other tools.
pub(super) fn changes_of(tool_result: &Object<'_>) -> Option<(Changes, Box<str>)> {
    let file = tool_result.boxed("filePath")?;
    let hunks = tool_result.field("structuredPatch").objects()?;
    let mut changes = Changes {
        files: 1,
        ..Changes::default()
    };
    for hunk in &hunks {
        for line in hunk.field("lines").list().unwrap_or_default() {
            match line.text().as_deref().and_then(|text| text.chars().next()) {
                Some('+') => changes.additions += 1,
                Some('-') => changes.deletions += 1,
                _ => {}
            }
        }
    }
    if hunks.is_empty() && tool_result.text("type").as_deref() == Some("create") {
        let lines = tool_result
            .text("content")
            .map_or(0, |text| text.lines().count());
        changes.additions = lines as u64;
    }
    Some((changes, file))
}

/// Returns the text of a result's content, which is a string or blocks. A block without text becomes its kind in
/// brackets.
pub(super) fn text_of(content: Raw<'_>) -> Box<str> {
    if let Some(text) = content.text() {
        return text.into();
    }
    let Some(blocks) = content.objects() else {
        return content.json().unwrap_or_default().into();
    };
    let mut joined = String::new();
    for block in blocks {
        if !joined.is_empty() {
            joined.push('\n');
        }
        match block.text("text") {
            Some(text) => joined.push_str(&text),
            None => {
                let kind = block.text("type").unwrap_or_default();
                joined.push_str(&format!("[{kind}]"));
            }
        }
    }
    joined.into()
}
