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
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("provider-rules", &[]),
    ("testbed", &[]),
    ("store", &["types"]),
    ("sqlite", &["store", "types"]),
    ("postgres", &["store", "types"]),
    ("redis", &["store", "types"]),
    ("opensearch", &["store", "types"]),
    ("engine", &["store", "types"]),
    ("document", &["types"]),
    ("transcode", &["engine", "store", "types"]),
    (
        "sources",
        &["document", "engine", "sqlite", "store", "types"],
    ),
    ("search", &["engine", "sources", "sqlite", "store", "types"]),
    ("http", &["document", "engine", "store", "types"]),
    ("openai", &["http", "types"]),
    (
        "pages",
        &[
            "document",
            "engine",
            "http",
            "search",
            "sources",
            "store",
            "transcode",
            "types",
        ],
    ),
    ("mcp", &["search", "sources", "store", "types"]),
    (
        "projections",
        &[
            "engine",
            "opensearch",
            "postgres",
            "sources",
            "sqlite",
            "store",
            "types",
        ],
    ),
    ("team", &["engine", "store", "types"]),
    (
        "server",
        &[
            "document",
            "engine",
            "http",
            "mcp",
            "openai",
            "pages",
            "projections",
            "search",
            "sources",
            "store",
            "transcode",
            "types",
        ],
    ),
    ("filrouge", ANY),
    ("python", &["filrouge"]),
    ("bench", ANY),
    (
        "voice-agent",
        &["engine", "postgres", "sqlite", "store", "types"],
    ),
];
/// Every library of the workspace.
const ANY: &[&str] = &["*"];

/// Libraries that only one crate of the program may depend on, and that crate.
const SINGLE_USER_LIBRARIES: &[(&str, &str)] = &[("rusqlite", "sqlite"), ("rmcp", "mcp")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A crate of the workspace. Its dependencies exclude those of tests.
struct Crate {
    /// Dependencies on crates of the workspace.
    dependencies: BTreeSet<String>,
    /// Dependencies on other crates.
    libraries: BTreeSet<String>,
    src: PathBuf,
}

/// Returns the name of a crate without the prefix `filrouge-`.
fn short_name(name: &serde_json::Value) -> String {
    let name = name.as_str().unwrap();
    name.strip_prefix("filrouge-").unwrap_or(name).to_owned()
}

/// Reads the crates of the workspace from `cargo metadata`.
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
    let parse = |p: &serde_json::Value| {
        let needed = p["dependencies"].as_array().unwrap().iter();
        let needed = needed.filter(|d| d["kind"].is_null());
        let (ours, others): (Vec<_>, Vec<_>) = needed.partition(|d| d["path"].is_string());
        let manifest = Path::new(p["manifest_path"].as_str().unwrap());
        Crate {
            dependencies: ours.iter().map(|d| short_name(&d["name"])).collect(),
            libraries: others.iter().map(|d| short_name(&d["name"])).collect(),
            src: manifest.with_file_name("src"),
        }
    };
    packages
        .iter()
        .map(|p| (short_name(&p["name"]), parse(p)))
        .collect()
}

/// Returns the crates of the program: `filrouge`, and all crates of the workspace that it depends on.
fn shipped() -> BTreeMap<String, Crate> {
    let mut all = crates();
    let mut found = BTreeMap::new();
    let mut next = vec!["filrouge".to_owned()];
    while let Some(name) = next.pop() {
        if let Some(krate) = all.remove(&name) {
            next.extend(krate.dependencies.iter().cloned());
            found.insert(name, krate);
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let all = crates();
    for (name, krate) in &all {
        let row = ALLOWED_DEPENDENCIES.iter().find(|(of, _)| of == name);
        let (_, allowed) =
            row.unwrap_or_else(|| panic!("{name} is in no row of ALLOWED_DEPENDENCIES"));
        for other in &krate.dependencies {
            let is_library = *allowed == ANY && all[other].src.join("lib.rs").exists();
            assert!(
                is_library || allowed.contains(&other.as_str()),
                "{name} must not depend on {other}"
            );
        }
    }
}

#[test]
fn some_libraries_are_used_by_only_one_crate() {
    let all = shipped();
    for (library, user) in SINGLE_USER_LIBRARIES {
        let users = all
            .iter()
            .filter(|(_, krate)| krate.libraries.contains(*library));
        let users: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
        assert_eq!(users, [*user], "the crates that use {library}");
    }
}

/// The server depends on no backend, except through `sources`. That crate reads other programs' databases with one
/// module of a backend, which opens no store of filrouge (ADR 0023).
#[test]
fn sources_use_only_the_module_for_foreign_databases() {
    let mut used = 0;
    for path in files(&shipped()["sources"].src) {
        let text = std::fs::read_to_string(&path).unwrap();
        for after in text.split("filrouge_sqlite").skip(1) {
            used += 1;
            assert!(
                after.starts_with("::foreign::"),
                "{} uses more of filrouge-sqlite than the module `foreign`",
                path.display()
            );
        }
    }
    assert!(used > 0, "sources do not use filrouge-sqlite");
}

/// Crates that depend on the engine call services and nothing below them, except the program, which connects all
/// crates.
#[test]
fn wires_call_services_and_not_the_ledger() {
    // Webhooks and projections read a feed of all tenants, and keep their position in a note of the store; `serve.rs`
    // starts webhooks. The feed of the search index reads commits, position and store id from the ledger.
    const EXCEPTIONS: &[&str] = &[
        "filrouge-server/src/webhooks",
        "filrouge-server/src/serve.rs",
        "filrouge-server/src/status.rs",
        "filrouge-search/src",
        "filrouge-projections/src",
    ];
    const LEDGER_ACCESS: &[&str] = &[
        ".ledger()",
        "shared_ledger",
        "dyn Ledger",
        "store::Ledger",
        "Scope::new",
    ];
    let all = shipped();
    let calls_services = |krate: &Crate| {
        ["engine", "http"]
            .iter()
            .any(|e| krate.dependencies.contains(*e))
    };
    let libraries = all.iter().filter(|(name, _)| *name != "filrouge");
    for (_, library) in libraries.filter(|(_, krate)| calls_services(krate)) {
        for path in files(&library.src) {
            let shown = path.display().to_string();
            if !EXCEPTIONS.iter().any(|part| shown.contains(part)) {
                assert_absent(&path, LEDGER_ACCESS);
            }
        }
    }
}

#[test]
fn libraries_print_nothing_and_read_no_environment() {
    for (_, library) in shipped().iter().filter(|(name, _)| *name != "filrouge") {
        for path in files(&library.src) {
            assert_absent(&path, &["println!", "eprintln!", "env::var", "home_dir"]);
        }
    }
}

/// Fails if the file contains one of the words.
fn assert_absent(path: &Path, words: &[&str]) {
    let text = std::fs::read_to_string(path).unwrap();
    for word in words {
        assert!(!text.contains(word), "{} uses {word}", path.display());
    }
}

/// Returns all Rust files in a folder and its subfolders; fails if there are none.
fn files(folder: &Path) -> Vec<PathBuf> {
    let found = files_with_extension(folder, &["rs"]);
    assert!(!found.is_empty(), "no Rust files in {}", folder.display());
    found
}

/// Returns all files in a folder and its subfolders that have one of these extensions.
fn files_with_extension(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    fn gather(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                gather(&path, extensions, found);
            } else if path
                .extension()
                .is_some_and(|own| extensions.iter().any(|extension| own == *extension))
            {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    gather(folder, extensions, &mut found);
    found
}

#[test]
fn files_stay_small() {
    for folder in ["crates", "examples"] {
        for path in files(&root().join(folder)) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(
                lines <= 500,
                "{} has {lines} lines, more than 500",
                path.display()
            );
        }
    }
}
