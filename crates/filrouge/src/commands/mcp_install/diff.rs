//! Shows a change as a diff: removed and added lines, with three lines of context.

use std::path::Path;

use diffy::{DiffOptions, PatchFormatter};

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// The change of a file as a unified diff.
pub(super) fn unified(path: &Path, old: &str, new: &str) -> String {
    let path = path.display().to_string();
    let patch = DiffOptions::new()
        .set_context_len(CONTEXT_LINES)
        .set_original_filename(path.clone())
        .set_modified_filename(path)
        .create_patch(old, new);
    PatchFormatter::new()
        .missing_newline_message(false)
        .fmt_patch(&patch)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_added_lines_are_shown_with_context() {
        let old = "a\nb\nc\nd\ne\n";
        let new = "a\nb\nc\nd,\nx\ne\n";
        let shown = unified(Path::new("f"), old, new);
        assert_eq!(
            shown,
            "--- f\n+++ f\n@@ -1,5 +1,6 @@\n a\n b\n c\n-d\n+d,\n+x\n e\n"
        );
        let new_file = unified(Path::new("f"), "", "x\n");
        assert_eq!(new_file, "--- f\n+++ f\n@@ -0,0 +1 @@\n+x\n");
    }
}
