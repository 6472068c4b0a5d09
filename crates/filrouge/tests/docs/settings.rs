//! Compares the tables of settings and of limits with the program.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::page::Page;
use crate::table::rows;

/// A setting's value, and its origin (a variable or a file).
type ValueAndOrigin = (String, String);

/// Returns the settings that `config show` prints with these variables set, by name.
fn config_show(home: &str, variables: &[(String, String)]) -> BTreeMap<String, ValueAndOrigin> {
    let output = Command::new(env!("CARGO_BIN_EXE_filrouge"))
        .args(["config", "show", "--json"])
        .env_clear()
        .env("HOME", home)
        .envs(variables.iter().cloned())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let settings = report["settings"].as_object().unwrap();
    settings
        .iter()
        .map(|(name, s)| (name.clone(), (text(&s["value"]), text(&s["origin"]))))
        .collect()
}

/// Returns the settings without their origins.
fn values(settings: &BTreeMap<String, ValueAndOrigin>) -> BTreeMap<&str, &str> {
    let pairs = settings.iter();
    pairs.map(|(n, (v, _))| (n.as_str(), v.as_str())).collect()
}

#[test]
fn the_table_of_settings_matches_the_program() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().to_str().unwrap();
    let page = Page::read("docs/settings.md");
    let mut documented: BTreeMap<String, ValueAndOrigin> = BTreeMap::new();
    let mut variables = Vec::new();
    for row in rows(page.text(), "All settings") {
        let [name, variable, default, meaning] = &row[..] else {
            panic!("a row without four cells: {row:?}");
        };
        assert!(!meaning.is_empty(), "{name} has no meaning");
        let value = default.replace('~', home);
        // The variable gets the default. A setting without one, or that accepts only certain values, gets one of these.
        let set = match (name.as_str(), value.as_str()) {
            ("store_direct", _) => "postgres://host/database",
            ("search.embedder.kind", _) => "minilm",
            ("access.allowed_origins", _) => "https://app.example.org",
            (_, "none") => "1",
            (_, value) => value,
        };
        variables.push((variable.clone(), set.to_owned()));
        documented.insert(name.clone(), (value, variable.clone()));
    }
    let defaults = config_show(home, &[]);
    assert_eq!(
        values(&documented),
        values(&defaults),
        "names or defaults differ"
    );
    for (name, (_, origin)) in config_show(home, &variables) {
        assert_eq!(
            origin, documented[&name].1,
            "the variable of {name} differs"
        );
    }
}

#[test]
fn the_table_of_limits_matches_the_program() {
    let home = tempfile::tempdir().unwrap();
    let mut actual = config_show(home.path().to_str().unwrap(), &[]);
    actual.retain(|name, _| name.starts_with("limits."));
    let page = Page::read("docs/limits.md");
    let documented: BTreeMap<String, ValueAndOrigin> = rows(page.text(), "What can be set")
        .into_iter()
        .map(|row| (row[0].clone(), (row[1].clone(), String::new())))
        .collect();
    assert_eq!(values(&documented), values(&actual));
}
