//! The words of one application are in one module, and all other code carries them as one value (DESIGN §3).

use super::{files_of, root};

/// The module that contains them. Otherwise only `examples.json` of the OpenAPI document contains them, since it shows
/// real answers.
const HOME: &str = "filrouge-types/src/application.rs";

/// The words, and the flags of texts that were copied from the other language.
const WORDS: &[&str] = &[
    "translate_chat",
    "pipeline_name",
    "consultant",
    "repository",
    "question_neutral_is_fallback",
    "answer_neutral_is_fallback",
];

/// The product code of a file: without comments and unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn words_of_one_application_are_in_one_module() {
    let mut seen = 0;
    for path in files_of(&root().join("crates"), &["rs", "sql"]) {
        let shown = path.display().to_string();
        let ships = shown.contains("/src/")
            && ![
                "/tests",
                "/contract/",
                "/forged/",
                "/suite/",
                "filrouge-bench",
            ]
            .iter()
            .any(|test| shown.contains(test));
        if !ships {
            continue;
        }
        let code = code(&std::fs::read_to_string(&path).unwrap());
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| WORDS.contains(word)) {
            assert!(shown.ends_with(HOME), "{shown} names {word}");
            seen += 1;
        }
    }
    assert!(seen >= WORDS.len());
}
