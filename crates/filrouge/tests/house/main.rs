//! The house's rules about the repository itself (DESIGN §13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod circles;
mod design;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates from left to right; each may depend only on those in earlier rows, never on its own row.
const ROWS: &[&[&str]] = &[
    &[
        "filrouge-types",
        "filrouge-provider-rules",
        "filrouge-testbed",
    ],
    &["filrouge-store"],
    &["filrouge-sqlite", "filrouge-postgres", "filrouge-redis"],
    &["filrouge-engine", "filrouge-document"],
    &["filrouge-transcode", "filrouge-sources", "filrouge-http"],
    &["filrouge-search", "filrouge-openai"],
    &["filrouge-mcp"],
    &["filrouge-team", "filrouge-server"],
    &["filrouge"],
    &["filrouge-bench"],
    EXAMPLES,
];

/// Applications on the library: nothing needs them, and they need no more of filrouge than an application does.
const EXAMPLES: &[&str] = &["voice-agent"];
const FOR_APPLICATIONS: &[&str] = &[
    "filrouge-types",
    "filrouge-store",
    "filrouge-sqlite",
    "filrouge-postgres",
    "filrouge-engine",
];

/// The engine knows stores only by their port.
const FORBIDDEN: &[(&str, &str)] = &[
    ("filrouge-engine", "filrouge-sqlite"),
    ("filrouge-engine", "filrouge-postgres"),
    ("filrouge-engine", "filrouge-redis"),
    ("filrouge-http", "filrouge-sqlite"),
    ("filrouge-http", "filrouge-postgres"),
    ("filrouge-http", "filrouge-redis"),
    ("filrouge-openai", "filrouge-sqlite"),
    ("filrouge-openai", "filrouge-postgres"),
    ("filrouge-openai", "filrouge-redis"),
    ("filrouge-server", "filrouge-sqlite"),
    ("filrouge-server", "filrouge-postgres"),
    ("filrouge-server", "filrouge-redis"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Each workspace crate with what it needs to build, tests aside.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--locked",
        ])
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
    packages
        .iter()
        .map(|p| {
            let dependencies = p["dependencies"].as_array().unwrap();
            let needed = dependencies
                .iter()
                .filter(|d| d["kind"].is_null())
                .map(|d| d["name"].as_str().unwrap().to_owned())
                .collect();
            (p["name"].as_str().unwrap().to_owned(), needed)
        })
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let row = |name: &str| ROWS.iter().position(|r| r.contains(&name));
    for (name, needed) in arrows() {
        let own = row(&name).unwrap_or_else(|| panic!("{name} is in no row of DESIGN §13"));
        for other in needed.iter().filter(|n| n.starts_with("filrouge")) {
            assert!(
                row(other).is_some_and(|r| r < own),
                "{name} must not depend on {other}"
            );
            assert!(
                !FORBIDDEN.contains(&(name.as_str(), other.as_str())),
                "{name} must not know {other}"
            );
        }
    }
}

#[test]
fn examples_need_what_an_application_needs() {
    for (name, needed) in arrows() {
        let example = EXAMPLES.contains(&name.as_str());
        for other in &needed {
            assert!(
                !EXAMPLES.contains(&other.as_str()),
                "{name} must not depend on {other}"
            );
            assert!(
                !example
                    || !other.starts_with("filrouge")
                    || FOR_APPLICATIONS.contains(&other.as_str()),
                "{name} must not depend on {other}"
            );
        }
    }
}

/// Whether a library is needed by some of `allowed`, and by no other crate.
fn needed_by_these_alone(library: &str, allowed: &[&str]) {
    let who: Vec<String> = arrows()
        .into_iter()
        .filter(|(_, needed)| needed.contains(library))
        .map(|(name, _)| name)
        .collect();
    assert!(!who.is_empty(), "nothing needs {library}");
    assert!(
        who.iter().all(|name| allowed.contains(&name.as_str())),
        "{library} in {who:?}"
    );
}

#[test]
fn only_one_crate_links_sqlite() {
    needed_by_these_alone("rusqlite", &["filrouge-bench", "filrouge-sqlite"]);
}

#[test]
fn only_one_crate_knows_rmcp() {
    needed_by_these_alone("rmcp", &["filrouge-mcp"]);
}

/// The server knows no backend, but sources, which it serves, read other programs' databases: through one module, which
/// opens nothing of filrouge's own (ADR 0023).
#[test]
fn sources_read_foreign_databases_alone() {
    let mut found = Vec::new();
    let folder = root().join("crates/filrouge-sources/src");
    files(&folder, ".rs", &mut found);
    let mut used = 0;
    for path in found {
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

/// Wires, teams and sources call services and nothing below them.
#[test]
fn wires_ask_services_and_not_the_ledger() {
    const CALLERS: &[&str] = &[
        "http",
        "mcp",
        "openai",
        "server",
        "sources",
        "team",
        "transcode",
    ];
    // Webhooks are a feed of all tenants, whose place is a note of the store; `serve.rs` starts them.
    const FEEDS: &[&str] = &[
        "filrouge-server/src/webhooks",
        "filrouge-server/src/serve.rs",
    ];
    let mut found = Vec::new();
    for name in CALLERS {
        let folder = root().join(format!("crates/filrouge-{name}/src"));
        if folder.exists() {
            files(&folder, ".rs", &mut found);
        }
    }
    assert!(found.len() > 100);
    for path in found {
        let shown = path.display().to_string();
        if FEEDS.iter().any(|feed| shown.contains(feed)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for word in [
            ".ledger()",
            "shared_ledger",
            "dyn Ledger",
            "store::Ledger",
            "Scope::new",
        ] {
            assert!(!text.contains(word), "{shown} uses {word}");
        }
    }
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

#[test]
fn files_stay_small() {
    let mut found = Vec::new();
    files(&root().join("crates"), ".rs", &mut found);
    files(&root().join("examples"), ".rs", &mut found);
    assert!(found.len() > 30);
    for path in found {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 500, "{} has {lines} lines", path.display());
    }
}

#[test]
fn libraries_print_nothing_and_read_no_environment() {
    let mut found = Vec::new();
    let libraries = [
        "types",
        "store",
        "sqlite",
        "postgres",
        "redis",
        "engine",
        "transcode",
        "document",
        "sources",
        "mcp",
        "http",
        "openai",
        "server",
    ];
    for name in libraries {
        files(
            &root().join(format!("crates/filrouge-{name}/src")),
            ".rs",
            &mut found,
        );
    }
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in ["println!", "eprintln!", "env::var", "home_dir"] {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn the_documents_are_there_and_linked() {
    let root = root();
    let names = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/README.md",
        "docs/format.md",
        "docs/adr/README.md",
    ];
    for name in names {
        let text =
            std::fs::read_to_string(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let folder = root.join(name).parent().unwrap().to_owned();
        for target in text.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            let target = target.split('#').next().unwrap();
            if !target.is_empty() && !target.contains("://") {
                assert!(
                    folder.join(target).exists(),
                    "{name} points to {target}, which is not there"
                );
            }
        }
    }
}
