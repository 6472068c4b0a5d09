//! Checks that every test that a page names exists in the sources.

use std::path::{Path, PathBuf};

use crate::page::{Page, root};

/// The pages with tables of tests, and the least number of rows in these tables.
const PAGES: [(&str, usize); 3] = [
    ("SECURITY.md", 40),
    ("docs/history-contract.md", 60),
    ("docs/limits.md", 10),
];

/// Returns the rows of all tables that have a column `tests`: the cells, and the index of this column.
fn rows(text: &str) -> Vec<(Vec<&str>, usize)> {
    let mut rows = Vec::new();
    let mut column = None;
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        match column {
            _ if !line.starts_with('|') => column = None,
            None => column = cells.iter().position(|cell| *cell == "tests"),
            Some(_) if line.starts_with("|--") => {}
            Some(column) => rows.push((cells, column)),
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
fn named_tests_exist() {
    let mut missing = Vec::new();
    for (name, least) in PAGES {
        let page = Page::read(name);
        let rows = rows(page.text());
        assert!(rows.len() >= least, "{name} has only {} rows", rows.len());
        for (cells, column) in rows {
            let is_complete = cells.iter().all(|cell| !cell.is_empty());
            assert!(is_complete, "{name}: a cell is empty: {cells:?}");
            let names = cells[column].split(", ").map(|name| name.trim_matches('`'));
            let absent = names.filter(|test| !test_exists(test));
            missing.extend(absent.map(|test| format!("{name}: {test}")));
        }
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn rows_of_tables_with_tests_are_found() {
    let text = "| a | b |\n|---|---|\n| x | y |\n\n\
                | a | tests |\n|---|---|\n| x | `t::u`, `v` |\n| y | |\n\n| z | w |\n";
    let expected = [(vec!["x", "`t::u`, `v`"], 1), (vec!["y", ""], 1)];
    assert_eq!(rows(text), expected);
}

#[test]
fn a_missing_test_is_detected() {
    assert!(test_exists(
        "filrouge::docs::named_tests::a_missing_test_is_detected"
    ));
    for name in [
        "filrouge::docs::named_tests::another_one",
        "filrouge::docs::absent::a_missing_test_is_detected",
        "filrouge::docs::named_tests::inner::a_missing_test_is_detected",
        "absent::docs::named_tests::a_missing_test_is_detected",
        "a_missing_test_is_detected",
    ] {
        assert!(!test_exists(name), "{name}");
    }
}
