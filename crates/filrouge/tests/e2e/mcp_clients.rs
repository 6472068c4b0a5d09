//! Third-party clients: the inspector, the conformance suite, and the official Python clients of both protocol
//! generations.
//!
//! They are installed once from npm and PyPI into the build folder. If these are unreachable, the test checks nothing
//! and reports this in `not-tested`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::mcp_stdio::with_history;
use crate::not_tested::or_report_untested;
use crate::world::{Server, World};

mod installed;

use installed::Installed;

/// The script that runs an official Python client.
const PYTHON_CLIENT: &str = include_str!("mcp_clients/official.py");

/// Every tool with the arguments of a call; `ID` is a session.
const CALLS: [(&str, &[&str]); 8] = [
    ("list_sessions", &["limit=3"]),
    ("search_sessions", &["query=key", "limit=3"]),
    ("find_similar_turns", &["question=which key", "limit=3"]),
    ("get_session_history", &["sessionID=ID"]),
    ("get_compacted_context", &["sessionID=ID"]),
    ("get_session_lineage", &["sessionID=ID"]),
    ("get_session_stats", &["sessionID=ID"]),
    ("export_session", &["sessionID=ID", "format=md"]),
];

/// The scenarios of the conformance suite that apply to every server; the others need tools written for the suite.
const SCENARIOS: [&str; 9] = [
    "server-initialize",
    "ping",
    "logging-set-level",
    "completion-complete",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
];

/// Runs a client, which must succeed; returns its output.
fn client_output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{reported}",
        output.status
    );
    out
}

fn json(command: &mut Command) -> Value {
    let out = client_output(command);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{command:?}: {e}\n{out}"))
}

/// What clients need to start a server or to reach the running one.
struct ServerAccess<'a> {
    world: &'a World,
    source: &'a str,
    server: &'a Server,
}

impl ServerAccess<'_> {
    /// Runs the inspector over stdio or HTTP; `era` is its name of a protocol generation.
    fn inspect(&self, installed: &Installed, stdio: bool, era: &str, rest: &[&str]) -> Value {
        let mut command = installed.inspector();
        command
            .args(["--protocol-era", era, "--format", "json", "-q"])
            .args(rest);
        if stdio {
            let home = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];
            let isolated = self.world.command(&[]);
            for (name, value) in isolated.get_envs() {
                if let (Some(name), Some(value)) = (name.to_str(), value)
                    && home.contains(&name)
                {
                    command
                        .arg("-e")
                        .arg(format!("{name}={}", value.to_str().unwrap()));
                }
            }
            command.arg("--").arg(env!("CARGO_BIN_EXE_filrouge"));
            command.args(["mcp", "--source", self.source]);
        } else {
            command.args(["--server-url", self.server.origin(), "--transport", "http"]);
        }
        json(&mut command)
    }

    fn check_inspector(&self, installed: &Installed) {
        for (stdio, era) in [
            (true, "legacy"),
            (true, "modern"),
            (false, "legacy"),
            (false, "modern"),
        ] {
            // With --strict, the inspector fails if a schema has a problem.
            let listed = self.inspect(
                installed,
                stdio,
                era,
                &["--method", "tools/list", "--strict"],
            );
            let tools = listed["result"]["tools"].as_array().unwrap();
            assert_eq!(tools.len(), CALLS.len(), "{listed}");
        }
        let listed = ["--method", "tools/call", "--tool-name", "list_sessions"];
        let found = self.inspect(installed, false, "legacy", &listed);
        let id = found["result"]["structuredContent"]["sessions"][0]["id"]
            .as_str()
            .unwrap();
        for (number, (tool, arguments)) in CALLS.iter().enumerate() {
            let arguments = arguments
                .iter()
                .map(|argument| argument.replace("ID=ID", &format!("ID={id}")));
            let arguments: Vec<String> = arguments.collect();
            let mut rest = vec!["--method", "tools/call", "--tool-name", tool];
            rest.extend(
                arguments
                    .iter()
                    .flat_map(|argument| ["--tool-arg", argument]),
            );
            for stdio in [true, false] {
                let era = ["legacy", "modern"][number % 2];
                let called = self.inspect(installed, stdio, era, &rest);
                let result = &called["result"];
                assert_ne!(result["isError"], true, "{tool}: {called}");
                assert!(
                    result["structuredContent"]["provenance"].is_string(),
                    "{called}"
                );
            }
        }
    }

    fn check_conformance(&self, installed: &Installed) {
        for scenario in SCENARIOS {
            let mut command = installed.conformance();
            let url = self.server.origin();
            let out = client_output(command.args(["server", "--url", url, "--scenario", scenario]));
            assert!(out.contains("0 failed"), "{scenario}: {out}");
        }
    }

    fn check_python_clients(&self, installed: &Installed) {
        let script = self.world.path("official.py");
        fs::write(&script, PYTHON_CLIENT).unwrap();
        for (name, version) in [("newest", "2026-07-28"), ("older", "2025-11-25")] {
            let isolated = self.world.command(&[]);
            let python = || {
                let mut command = Command::new(installed.python(name));
                for (variable, value) in isolated.get_envs() {
                    match value {
                        Some(value) => command.env(variable, value),
                        None => command.env_remove(variable),
                    };
                }
                command.arg(&script).arg(name);
                command
            };
            let mut over_http = python();
            over_http.args(["http", self.server.origin()]);
            let mut over_stdio = python();
            over_stdio.args(["stdio", env!("CARGO_BIN_EXE_filrouge"), "mcp"]);
            over_stdio.args(["--source", self.source]);
            for command in [&mut over_http, &mut over_stdio] {
                let found = json(command);
                assert_eq!(found["version"], version, "{found}");
                assert_eq!(found["sessions"], 14, "{found}");
                assert_eq!(found["tools"].as_array().unwrap().len(), CALLS.len());
            }
        }
    }
}

/// Runs `check` with a server and the clients, if the clients can be installed.
fn with_clients(check: fn(&ServerAccess<'_>, &Installed)) {
    let subject = "filrouge mcp with @modelcontextprotocol/inspector, @modelcontextprotocol/conformance and the \
                   official Python clients";
    let Some(installed) =
        or_report_untested("mcp_clients", subject, Installed::install_if_missing())
    else {
        return;
    };
    let (world, source) = with_history();
    let server = world.start_mcp(&["--source", &source]);
    let access = ServerAccess {
        world: &world,
        source: &source,
        server: &server,
    };
    check(&access, &installed);
    server.stop();
}

#[test]
fn the_official_python_clients_of_both_generations_work() {
    with_clients(|access, installed| access.check_python_clients(installed));
}

#[test]
fn the_conformance_suite_passes() {
    with_clients(|access, installed| access.check_conformance(installed));
}

#[test]
fn the_inspector_lists_and_calls_every_tool() {
    with_clients(|access, installed| access.check_inspector(installed));
}
