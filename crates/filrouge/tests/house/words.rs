//! Checks that only one module contains the words of one application. All other code passes them on as one value
//! (DESIGN §3).

use super::{files_with_extension, root};

/// The module that contains them. `examples.json` of the OpenAPI document, which is not checked, contains them too,
/// because it shows real answers.
const MODULE: &str = "filrouge-types/src/application.rs";

/// The application's fields and values, and the flags of texts that were copied from the other language.
const WORDS: &[&str] = &[
    "translate_chat",
    "pipeline_name",
    "consultant",
    "repository",
    "question_neutral_is_fallback",
    "answer_neutral_is_fallback",
];

/// Returns a file without comments and unit tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn words_of_one_application_are_in_one_module() {
    let mut seen = 0;
    for path in files_with_extension(&root().join("crates"), &["rs", "sql"]) {
        let shown = path.display().to_string();
        let is_shipped = shown.contains("/src/")
            && ![
                "/tests",
                "/contract/",
                "/forged/",
                "/suite/",
                "filrouge-bench",
            ]
            .iter()
            .any(|part| shown.contains(part));
        if !is_shipped {
            continue;
        }
        let code = code(&std::fs::read_to_string(&path).unwrap());
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        for word in words.filter(|word| WORDS.contains(word)) {
            assert!(shown.ends_with(MODULE), "{shown} names {word}");
            seen += 1;
        }
    }
    assert!(
        seen >= WORDS.len(),
        "{MODULE} contains too few of the words"
    );
}
