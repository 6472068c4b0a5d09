//! A change as it is shown: the lines that go and come, with three around them.

use std::fmt::Write;
use std::path::Path;

/// Lines shown around a change.
const AROUND: usize = 3;

/// What becomes of a file, in the form of a unified diff of one place: entries are put in at one place alone.
pub(super) fn diff(path: &Path, old: &str, new: &str) -> String {
    let before: Vec<&str> = old.lines().collect();
    let after: Vec<&str> = new.lines().collect();
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = before.iter().zip(&after).take_while(same).count();
    let room = before.len().min(after.len()) - head;
    let ends = before.iter().rev().zip(after.iter().rev());
    let tail = ends.take(room).take_while(same).count();
    let gone = before.get(head..before.len() - tail).unwrap_or_default();
    let come = after.get(head..after.len() - tail).unwrap_or_default();
    let above = before
        .get(head.saturating_sub(AROUND)..head)
        .unwrap_or_default();
    let below = before
        .iter()
        .skip(before.len() - tail)
        .take(AROUND)
        .copied();
    let below: Vec<&str> = below.collect();

    let mut text = format!("--- {0}\n+++ {0}\n", path.display());
    let first = head - above.len();
    let around = above.len() + below.len();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "@@ -{},{} +{},{} @@",
        first + usize::from(!before.is_empty()),
        around + gone.len(),
        first + 1,
        around + come.len()
    );
    let marked = [
        (" ", above),
        ("-", gone),
        ("+", come),
        (" ", below.as_slice()),
    ];
    for (mark, lines) in marked {
        for line in lines {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
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
            "--- f\n+++ f\n@@ -2,5 +2,6 @@\n a\n b\n c\n-d\n+d,\n+x\n e\n"
                .replace("@@ -2,5 +2,6 @@", "@@ -1,5 +1,6 @@")
        );
        let made = diff(Path::new("f"), "", "x\n");
        assert_eq!(made, "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\n");
    }
}
