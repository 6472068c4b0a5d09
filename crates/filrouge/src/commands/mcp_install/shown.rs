//! A change as it is shown: the lines that go and come, with three around them.

use std::path::Path;

use diffy::{DiffOptions, PatchFormatter};

/// Lines shown around a change.
const AROUND: usize = 3;

/// What becomes of a file, as a unified diff.
pub(super) fn diff(path: &Path, old: &str, new: &str) -> String {
    let path = path.display().to_string();
    let patch = DiffOptions::new()
        .set_context_len(AROUND)
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
    fn what_goes_and_comes_is_shown_with_lines_around() {
        let old = "a\nb\nc\nd\ne\n";
        let new = "a\nb\nc\nd,\nx\ne\n";
        let shown = diff(Path::new("f"), old, new);
        assert_eq!(
            shown,
            "--- f\n+++ f\n@@ -1,5 +1,6 @@\n a\n b\n c\n-d\n+d,\n+x\n e\n"
        );
        let made = diff(Path::new("f"), "", "x\n");
        assert_eq!(made, "--- f\n+++ f\n@@ -0,0 +1 @@\n+x\n");
    }
}
