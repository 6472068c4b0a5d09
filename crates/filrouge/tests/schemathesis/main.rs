//! The built server against schemathesis: valid and invalid requests from `/openapi.json`, alone and in chains, by two
//! users who must not see each other's sessions. README.md describes the checks, their exceptions, and longer runs.
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

/// The configuration of users with their keys: (name, role).
fn users(world: &World, users: &[(&str, &str)]) -> Value {
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

fn setting(name: &str) -> Option<String> {
    std::env::var(format!("FILROUGE_SCHEMATHESIS_{name}")).ok()
}

/// Runs schemathesis on a fresh server; it must find nothing.
fn run(who: &[(&str, &str)], config: &str, only: &[&str]) {
    let python = python::environment(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis"))
        .unwrap_or_else(|error| panic!("{error}"));
    let world = World::new();
    let place = world.path("schemathesis");
    fs::create_dir(&place).unwrap();
    let seed = setting("SEED");
    let config = match seed {
        Some(_) => config.replace("deterministic = true", "deterministic = false"),
        None => config.to_owned(),
    };
    fs::write(place.join("schemathesis.toml"), config).unwrap();
    fs::write(place.join("hooks.py"), HOOKS).unwrap();
    fs::write(place.join("users.json"), users(&world, who).to_string()).unwrap();
    let server = world.serve();
    let mut command = Command::new(&python);
    command
        .args(["-m", "schemathesis.cli", "--no-color"])
        .args(["--config-file", "schemathesis.toml", "run"])
        .arg(format!("{}/openapi.json", server.origin()))
        .env("FILROUGE_ORIGIN", server.origin())
        .current_dir(&place)
        .env("PYTHONPATH", &place)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    for (flag, given) in [
        (
            "--max-examples",
            setting("EXAMPLES").or(Some("4".to_owned())),
        ),
        ("--seed", seed),
        ("--max-time", setting("SECONDS")),
    ] {
        if let Some(value) = given {
            command.args([flag, &value]);
        }
    }
    // The body of this operation is a provider's bytes, which no schema describes (README.md).
    command.args(["--exclude-operation-id", "recordStream"]);
    for operation in only {
        command.args(["--include-operation-id", operation]);
    }
    let done = command.output().expect("run schemathesis");
    let reported = String::from_utf8_lossy(&done.stdout);
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "schemathesis: {}\n{reported}\n{error}",
        done.status
    );
    eprintln!("{reported}");
    server.stop();
    world.verify();
}

#[test]
fn two_users_find_no_fault() {
    run(&[("ada", "user"), ("bob", "user")], CONFIG, &[]);
}

/// Operations over all identities are not for users.
#[test]
fn an_auditor_finds_no_fault() {
    let alone = CONFIG.replace("peers = [\"ada\", \"bob\"]\n", "");
    assert_ne!(alone, CONFIG);
    run(
        &[("eve", "auditor")],
        &alone,
        &[
            "listChanges",
            "getMetrics",
            "listTurns",
            "listTurnsOfIdentity",
        ],
    );
}
