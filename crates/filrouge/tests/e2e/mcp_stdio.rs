//! `filrouge mcp` over standard input and output: each message is a line of JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, copy_tree, finish, fixture};

/// The session of `opencode-json` that was compacted.
pub(crate) const COMPACTED: &str = "ses_41fc9dacbffe";
/// A session that started another one.
const PARENT: &str = "ses_44e90f601ffe";

/// An MCP client that starts a server and is connected to it by pipes.
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Agent {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            last_id: 0,
        }
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn read_message(&mut self) -> Value {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).unwrap();
        assert!(read > 0, "the server has ended");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Calls a method; returns the response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write_line(&request.to_string());
        let response = self.read_message();
        assert_eq!(response["id"], id, "{response}");
        response
    }

    /// Initializes the connection with this protocol version; returns the server's response.
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let response = self.request("initialize", params);
        self.write_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        response["result"].clone()
    }

    /// Calls a tool; returns its structured result.
    pub(crate) fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let response = self.request(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        );
        let result = &response["result"];
        assert_eq!(result["isError"], false, "{name} {arguments}: {response}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Recorded data from "), "{text}");
        result["structuredContent"].clone()
    }

    /// Closes the input; the server must end without an error and without further output.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_line(&mut rest).unwrap();
        assert_eq!(rest, "");
        let output = self.child.wait_with_output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {reported}", output.status);
        assert_eq!(reported, "");
    }
}

/// A world with OpenCode's files, and the value of `--source` that names them.
pub(crate) fn with_history() -> (World, String) {
    let world = World::new();
    let path = world.path("history");
    copy_tree(&fixture("opencode-json"), &path);
    let source = format!("opencode:{}", path.display());
    (world, source)
}

/// The full id of the session whose id has this prefix.
pub(crate) fn session_id(agent: &mut Agent, prefix: &str) -> String {
    let found = agent.tool("list_sessions", json!({ "maxChars": 100_000 }));
    let mut ids = found["sessions"].as_array().unwrap().iter();
    let id = ids.find_map(|s| s["id"].as_str().filter(|id| id.starts_with(prefix)));
    id.unwrap().to_owned()
}

/// Reads all files of a folder.
fn read_tree(path: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => read_tree(&path, found),
            false => {
                found.insert(path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
}

#[test]
fn a_history_is_served_over_a_pipe() {
    let (world, source) = with_history();
    let mut before = BTreeMap::new();
    read_tree(&world.path("history"), &mut before);
    for version in ["2025-11-25", "2025-06-18"] {
        let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
        let initialized = agent.initialize(version);
        assert_eq!(initialized["protocolVersion"], version);
        let found = agent.tool("list_sessions", json!({}));
        assert_eq!(found["total"], 14, "{found}");
        let compacted = session_id(&mut agent, COMPACTED);
        let context = agent.tool("get_compacted_context", json!({ "sessionID": compacted }));
        assert!(context["totalMessages"].as_u64().unwrap() > 0, "{context}");
        assert_eq!(context["compactions"][0]["automatic"], true);
        let parent = session_id(&mut agent, PARENT);
        let lineage = agent.tool("get_session_lineage", json!({ "sessionID": parent }));
        assert!(
            lineage["childSessions"][0]["callID"].is_string(),
            "{lineage}"
        );
        let stats = agent.tool("get_session_stats", json!({ "sessionID": parent }));
        assert!(stats["messageCount"].as_u64().unwrap() > 2);
        let hits = agent.tool("search_sessions", json!({ "query": "page d'accueil" }));
        assert!(hits["totalSessions"].as_u64().unwrap() > 0, "{hits}");
        for format in ["md", "html", "json"] {
            let arguments = json!({ "sessionID": parent, "format": format });
            let page = agent.tool("export_session", arguments);
            assert!(page["content"].as_str().unwrap().len() > 500);
        }
        let pages = agent.request("resources/list", json!({}));
        assert_eq!(pages["result"]["resources"].as_array().unwrap().len(), 14);
        agent.end();
    }
    let mut after = BTreeMap::new();
    read_tree(&world.path("history"), &mut after);
    assert!(before == after, "the server changed the history");
    assert!(world.is_empty());
}

#[test]
fn garbage_and_a_missing_handshake_are_tolerated() {
    let (world, source) = with_history();
    let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
    for garbage in ["hello?", "{\"jsonrpc\": \"2.0\""] {
        agent.write_line(garbage);
        assert_eq!(agent.read_message()["error"]["code"], -32700);
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = agent.request("server/discover", json!({ "_meta": meta }));
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")));
    let call = json!({ "name": "list_sessions", "arguments": {}, "_meta": meta });
    let found = agent.request("tools/call", call);
    assert_eq!(found["result"]["structuredContent"]["total"], 14);
    agent.end();
}

#[test]
fn a_session_written_while_the_server_runs_is_found() {
    let (world, source) = with_history();
    let sessions = world.path("history/storage/session");
    let mut files = BTreeMap::new();
    read_tree(&sessions, &mut files);
    let (path, bytes) = files
        .into_iter()
        .find(|(path, _)| path.contains(PARENT))
        .unwrap();
    fs::remove_file(&path).unwrap();
    let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
    agent.initialize("2025-11-25");
    assert_eq!(agent.tool("list_sessions", json!({}))["total"], 13);
    fs::write(&path, bytes).unwrap();
    crate::caller::within_five_seconds("the session is listed", || {
        agent.tool("list_sessions", json!({}))["total"] == 14
    });
    agent.end();
}

#[test]
fn the_environment_names_the_callers_session() {
    let (world, source) = with_history();
    let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
    agent.initialize("2025-11-25");
    let own = session_id(&mut agent, COMPACTED);
    let without_session = json!({ "name": "get_compacted_context", "arguments": {} });
    let refused = agent.request("tools/call", without_session);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    agent.end();
    let mut command = world.command(&["mcp", "--source", &source]);
    command.env("FILROUGE_SESSION_ID", &own);
    let mut agent = Agent::start(command);
    agent.initialize("2025-11-25");
    let found = agent.tool("get_compacted_context", json!({}));
    assert_eq!(found["session"]["id"], own.as_str());
    agent.end();
}

/// The same tools serve the ledger's sessions; without `--source`, they query every history that exists.
#[test]
fn the_ledger_is_served_as_a_history() {
    let (world, source) = with_history();
    let path = source.strip_prefix("opencode:").unwrap().to_owned();
    world.ok(&["import", "opencode", &path]);
    let mut ledger = Agent::start(world.command(&["mcp", "--source", "ledger"]));
    ledger.initialize("2025-11-25");
    let mut both = Agent::start(world.command(&["mcp"]));
    both.initialize("2025-11-25");
    let mut files = Agent::start(world.command(&["mcp", "--source", &source]));
    files.initialize("2025-11-25");
    let found = ledger.tool("list_sessions", json!({ "source": "ledger" }));
    assert!(found["total"].as_u64().unwrap() >= 13, "{found}");
    assert_eq!(
        both.tool("list_sessions", json!({}))["total"],
        found["total"]
    );
    let query = json!({ "query": "\"page d'accueil\"" });
    let hits = ledger.tool("search_sessions", query.clone());
    let expected = files.tool("search_sessions", query);
    let ids = |hits: &Value| -> Vec<String> {
        let hits = hits["sessions"].as_array().unwrap().iter();
        let mut ids: Vec<_> = hits.map(|hit| hit["id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert!(!ids(&hits).is_empty());
    assert_eq!(ids(&hits), ids(&expected));
    // An import keeps what a session has beside its messages.
    let parent = session_id(&mut files, PARENT);
    let history = json!({ "sessionID": parent });
    let expected = files.tool("get_session_history", history.clone());
    assert_eq!(expected["todos"].as_array().unwrap().len(), 4, "{expected}");
    let recorded = ledger.tool("get_session_history", history);
    assert_eq!(recorded["todos"], expected["todos"]);
    for agent in [ledger, both, files] {
        agent.end();
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let world = World::new();
    for (arguments, expected) in [
        (&["mcp", "--source", "opencode:/nowhere"][..], "hint:"),
        (&["mcp", "--listen", "0.0.0.0:0"], "filrouge serve"),
        (&["mcp", "--listen", "192.0.2.1:80"], "filrouge serve"),
        (&["serve", "--source", "ledger"], "served anyway"),
        (&["mcp", "--source", "vim"], "claude-code"),
    ] {
        let command_output = finish(world.command(arguments), "mcp");
        assert_eq!(
            command_output.code,
            Some(2),
            "{arguments:?}: {command_output:?}"
        );
        assert!(
            command_output.stdout.is_empty() && command_output.stderr.contains(expected),
            "{command_output:?}"
        );
    }
}
