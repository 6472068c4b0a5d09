//! Reads which files a tool call or a session changed, and the numbers of changed lines. OpenCode's versions and tools
//! record them in different forms. The ledger keeps these forms, so imported sessions are read in the same way.

use crate::object::Object;
use crate::{Changes, Tool};

/// The changes in a session's summary: its numbers, or else the sum of its diffs.
pub(crate) fn session_changes(summary: &Object<'_>) -> Changes {
    let numbers = ["additions", "deletions", "files"].map(|key| summary.count(key));
    if numbers == [None; 3] {
        let diffs = summary.field("diffs").objects();
        return sum(&diffs.unwrap_or_default()).1;
    }
    let [additions, deletions, files] = numbers.map(Option::unwrap_or_default);
    Changes {
        additions,
        deletions,
        files,
    }
}

/// Adds to a call the files that it changed and the changes, as the metadata of its state reports them. The call's
/// input gives the lines of a file that the call created.
pub(crate) fn add_changes(tool: &mut Tool, metadata: &Object<'_>) {
    let diffs = diffs(metadata);
    let (mut files, mut changes) = match metadata.text("diff") {
        Some(patch) if diffs.is_empty() => read_patch(&patch),
        _ => sum(&diffs),
    };
    let path = metadata.text("filepath").filter(|_| files.is_empty());
    if let Some(path) = path {
        files.push(path.into());
        changes.files = 1;
    }
    if metadata.field("exists").json() == Some("false") && changes.additions == 0 {
        changes.additions = created_lines(&tool.input);
    }
    let has_lines = (changes.additions, changes.deletions) != (0, 0);
    tool.changes = (has_lines || !diffs.is_empty()).then_some(changes);
    tool.files = files;
}

/// The number of lines that a call wrote to a file.
fn created_lines(input: &str) -> u64 {
    let input = Object::parse(input).unwrap_or_default();
    let content = input.text("content").unwrap_or_default();
    content.lines().count() as u64
}

/// The diffs of a call: of one file, of several, or of several edits.
fn diffs<'a>(metadata: &Object<'a>) -> Vec<Object<'a>> {
    if let Some(diff) = metadata.field("filediff").object() {
        return vec![diff];
    }
    let list = |key| metadata.field(key).objects().unwrap_or_default();
    let edits = list("results").into_iter();
    let edits = edits.filter_map(|edit| edit.field("filediff").object());
    list("files").into_iter().chain(edits).collect()
}

/// The files of some diffs, each once, and the sum of the changes.
fn sum(diffs: &[Object<'_>]) -> (Vec<Box<str>>, Changes) {
    let mut changes = Changes::default();
    let mut paths: Vec<Box<str>> = Vec::new();
    for diff in diffs {
        let count = |key| diff.field(key).number().unwrap_or(0);
        changes.additions = changes.additions.saturating_add(count("additions"));
        changes.deletions = changes.deletions.saturating_add(count("deletions"));
        let path = diff.text("file").or_else(|| diff.text("filePath"));
        match path {
            Some(path) if paths.last().is_some_and(|last| **last == *path) => {}
            path => {
                changes.files += 1;
                paths.extend(path.map(Box::from));
            }
        }
    }
    (paths, changes)
}

/// The files and the changed lines of a patch in the unified format.
fn read_patch(patch: &str) -> (Vec<Box<str>>, Changes) {
    let (mut paths, mut changes): (Vec<Box<str>>, _) = (Vec::new(), Changes::default());
    let (mut in_hunk, mut old) = (false, "");
    for line in patch.lines() {
        match line.bytes().next() {
            Some(b'@') => in_hunk = true,
            Some(b'+') if in_hunk => changes.additions += 1,
            Some(b'-') if in_hunk => changes.deletions += 1,
            None | Some(b' ' | b'\\') => {}
            Some(_) => in_hunk = false,
        }
        // Some programs append a time to the path.
        let path_after = |mark: &'static str| {
            let path = line.strip_prefix(mark).filter(|_| !in_hunk);
            path.map(|path| path.split('\t').next().unwrap_or(path))
        };
        if let Some(path) = path_after("--- ") {
            old = path;
        } else if let Some(path) = path_after("+++ ") {
            let path = if path == "/dev/null" { old } else { path };
            paths.push(path.into());
            changes.files += 1;
        }
    }
    (paths, changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of additions, deletions and files.
    type Counts = Option<(u64, u64, u64)>;

    /// The counts and the files of a call with this input and metadata.
    fn changed(input: &str, metadata: &str) -> (Counts, Vec<Box<str>>) {
        let mut tool = Tool::call("c".into(), "write".into(), input.into());
        add_changes(&mut tool, &Object::parse(metadata).unwrap());
        let changes = tool.changes.map(|c| (c.additions, c.deletions, c.files));
        (changes, tool.files)
    }

    #[test]
    fn changes_are_read_in_every_form() {
        let created = r#"{"content":"one\ntwo\n"}"#;
        let patch = r"Index: /a\n===\n--- /a\n+++ /a\t2026\n@@ -1,2 +1,2 @@\n one\n-two\n+++ 2\nIndex: /b\n--- /b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        let patched = format!(r#"{{"diff":"{patch}"}}"#);
        let cases: [(&str, &str, Counts, &[&str]); 7] = [
            (
                created,
                r#"{"filepath":"/a","exists":false}"#,
                Some((2, 0, 1)),
                &["/a"],
            ),
            // The lines that were there before are unknown.
            (created, r#"{"filepath":"/a","exists":true}"#, None, &["/a"]),
            (
                "{}",
                r#"{"filediff":{"file":"/a","additions":3,"deletions":1}}"#,
                Some((3, 1, 1)),
                &["/a"],
            ),
            (
                "{}",
                r#"{"files":[{"filePath":"/a","additions":1},{"filePath":"/b","deletions":2}]}"#,
                Some((1, 2, 2)),
                &["/a", "/b"],
            ),
            (
                "{}",
                r#"{"results":[{"filediff":{"file":"/a","additions":1}},{"filediff":{"file":"/a","deletions":1}}]}"#,
                Some((1, 1, 1)),
                &["/a"],
            ),
            ("{}", &patched, Some((1, 2, 2)), &["/a", "/b"]),
            ("{}", r#"{"filediff":"x"}"#, None, &[]),
        ];
        for (input, metadata, changes, files) in cases {
            let (found, paths) = changed(input, metadata);
            let paths: Vec<&str> = paths.iter().map(|path| &**path).collect();
            assert_eq!((found, &paths[..]), (changes, files), "{metadata}");
        }
    }

    #[test]
    fn a_summary_without_numbers_is_the_sum_of_its_diffs() {
        let changes = |summary: &str| {
            let changes = session_changes(&Object::parse(summary).unwrap());
            (changes.additions, changes.deletions, changes.files)
        };
        let diffs =
            r#""diffs":[{"file":"/a","additions":1,"deletions":2},{"file":"/b","additions":3}]"#;
        assert_eq!(changes(&format!("{{{diffs}}}")), (4, 2, 2));
        assert_eq!(changes(&format!(r#"{{"additions":9,{diffs}}}"#)), (9, 0, 0));
        assert_eq!(changes("{}"), (0, 0, 0));
    }
}
