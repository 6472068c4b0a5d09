//! Checks that replaced phrases do not return: `phrases.tsv` names the replacement of each.

use std::fs;

use super::{files_of, root};

/// Not checked: genuine texts; descriptions of the stored format, which will be rewritten separately; released
/// migrations; and this file.
const OUT: &[&str] = &[
    "/fixtures/",
    "/golden/",
    "/migrations/",
    "docs/format.md",
    "docs/capacity.md",
    "adr/0002",
    "adr/0003",
    "adr/0018",
    "house/phrases.rs",
];

/// Each phrase in lower case, and its replacement.
fn phrases() -> Vec<(&'static str, &'static str)> {
    let table = include_str!("phrases.tsv").lines().skip(1);
    let rows = table.filter(|line| !line.is_empty());
    rows.map(|line| line.split_once('\t').expect("phrase, tab, advice"))
        .collect()
}

/// Finds phrases in a text: line number, and advice. A phrase must start and end at word boundaries.
fn found(text: &str, phrases: &[(&'static str, &'static str)]) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, instead) in phrases {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let is_whole = |at: usize| {
                let (before, after) = (&line[..at], &line[at + phrase.len()..]);
                !is_word(before.chars().next_back()) && !is_word(after.chars().next())
            };
            if line.match_indices(phrase).any(|(at, _)| is_whole(at)) {
                all.push((number + 1, format!("\"{phrase}\": write {instead}")));
            }
        }
    }
    all
}

#[test]
fn mended_phrases_do_not_come_back() {
    let (phrases, root) = (phrases(), root());
    let mut wrong = Vec::new();
    let mut read = 0;
    for folder in ["crates", "docs", "examples", "scripts", ".ci"] {
        for path in files_of(&root.join(folder), &["rs", "md", "sql", "sh", "py"]) {
            let shown = path.strip_prefix(&root).unwrap().display().to_string();
            if OUT.iter().any(|out| shown.contains(out)) {
                continue;
            }
            read += 1;
            for (line, what) in found(&fs::read_to_string(&path).unwrap(), &phrases) {
                wrong.push(format!("{shown}:{line}: {what}"));
            }
        }
    }
    assert!(read > 500, "{read} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_phrase_is_found_as_whole_words() {
    let phrases = [("of nobody", "anonymous")];
    let text = "An item\n// Active, Of Nobody.\nproof nobody, of nobodys";
    let expected = [(2, "\"of nobody\": write anonymous".to_owned())];
    assert_eq!(found(text, &phrases), expected);
}
