//! Handshakes, protocol versions, errors.

use filrouge_mcp::{Histories, McpServer, Own, serve};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::artificial_history::{corpus, library};
use crate::talk::{Lines, meta};

#[tokio::test]
async fn older_versions_begin_with_a_handshake() {
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let mut lines = Lines::open(library("amber"));
        let met = lines.initialize(version).await;
        assert_eq!(met["protocolVersion"], version);
        assert_eq!(met["serverInfo"]["name"], "filrouge");
        assert!(
            met["instructions"]
                .as_str()
                .unwrap()
                .contains("get_compacted_context")
        );
        for capability in ["tools", "resources", "prompts", "completions"] {
            assert!(met["capabilities"][capability].is_object(), "{met}");
        }
        let listed = lines.ask(2, "tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 7);
        assert!(listed["result"].get("resultType").is_none());
        let call = json!({ "name": "list_sessions", "arguments": {} });
        let called = lines.ask(3, "tools/call", call).await;
        assert_eq!(called["result"]["structuredContent"]["total"], 2);
        assert!(lines.end().await.is_empty());
    }
}

#[tokio::test]
async fn the_newest_version_needs_no_handshake() {
    let mut lines = Lines::open(library("amber"));
    let found = lines
        .ask(1, "server/discover", json!({ "_meta": meta() }))
        .await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    for version in ["2026-07-28", "2025-11-25"] {
        assert!(versions.contains(&json!(version)), "{found}");
    }
    let call = json!({ "name": "list_sessions", "arguments": {}, "_meta": meta() });
    let called = lines.ask(2, "tools/call", call).await;
    assert_eq!(called["result"]["resultType"], "complete");
    assert_eq!(called["result"]["structuredContent"]["total"], 2);
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn invalid_messages_do_not_end_the_connection() {
    let mut lines = Lines::open(library("amber"));
    for garbage in ["hello", "{", "\u{0}\u{1}", "{\"a\":\"\\ud800\"}"] {
        lines.say(garbage).await;
        let answer = lines.hear().await;
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
        // The protocol leaves the id out when none can be read.
        assert_eq!(answer.get("id"), None, "{answer}");
    }
    for nothing in [
        "",
        "  ",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/lsp","params":{}}"#,
    ] {
        lines.say(nothing).await;
    }
    let early = lines.ask(7, "tools/list", json!({})).await;
    assert!(early["error"]["code"].is_number(), "{early}");
    lines.initialize("2025-11-25").await;
    lines.say("more of it").await;
    assert_eq!(lines.hear().await["error"]["code"], -32700);
    lines.say("[1,2,3]").await;
    // Well-formed JSON, but not a message: answered without an id.
    assert_eq!(lines.hear().await["error"]["code"], -32600);
    lines.say(&"x".repeat(5 << 20)).await;
    let too_long = lines.hear().await;
    let why = too_long["error"]["message"].as_str().unwrap();
    assert!(why.contains("4194304 bytes"), "{too_long}");
    for arguments in [json!([]), json!("x")] {
        let call = json!({ "name": "list_sessions", "arguments": arguments });
        let wrong = lines.ask(20, "tools/call", call).await;
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    }
    let unknown = lines.ask(8, "tools/fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let unread = json!({ "name": "drop_sessions", "arguments": {} });
    let unread = lines.ask(9, "tools/call", unread).await;
    assert_eq!(unread["error"]["code"], -32602, "{unread}");
    assert!(
        unread["error"]["message"]
            .as_str()
            .unwrap()
            .contains("list_sessions")
    );
    let listed = lines.ask(10, "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array());
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn requests_before_the_end_are_answered() {
    let mut lines = Lines::open(library("amber"));
    lines.initialize("2025-11-25").await;
    for id in 2..10 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "list_sessions", "arguments": {} } });
        lines.say(&call.to_string()).await;
    }
    let mut ids: Vec<u64> = lines
        .end()
        .await
        .iter()
        .map(|a| a["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(2..10));
}

/// The end of the input also ends a line, and errors in it are reported.
#[tokio::test]
async fn the_last_line_needs_no_line_end() {
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": { "name": "list_sessions", "arguments": {}, "_meta": meta() } });
    let call = call.to_string();
    for (last, code) in [
        (call.as_str(), None),
        (&call[..call.len() - 1], Some(-32700)),
    ] {
        let mut lines = Lines::open(library("amber"));
        lines.initialize("2025-11-25").await;
        lines.say_open(last.as_bytes()).await;
        let rest = lines.end().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        match code {
            None => assert_eq!(rest[0]["id"], 5),
            Some(code) => assert_eq!(rest[0]["error"]["code"], code),
        }
    }
}

#[tokio::test]
async fn invalid_utf_8_is_answered_with_an_error() {
    let mut lines = Lines::open(library("amber"));
    lines.initialize("2025-11-25").await;
    lines.say_open(b"{\"a\":\"\xff\"}\n").await;
    assert_eq!(lines.hear().await["error"]["code"], -32700);
    assert!(lines.end().await.is_empty());
}

/// The output is closed while requests still arrive.
#[tokio::test]
async fn a_closed_output_ends_the_server() {
    let (mut ours, input) = tokio::io::duplex(1 << 16);
    let (output, unread) = tokio::io::duplex(1 << 16);
    drop(unread);
    let server = McpServer::new(
        Histories::All(Box::new(corpus(library("amber")))),
        Own::default(),
    );
    let server = tokio::spawn(serve(server, input, output));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "list_sessions", "arguments": {}, "_meta": meta() } });
    let line = format!("{call}\n{call}\n");
    ours.write_all(line.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(4), server).await;
    assert!(ended.is_ok(), "it continues");
    drop(ours);
}

#[tokio::test]
async fn an_empty_input_is_not_an_error() {
    assert!(Lines::open(library("amber")).end().await.is_empty());
}
