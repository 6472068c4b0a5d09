//! What `docs/history-contract.md` says is proved: every test that it names is in the sources.

use std::path::{Path, PathBuf};

use crate::page::{Page, root};

/// The rows of all tables that tell what proves a rule.
fn rules(text: &str) -> Vec<[String; 3]> {
    let mut told = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match cells[..] {
            ["rule", "proved by", "done by"] => inside = true,
            [rule, tests, code] if inside => {
                told.push([rule, tests, code].map(str::to_owned));
            }
            _ => inside = inside && line.starts_with("|--"),
        }
    }
    told
}

/// The file of the innermost module that has one, and what is left of the path.
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

/// Whether `crate::module::name` is a function of a test.
fn is_there(name: &str) -> bool {
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
fn what_proves_the_contract_is_there() {
    let page = Page::read("docs/history-contract.md");
    let rules = rules(page.text());
    assert!(rules.len() > 50, "{} rules", rules.len());
    let mut missing = Vec::new();
    for [rule, tests, code] in &rules {
        let names: Vec<&str> = tests
            .split(", ")
            .map(|name| name.trim_matches('`'))
            .collect();
        assert!(
            !rule.is_empty() && !code.is_empty(),
            "{rule}: {tests}: {code}"
        );
        missing.extend(names.into_iter().filter(|name| !is_there(name)));
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    assert!(is_there(
        "filrouge::docs::contract::a_test_that_is_not_there_is_missed"
    ));
    for name in [
        "filrouge::docs::contract::another_one",
        "filrouge::docs::absent::a_test_that_is_not_there_is_missed",
        "filrouge::docs::contract::inner::a_test_that_is_not_there_is_missed",
        "absent::docs::contract::a_test_that_is_not_there_is_missed",
        "a_test_that_is_not_there_is_missed",
    ] {
        assert!(!is_there(name), "{name}");
    }
}
