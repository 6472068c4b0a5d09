//! Rules about the repository itself (DESIGN §13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cycles;
mod design;
mod phrases;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of the workspace, and the crates that each may depend on (ADR 0030). The other rules find crates with
/// `cargo metadata`.
const MAY_NEED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("provider-rules", &[]),
    ("testbed", &[]),
    ("store", &["types"]),
    ("sqlite", &["store", "types"]),
    ("postgres", &["store", "types"]),
    ("redis", &["store", "types"]),
    ("engine", &["store", "types"]),
    ("document", &["types"]),
    ("transcode", &["engine", "store", "types"]),
    (
        "sources",
        &["document", "engine", "sqlite", "store", "types"],
    ),
    ("search", &["engine", "sources", "sqlite", "store", "types"]),
    ("http", &["engine", "store", "types"]),
    ("openai", &["http", "types"]),
    ("mcp", &["search", "sources", "types"]),
    ("team", &["engine", "store", "types"]),
    (
        "server",
        &[
            "document",
            "engine",
            "http",
            "mcp",
            "openai",
            "search",
            "sources",
            "store",
            "transcode",
            "types",
        ],
    ),
    ("filrouge", ANY),
    ("bench", ANY),
    (
        "voice-agent",
        &["engine", "postgres", "sqlite", "store", "types"],
    ),
];
/// Every library of the workspace.
const ANY: &[&str] = &["*"];

/// Libraries that only one crate of the program may depend on.
const HOMES: &[(&str, &str)] = &[("rusqlite", "sqlite"), ("rmcp", "mcp")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A crate of the workspace: its dependencies on crates of the workspace and on others, without those of tests, and its
/// source folder.
struct Crate {
    needs: BTreeSet<String>,
    libraries: BTreeSet<String>,
    src: PathBuf,
}

/// The name of a crate without the prefix `filrouge-`.
fn short(name: &serde_json::Value) -> String {
    let name = name.as_str().unwrap();
    name.strip_prefix("filrouge-").unwrap_or(name).to_owned()
}

fn crates() -> BTreeMap<String, Crate> {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .args(["--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let read = |p: &serde_json::Value| {
        let needed = p["dependencies"].as_array().unwrap().iter();
        let needed = needed.filter(|d| d["kind"].is_null());
        let (ours, others): (Vec<_>, Vec<_>) = needed.partition(|d| d["path"].is_string());
        let manifest = Path::new(p["manifest_path"].as_str().unwrap());
        Crate {
            needs: ours.iter().map(|d| short(&d["name"])).collect(),
            libraries: others.iter().map(|d| short(&d["name"])).collect(),
            src: manifest.with_file_name("src"),
        }
    };
    packages
        .iter()
        .map(|p| (short(&p["name"]), read(p)))
        .collect()
}

/// The crates of the program: `filrouge`, and all crates of the workspace that it depends on.
fn shipped() -> BTreeMap<String, Crate> {
    let mut all = crates();
    let mut found = BTreeMap::new();
    let mut next = vec!["filrouge".to_owned()];
    while let Some(name) = next.pop() {
        if let Some(one) = all.remove(&name) {
            next.extend(one.needs.iter().cloned());
            found.insert(name, one);
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let all = crates();
    for (name, one) in &all {
        let row = MAY_NEED.iter().find(|(of, _)| of == name);
        let (_, may) = row.unwrap_or_else(|| panic!("{name} is in no row of MAY_NEED"));
        for other in &one.needs {
            let is_library = *may == ANY && all[other].src.join("lib.rs").exists();
            assert!(
                is_library || may.contains(&other.as_str()),
                "{name} must not need {other}"
            );
        }
    }
}

#[test]
fn some_libraries_are_known_to_one_crate_alone() {
    let all = shipped();
    for (library, home) in HOMES {
        let who = all
            .iter()
            .filter(|(_, one)| one.libraries.contains(*library));
        let who: Vec<&str> = who.map(|(name, _)| name.as_str()).collect();
        assert_eq!(who, [*home], "{library}");
    }
}

/// The server depends on no backend. Sources, which it serves, read other programs' databases through one module, which
/// opens no store of filrouge (ADR 0023).
#[test]
fn sources_read_foreign_databases_alone() {
    let mut used = 0;
    for path in files(&shipped()["sources"].src) {
        let text = std::fs::read_to_string(&path).unwrap();
        for after in text.split("filrouge_sqlite").skip(1) {
            used += 1;
            assert!(
                after.starts_with("::foreign::"),
                "{} needs more of filrouge-sqlite than `foreign`",
                path.display()
            );
        }
    }
    assert!(used > 0);
}

/// Crates that depend on the engine call services and nothing below them, except the program, which connects all
/// crates.
#[test]
fn wires_ask_services_and_not_the_ledger() {
    // Webhooks read a feed of all tenants, and keep their position in a note of the store; `serve.rs` starts them. The
    // feed of the search index reads commits, position and store id from the ledger.
    const FEEDS: &[&str] = &[
        "filrouge-server/src/webhooks",
        "filrouge-server/src/serve.rs",
        "filrouge-search/src",
    ];
    const BELOW: &[&str] = &[
        ".ledger()",
        "shared_ledger",
        "dyn Ledger",
        "store::Ledger",
        "Scope::new",
    ];
    let all = shipped();
    let asks = |one: &Crate| ["engine", "http"].iter().any(|e| one.needs.contains(*e));
    let callers = all.iter().filter(|(name, _)| *name != "filrouge");
    for (_, caller) in callers.filter(|(_, one)| asks(one)) {
        for path in files(&caller.src) {
            let shown = path.display().to_string();
            if !FEEDS.iter().any(|feed| shown.contains(feed)) {
                refuse(&path, BELOW);
            }
        }
    }
}

#[test]
fn libraries_print_nothing_and_read_no_environment() {
    for (_, library) in shipped().iter().filter(|(name, _)| *name != "filrouge") {
        for path in files(&library.src) {
            refuse(&path, &["println!", "eprintln!", "env::var", "home_dir"]);
        }
    }
}

/// Fails if the file contains one of the words.
fn refuse(path: &Path, words: &[&str]) {
    let text = std::fs::read_to_string(path).unwrap();
    for word in words {
        assert!(!text.contains(word), "{} uses {word}", path.display());
    }
}

/// All Rust files in a folder; fails if it has none.
fn files(folder: &Path) -> Vec<PathBuf> {
    let found = files_of(folder, &["rs"]);
    assert!(!found.is_empty(), "{}", folder.display());
    found
}

/// All files in a folder that have one of these extensions.
fn files_of(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    fn gather(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                gather(&path, endings, found);
            } else if path
                .extension()
                .is_some_and(|own| endings.iter().any(|ending| own == *ending))
            {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    gather(folder, endings, &mut found);
    found
}

#[test]
fn files_stay_small() {
    for folder in ["crates", "examples"] {
        for path in files(&root().join(folder)) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 500, "{} has {lines} lines", path.display());
        }
    }
}
