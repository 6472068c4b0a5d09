//! Reads the output of a tool call, and whether the call failed.
//!
//! A call failed if a field says so (`status`, `exit_code` or `success` of an event, `success` or `metadata.exit_code`
//! of an output); if the header that Codex writes before a command's output shows an exit code other than 0; or if
//! Codex refused the call as unknown. The text of the error is the complete output.

use std::borrow::Cow;

use crate::object::Object;
use crate::raw::Raw;
use crate::{Changes, Tool, ToolStatus};

/// Prefixes of the outputs that Codex writes for calls it refused.
const REFUSAL_PREFIXES: [&str; 2] = ["unsupported call: ", "unsupported custom tool call: "];

/// Prefixes of the line with the exit code, in the header before a command's output.
const EXIT_CODE_PREFIXES: [&str; 2] = ["Process exited with code ", "Exit code: "];

/// The maximum number of lines in that header.
const HEADER_LINES_MAX: usize = 6;

/// Returns the text of an output, and whether it is an error.
pub(super) fn read_output(output: Raw<'_>) -> (Box<str>, bool) {
    if let Some(text) = output.text() {
        return read_early_output(&text).unwrap_or_else(|| {
            let failed = reports_failure(&text);
            (text.into(), failed)
        });
    }
    if let Some(pieces) = output.objects() {
        return (join_texts(&pieces).into(), false);
    }
    let wrapped = output.object().unwrap_or_default();
    let failed = wrapped.get("success") == Some("false");
    let inner = wrapped.text("content").map(Box::<str>::from);
    let pieces = || Some(join_texts(&wrapped.field("content").objects()?).into());
    let as_json = || output.json().unwrap_or_default().into();
    (inner.or_else(pieces).unwrap_or_else(as_json), failed)
}

/// Reads the output of early versions, a text of the form `{"output": "...", "metadata": {"exit_code": 0}}`. Returns
/// `None` for another text.
fn read_early_output(text: &str) -> Option<(Box<str>, bool)> {
    if !text.starts_with('{') {
        return None;
    }
    let wrapped = Object::parse(text).ok()?;
    let metadata: Object<'_> = wrapped.field("metadata").object()?;
    let failed = metadata.get("exit_code").is_some_and(|code| code != "0");
    Some((wrapped.text("output")?.into(), failed))
}

fn reports_failure(text: &str) -> bool {
    if REFUSAL_PREFIXES.iter().any(|begin| text.starts_with(begin)) {
        return true;
    }
    let mut header = text
        .lines()
        .take(HEADER_LINES_MAX)
        .take_while(|line| *line != "Output:");
    header.any(|line| {
        let code = EXIT_CODE_PREFIXES
            .iter()
            .find_map(|begin| line.strip_prefix(begin));
        code.is_some_and(|code| code.trim().parse::<i64>().is_ok_and(|code| code != 0))
    })
}

/// Joins the texts of pieces. A piece without text becomes its kind in brackets.
pub(super) fn join_texts(pieces: &[Object<'_>]) -> String {
    let text = |piece: &Object<'_>| match piece.text("text") {
        Some(text) => text.into_owned(),
        None => format!("[{}]", piece.text("type").unwrap_or_default()),
    };
    pieces.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

/// Stores an output in its call, and sets the call's status.
pub(super) fn set_output(tool: &mut Tool, text: Box<str>, failed: bool) {
    if &*tool.name == "spawn_agent" {
        let spawned = Object::parse(&text).unwrap_or_default();
        let child = spawned.boxed("agent_id");
        let child = child.or_else(|| spawned.boxed("thread_id"));
        tool.child = child.or_else(|| tool.child.take());
    }
    if failed {
        (tool.status, tool.error) = (ToolStatus::Error, Some(text));
        (tool.changes, tool.files) = (None, Vec::new());
        return;
    }
    (tool.status, tool.output) = (ToolStatus::Completed, Some(text));
    if &*tool.name == "apply_patch" {
        let input: Option<Cow<'_, str>> = serde_json::from_str(&tool.input).ok();
        if let Some((changes, files)) = input.and_then(|patch| changes_of(&patch)) {
            (tool.changes, tool.files) = (Some(changes), files);
        }
    }
}

/// Returns the changes in a patch of Codex's own format, and the changed files; `None` if it names no file.
fn changes_of(patch: &str) -> Option<(Changes, Vec<Box<str>>)> {
    let mut changes = Changes::default();
    let mut files: Vec<Box<str>> = Vec::new();
    for line in patch.lines() {
        if let Some(rest) = line.strip_prefix("*** ") {
            let file = rest.split_once(" File: ").map(|(_, file)| file.trim());
            files.extend(file.map(Box::from));
        } else if line.starts_with('+') {
            changes.additions += 1;
        } else if line.starts_with('-') {
            changes.deletions += 1;
        }
    }
    changes.files = files.len() as u64;
    (!files.is_empty()).then_some((changes, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(json: &str) -> (Box<str>, bool) {
        read_output(Raw::new(Some(json)))
    }

    #[test]
    fn nonzero_exit_codes_and_refusals_are_errors() {
        let is_error = |text: &str| read_json(&serde_json::Value::from(text).to_string()).1;
        assert!(is_error(
            "Chunk ID: 07daa4\nWall time: 0.0 seconds\nProcess exited with code 7\nOutput:\n"
        ));
        assert!(!is_error(
            "Chunk ID: 07daa4\nProcess exited with code 0\nOutput:\nExit code: 1\n"
        ));
        assert!(is_error("Exit code: 1\nWall time: 0 seconds\nOutput:\nx"));
        assert!(is_error("unsupported call: update_plan"));
        assert!(!is_error("an unsupported call: x"));
        let early = serde_json::Value::from(r#"{"output":"x\n","metadata":{"exit_code":2}}"#);
        assert_eq!(read_json(&early.to_string()), ("x\n".into(), true));
        let early = serde_json::Value::from(r#"{"output":"x","metadata":{"exit_code":0}}"#);
        assert_eq!(read_json(&early.to_string()), ("x".into(), false));
        assert_eq!(
            read_json(r#"{"content":"no","success":false}"#),
            ("no".into(), true)
        );
        let pieces = r#"[{"type":"input_text","text":"a"},{"type":"input_image"}]"#;
        assert_eq!(read_json(pieces), ("a\n\n[input_image]".into(), false));
    }

    #[test]
    fn the_changes_in_a_patch_are_counted() {
        let patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n+z\n*** Add File: b\n+n\n*** End Patch\n";
        let (changes, files) = changes_of(patch).unwrap();
        assert_eq!(
            (changes.additions, changes.deletions, changes.files),
            (3, 1, 2)
        );
        assert_eq!(files, ["a.py".into(), "b".into()] as [Box<str>; 2]);
    }
}
