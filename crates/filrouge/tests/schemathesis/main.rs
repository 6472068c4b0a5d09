//! Runs schemathesis against the built server. It makes valid and invalid requests from `/openapi.json`, singly and in
//! chains, as two users who must not see each other's sessions. README.md describes the checks, their exceptions, and
//! longer runs.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests fail by panicking, and print what failed"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

mod python;

#[path = "../e2e/http.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests")]
mod http;
#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests")]
mod world;

use world::World;

const CONFIG: &str = include_str!("schemathesis.toml");
const HOOKS: &str = include_str!("hooks.py");

/// Creates API keys for users, given as (name, role); returns schemathesis's configuration of them.
fn create_users(world: &World, users: &[(&str, &str)]) -> Value {
    let user = |(name, role): &(&str, &str)| {
        let mut arguments = vec!["keys", "create", "--role", role];
        if *role == "user" {
            arguments.extend(["--identity", name]);
        }
        let key = world.json(&arguments);
        let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
        json!({ "name": name, "fixedHeaders": [{ "name": "Authorization", "value": bearer }] })
    };
    json!({ "auth": users.iter().map(user).collect::<Vec<_>>() })
}

/// Returns the variable `FILROUGE_SCHEMATHESIS_` with this suffix, if it is set.
fn setting(name: &str) -> Option<String> {
    std::env::var(format!("FILROUGE_SCHEMATHESIS_{name}")).ok()
}

/// Runs schemathesis on a new server with these users, which must find no fault. `operations` are the ids of the
/// operations that it calls; all if empty.
fn run(users: &[(&str, &str)], config: &str, operations: &[&str]) {
    let python = python::environment(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis"))
        .unwrap_or_else(|error| panic!("{error}"));
    let world = World::new();
    let folder = world.path("schemathesis");
    fs::create_dir(&folder).unwrap();
    let seed = setting("SEED");
    let config = match seed {
        Some(_) => config.replace("deterministic = true", "deterministic = false"),
        None => config.to_owned(),
    };
    fs::write(folder.join("schemathesis.toml"), config).unwrap();
    fs::write(folder.join("hooks.py"), HOOKS).unwrap();
    fs::write(
        folder.join("users.json"),
        create_users(&world, users).to_string(),
    )
    .unwrap();
    let server = world.serve();
    let mut command = Command::new(&python);
    command
        .args(["-m", "schemathesis.cli", "--no-color"])
        .args(["--config-file", "schemathesis.toml", "run"])
        .arg(format!("{}/openapi.json", server.origin()))
        .env("FILROUGE_ORIGIN", server.origin())
        .current_dir(&folder)
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    for (flag, value) in [
        (
            "--max-examples",
            setting("EXAMPLES").or(Some("4".to_owned())),
        ),
        ("--seed", seed),
        ("--max-time", setting("SECONDS")),
    ] {
        if let Some(value) = value {
            command.args([flag, &value]);
        }
    }
    // The body of this operation is a provider's bytes, which no schema describes (README.md).
    command.args(["--exclude-operation-id", "recordStream"]);
    for operation in operations {
        command.args(["--include-operation-id", operation]);
    }
    let output = command.output().expect("run schemathesis");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "schemathesis: {}\n{stdout}\n{stderr}",
        output.status
    );
    eprintln!("{stdout}");
    server.stop();
    world.verify();
}

#[test]
fn schemathesis_finds_no_fault_as_two_users() {
    run(&[("ada", "user"), ("bob", "user")], CONFIG, &[]);
}

/// Calls the operations over all identities, which users may not call.
#[test]
fn schemathesis_finds_no_fault_as_an_auditor() {
    let without_peers = CONFIG.replace("peers = [\"ada\", \"bob\"]\n", "");
    assert_ne!(without_peers, CONFIG, "the configuration lists no peers");
    run(
        &[("eve", "auditor")],
        &without_peers,
        &[
            "listChanges",
            "getMetrics",
            "listTurns",
            "listTurnsOfIdentity",
        ],
    );
}
