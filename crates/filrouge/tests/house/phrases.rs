//! Checks that banned phrases do not occur. `phrases.tsv` lists them with their replacements.

use std::fs;

use super::{files_with_extension, root};

/// Parts of paths that are not checked: genuine texts, released migrations, descriptions of the stored format, and this
/// file.
const EXCLUDED: &[&str] = &[
    "/fixtures/",
    "/golden/",
    "/migrations/",
    "adr/0002",
    "adr/0003",
    "adr/0018",
    "house/phrases.rs",
];

/// Returns each phrase, in lower case, and its replacement.
fn phrases() -> Vec<(&'static str, &'static str)> {
    let table = include_str!("phrases.tsv").lines().skip(1);
    let rows = table.filter(|line| !line.is_empty());
    rows.map(|line| line.split_once('\t').expect("a row has two columns"))
        .collect()
}

/// Finds phrases in a text; returns line numbers and advice. A phrase must start and end at word boundaries.
fn find(text: &str, phrases: &[(&'static str, &'static str)]) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, replacement) in phrases {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let is_whole = |at: usize| {
                let (before, after) = (&line[..at], &line[at + phrase.len()..]);
                !is_word(before.chars().next_back()) && !is_word(after.chars().next())
            };
            if line.match_indices(phrase).any(|(at, _)| is_whole(at)) {
                findings.push((number + 1, format!("\"{phrase}\": write {replacement}")));
            }
        }
    }
    findings
}

#[test]
fn banned_phrases_do_not_occur() {
    let (phrases, root) = (phrases(), root());
    let mut violations = Vec::new();
    let mut file_count = 0;
    for folder in ["crates", "docs", "examples", "scripts", ".ci"] {
        for path in files_with_extension(&root.join(folder), &["rs", "md", "sql", "sh", "py"]) {
            let shown = path.strip_prefix(&root).unwrap().display().to_string();
            if EXCLUDED.iter().any(|part| shown.contains(part)) {
                continue;
            }
            file_count += 1;
            for (line, advice) in find(&fs::read_to_string(&path).unwrap(), &phrases) {
                violations.push(format!("{shown}:{line}: {advice}"));
            }
        }
    }
    assert!(file_count > 500, "only {file_count} files were read");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn only_complete_words_match_a_phrase() {
    let phrases = [("of nobody", "anonymous")];
    let text = "An item\n// Active, Of Nobody.\nproof nobody, of nobodys";
    let expected = [(2, "\"of nobody\": write anonymous".to_owned())];
    assert_eq!(find(text, &phrases), expected);
}
