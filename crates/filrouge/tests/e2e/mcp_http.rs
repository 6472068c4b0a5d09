//! MCP over HTTP: `/mcp` of a server for its users, and `filrouge mcp --listen` for one person on one machine.

use serde_json::{Value, json};

use crate::caller::key;
use crate::http::{Client, Response};
use crate::mcp_stdio::with_history;
use crate::world::{Server, World};

/// An MCP client that sends the same headers with every message.
pub(crate) struct Agent {
    client: Client,
    headers: String,
}

impl Agent {
    pub(crate) fn new(server: &Server, key: Option<&str>) -> Self {
        let bearer = key.map(|key| format!("authorization: Bearer {key}\r\n"));
        Self {
            client: Client::new(server.origin().trim_end_matches("/mcp")),
            headers: bearer.unwrap_or_default(),
        }
    }

    /// Sends a message with additional headers.
    fn send(&self, headers: &str, message: &Value) -> Response {
        let body = message.to_string();
        let host = match headers.contains("host:") {
            true => "",
            false => "host: localhost\r\n",
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\n{host}connection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {}\r\n{}{headers}\r\n{body}",
            body.len(),
            self.headers,
        );
        self.client.send_bytes(request.as_bytes())
    }

    /// Calls a method with the protocol of 2025-11-25; returns the response.
    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = self.send("mcp-protocol-version: 2025-11-25\r\n", &message);
        response.is(200)
    }

    /// Calls a tool with the protocol of 2025-11-25; returns its structured result.
    pub(crate) fn tool(&self, name: &str, arguments: Value) -> Value {
        let response = self.request(
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        );
        let result = &response["result"];
        assert_eq!(result["isError"], false, "{name}: {response}");
        result["structuredContent"].clone()
    }

    /// Like [`Agent::tool`], with the protocol of 2026-07-28.
    fn newest(&self, name: &str, arguments: Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        } });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let headers = format!(
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n"
        );
        let response = self.send(&headers, &message).is(200);
        assert_eq!(response["result"]["resultType"], "complete", "{response}");
        response["result"]["structuredContent"].clone()
    }

    /// The ids of the sessions that the agent can list.
    fn sessions(&self) -> Vec<String> {
        let found = self.tool("list_sessions", json!({}));
        let rows = found["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Initializes a connection with this protocol version; returns the server's response.
fn initialize(agent: &Agent, version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let initialized = agent.send("", &message).is(200);
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let headers = format!("mcp-protocol-version: {version}\r\n");
    assert_eq!(agent.send(&headers, &notice).status, 202);
    initialized["result"].clone()
}

fn record(client: &Client, session: &str, words: &str) {
    let body = json!({ "request_id": "r", "question_neutral": words, "answer_neutral": "Noted." });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

#[test]
fn clients_of_every_protocol_version_are_answered() {
    let world = World::new();
    let server = world.serve();
    record(&server.client(), "hers", "What is the word?");
    let agent = Agent::new(&server, None);
    for version in ["2025-11-25", "2025-06-18"] {
        let initialized = initialize(&agent, version);
        assert_eq!(initialized["protocolVersion"], version);
        assert_eq!(
            agent.request("tools/list", json!({}))["result"]["tools"]
                .as_array()
                .unwrap()
                .len(),
            8
        );
    }
    assert_eq!(agent.sessions(), ["hers"]);
    let found = agent.newest("search_sessions", json!({ "query": "word" }));
    assert_eq!(found["sessions"][0]["id"], "hers");
    let history = agent.newest("get_session_history", json!({ "sessionID": "hers" }));
    assert_eq!(
        history["messages"].as_array().unwrap().len(),
        2,
        "{history}"
    );
    server.stop();
}

#[test]
fn lists_name_all_agents_and_find_them_by_patterns() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let item = |agent: &str| json!({ "role": "assistant", "channel": "plan", "agent": agent, "parts": [] });
    let items = [item("planner"), item("hardener"), item("planner")];
    let body = json!({ "request_id": "r", "question_neutral": "?", "items": items });
    client.post("/two/turns", &body).wrote(201);
    record(&client, "none", "Who is there?");
    let both = json!(["hardener", "planner"]);
    let listed = client.get_body("?limit=9");
    let agents = |at: usize| listed["data"][at].get("agents");
    assert_eq!((agents(0), agents(1)), (None, Some(&both)), "{listed}");
    let agent = Agent::new(&server, None);
    let found = agent.tool("list_sessions", json!({ "agent": "*hard*" }));
    assert_eq!(found["total"], 1, "{found}");
    assert_eq!(found["sessions"][0]["agents"], both, "{found}");
    let found = agent.tool("list_sessions", json!({ "agent": "hard" }));
    assert_eq!(found["total"], 0, "{found}");
    server.stop();
}

#[test]
fn users_see_only_their_own_sessions() {
    let world = World::new();
    let keys =
        ["ada", "bob"].map(|identity| key(&world, &["--role", "user", "--identity", identity]));
    let service = key(&world, &["--role", "service"]);
    let server = world.serve();
    let stranger = Agent::new(&server, None);
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    stranger.send("", &listing).fails(401, "unauthenticated");
    let agents = keys.each_ref().map(|key| Agent::new(&server, Some(key)));
    for (identity, number) in [("ada", 0), ("bob", 1)] {
        let body = json!({ "request_id": "r", "question_neutral": format!("the word of {identity}"), "answer_neutral": "Noted." });
        let text = body.to_string();
        let request = format!(
            "POST /api/v1/sessions/of-{identity}/turns HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{}\r\n{text}",
            text.len(),
            agents[number].headers,
        );
        assert_eq!(
            agents[number].client.send_bytes(request.as_bytes()).status,
            201
        );
    }
    std::thread::scope(|scope| {
        for round in 0..16 {
            let (agents, service, server) = (&agents, &service, &server);
            scope.spawn(move || {
                let (own, other) = [("ada", "bob"), ("bob", "ada")][round % 2];
                let agent = &agents[round % 2];
                assert_eq!(agent.sessions(), [format!("of-{own}")]);
                let found = agent.newest("search_sessions", json!({ "query": "\"the word of\"" }));
                assert_eq!(found["totalSessions"], 1, "{found}");
                assert!(!found.to_string().contains(other));
                let foreign = json!({ "name": "get_session_history", "arguments": { "sessionID": format!("of-{other}") } });
                let refused = agent.request("tools/call", foreign);
                let absent = json!({ "name": "get_session_history", "arguments": { "sessionID": "of-xyz" } });
                let missing = agent.request("tools/call", absent);
                let without_id = |response: &Value, id: &str| response.to_string().replace(id, "ID");
                assert_eq!(without_id(&refused, &format!("of-{other}")), without_id(&missing, "of-xyz"));
                // A service key acts for the identity in the header.
                let acting = Agent {
                    headers: format!("authorization: Bearer {service}\r\nfilrouge-identity: {own}\r\n"),
                    ..Agent::new(server, None)
                };
                assert_eq!(acting.sessions(), [format!("of-{own}")]);
            });
        }
    });
    server.stop();
    world.verify();
}

#[test]
fn foreign_host_names_are_refused_unless_configured() {
    let world = World::new();
    key(&world, &["--role", "service"]);
    let service = key(&world, &["--role", "service"]);
    let server = world.serve_with_env(
        &[
            ("FILROUGE_MCP_HOSTS", "filrouge.example.org"),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    let agent = Agent::new(&server, Some(&service));
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    for (headers, status) in [
        ("host: localhost\r\n", 200),
        ("host: filrouge.example.org\r\n", 200),
        (
            "host: filrouge.example.org:8443\r\norigin: https://filrouge.example.org\r\n",
            200,
        ),
        ("host: evil.example\r\n", 403),
        ("host: localhost\r\norigin: https://evil.example\r\n", 403),
        ("host: localhost\r\norigin: null\r\n", 403),
    ] {
        assert_eq!(agent.send(headers, &listing).status, status, "{headers}");
    }
    let get = format!("authorization: Bearer {service}\r\nconnection: close\r\n");
    let refused = agent
        .client
        .send_without_body("GET", "/mcp", &get)
        .fails(405, "method_not_allowed");
    assert_eq!(refused["hint"], "known methods: POST");
    server.stop();
}

/// The histories that `--source` names are visible to every caller; sessions of the ledger only to their owners.
#[test]
fn histories_named_by_source_are_served_with_the_ledger() {
    let (world, source) = with_history();
    let server = world.serve_with(&["--source", &source]);
    record(&server.client().for_identity("ada"), "of-ada", "?");
    let agent = Agent::new(&server, None);
    assert_eq!(agent.sessions().len(), 14);
    let as_ada = Agent {
        headers: "filrouge-identity: ada\r\n".to_owned(),
        ..Agent::new(&server, None)
    };
    assert_eq!(as_ada.sessions().len(), 15);
    assert!(server.log().contains("--source"));
    server.stop();
}

#[test]
fn mcp_over_http_serves_the_histories_on_this_machine() {
    let (world, source) = with_history();
    let server = world.start_mcp(&["--source", &source]);
    let agent = Agent::new(&server, None);
    initialize(&agent, "2025-11-25");
    assert_eq!(agent.sessions().len(), 14);
    assert_eq!(
        agent.newest("list_sessions", json!({ "limit": 3 }))["total"],
        14
    );
    let listing = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    assert_eq!(agent.send("host: evil.example\r\n", &listing).status, 403);
    assert_eq!(
        agent
            .client
            .send_without_body("GET", "/healthz", "connection: close\r\n")
            .status,
        404
    );
    server.stop();
}

/// Recorded Markdown that a viewer would act on, and what a document contains instead.
const HOSTILE: [(&str, &str); 5] = [
    (
        "![pixel](https://evil.example/p.png)",
        "\\![pixel](https://evil.example/p.png)",
    ),
    ("[go](javascript:alert(1))", "\\[go](javascript:alert(1))"),
    (
        "[go](JavaScript&#58;alert(1))",
        "\\[go](JavaScript&#58;alert(1))",
    ),
    ("![d](data:text/html,x)", "!\\[d](data:text/html,x)"),
    (
        "<img src=\"https://evil.example/p.png\">",
        "\\<img src=\"https://evil.example/p.png\">",
    ),
];

#[test]
fn recorded_markdown_does_not_act_in_a_document() {
    let world = World::new();
    let server = world.serve();
    for (n, (text, _)) in HOSTILE.iter().enumerate() {
        let turn = json!({ "request_id": format!("r{n}"), "question_neutral": text,
            "answer_neutral": text });
        server.client().post("/s/turns", &turn).wrote(201);
    }
    let check = |server: &Server| {
        let read = json!({ "uri": "session://s" });
        let read = Agent::new(server, None).request("resources/read", read);
        let resource = &read["result"]["contents"][0]["text"];
        for document in [
            resource.as_str().unwrap(),
            &server.client().get("/s/export?format=md").text,
            &world.ok(&["export", "s", "--format", "md"]),
        ] {
            for (_, shown) in HOSTILE {
                let lines = document.lines();
                let found = lines.filter(|line| line.strip_prefix("> ") == Some(shown));
                assert_eq!(found.count(), 2, "{shown}: {document}");
            }
        }
    };
    check(&server);
    server.stop();
    let server = world.serve();
    check(&server);
    server.stop();
}
