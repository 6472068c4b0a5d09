//! Checks that every test that `docs/history-contract.md` names exists in the sources.

use std::path::{Path, PathBuf};

use crate::page::{Page, root};

/// Returns the rows of all tables of rules: the rule, its tests, and its code.
fn rules(text: &str) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match cells[..] {
            ["rule", "tests", "code"] => in_table = true,
            [rule, tests, code] if in_table => {
                rows.push([rule, tests, code].map(str::to_owned));
            }
            _ => in_table = in_table && line.starts_with("|--"),
        }
    }
    rows
}

/// Returns the file of the longest prefix of the path that has a file, and the remaining modules, which are inline in
/// that file.
fn file_of<'a>(base: &Path, path: &'a [&'a str]) -> Option<(PathBuf, &'a [&'a str])> {
    for len in (1..=path.len()).rev() {
        let module = base.join(path[..len].join("/"));
        let files = [
            module.with_extension("rs"),
            module.join("mod.rs"),
            module.join("main.rs"),
        ];
        if let Some(file) = files.into_iter().find(|file| file.is_file()) {
            return Some((file, &path[len..]));
        }
    }
    None
}

/// Returns whether a file of the crate contains the function of the path `crate::module::name`.
fn test_exists(name: &str) -> bool {
    let path: Vec<&str> = name.split("::").collect();
    let [krate, modules @ .., function] = &path[..] else {
        return false;
    };
    let krate = root().join("crates").join(krate.replace('_', "-"));
    let found = ["src", "tests"].map(|folder| file_of(&krate.join(folder), modules));
    found.into_iter().flatten().any(|(file, inner)| {
        let text = std::fs::read_to_string(file).unwrap();
        let has_module = |module: &&str| text.contains(&format!("mod {module} {{"));
        inner.iter().all(has_module) && text.contains(&format!("fn {function}("))
    })
}

#[test]
fn tests_of_the_contract_exist() {
    let page = Page::read("docs/history-contract.md");
    let rules = rules(page.text());
    assert!(rules.len() > 50, "only {} rules found", rules.len());
    let mut missing = Vec::new();
    for [rule, tests, code] in &rules {
        let names: Vec<&str> = tests
            .split(", ")
            .map(|name| name.trim_matches('`'))
            .collect();
        assert!(
            !rule.is_empty() && !code.is_empty(),
            "a cell is empty: {rule} | {tests} | {code}"
        );
        missing.extend(names.into_iter().filter(|name| !test_exists(name)));
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn a_missing_test_is_detected() {
    assert!(test_exists(
        "filrouge::docs::contract::a_missing_test_is_detected"
    ));
    for name in [
        "filrouge::docs::contract::another_one",
        "filrouge::docs::absent::a_missing_test_is_detected",
        "filrouge::docs::contract::inner::a_missing_test_is_detected",
        "absent::docs::contract::a_missing_test_is_detected",
        "a_missing_test_is_detected",
    ] {
        assert!(!test_exists(name), "{name}");
    }
}
