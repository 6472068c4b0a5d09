//! Handshakes, protocol versions, errors.

use filrouge_mcp::{CallerSession, Histories, McpServer, serve};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::artificial_history::{corpus, library};
use crate::clients::{LineClient, meta};

#[tokio::test]
async fn older_versions_begin_with_a_handshake() {
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let mut client = LineClient::open(library("amber"));
        let handshake = client.initialize(version).await;
        assert_eq!(handshake["protocolVersion"], version);
        assert_eq!(handshake["serverInfo"]["name"], "filrouge");
        assert!(
            handshake["instructions"]
                .as_str()
                .unwrap()
                .contains("get_compacted_context")
        );
        for capability in ["tools", "resources", "prompts", "completions"] {
            assert!(
                handshake["capabilities"][capability].is_object(),
                "{handshake}"
            );
        }
        let tools = client.request(2, "tools/list", json!({})).await;
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 8);
        assert!(tools["result"].get("resultType").is_none());
        let call = json!({ "name": "list_sessions", "arguments": {} });
        let answer = client.request(3, "tools/call", call).await;
        assert_eq!(answer["result"]["structuredContent"]["total"], 2);
        assert!(client.end().await.is_empty());
    }
}

#[tokio::test]
async fn the_newest_version_needs_no_handshake() {
    let mut client = LineClient::open(library("amber"));
    let discovered = client
        .request(1, "server/discover", json!({ "_meta": meta() }))
        .await;
    let versions = discovered["result"]["supportedVersions"]
        .as_array()
        .unwrap();
    for version in ["2026-07-28", "2025-11-25"] {
        assert!(versions.contains(&json!(version)), "{discovered}");
    }
    let call = json!({ "name": "list_sessions", "arguments": {}, "_meta": meta() });
    let answer = client.request(2, "tools/call", call).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["structuredContent"]["total"], 2);
    assert!(client.end().await.is_empty());
}

#[tokio::test]
async fn invalid_messages_do_not_end_the_connection() {
    let mut client = LineClient::open(library("amber"));
    for garbage in ["hello", "{", "\u{0}\u{1}", "{\"a\":\"\\ud800\"}"] {
        client.send(garbage).await;
        let answer = client.receive().await;
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
        // The protocol leaves the id out when none can be read.
        assert_eq!(answer.get("id"), None, "{answer}");
    }
    for unanswered in [
        "",
        "  ",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/lsp","params":{}}"#,
    ] {
        client.send(unanswered).await;
    }
    let early = client.request(7, "tools/list", json!({})).await;
    assert!(early["error"]["code"].is_number(), "{early}");
    client.initialize("2025-11-25").await;
    client.send("not JSON either").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    client.send("[1,2,3]").await;
    // Well-formed JSON, but not a message: answered without an id.
    assert_eq!(client.receive().await["error"]["code"], -32600);
    client.send(&"x".repeat(5 << 20)).await;
    let too_long = client.receive().await;
    let message = too_long["error"]["message"].as_str().unwrap();
    assert!(message.contains("4194304 bytes"), "{too_long}");
    for arguments in [json!([]), json!("x")] {
        let call = json!({ "name": "list_sessions", "arguments": arguments });
        let wrong = client.request(20, "tools/call", call).await;
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    }
    let unknown = client.request(8, "tools/fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let unknown_tool = json!({ "name": "drop_sessions", "arguments": {} });
    let unknown_tool = client.request(9, "tools/call", unknown_tool).await;
    assert_eq!(unknown_tool["error"]["code"], -32602, "{unknown_tool}");
    assert!(
        unknown_tool["error"]["message"]
            .as_str()
            .unwrap()
            .contains("list_sessions")
    );
    let tools = client.request(10, "tools/list", json!({})).await;
    assert!(tools["result"]["tools"].is_array());
    assert!(client.end().await.is_empty());
}

#[tokio::test]
async fn requests_before_the_end_of_the_input_are_answered() {
    let mut client = LineClient::open(library("amber"));
    client.initialize("2025-11-25").await;
    for id in 2..10 {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "list_sessions", "arguments": {} } });
        client.send(&call.to_string()).await;
    }
    let mut ids: Vec<u64> = client
        .end()
        .await
        .iter()
        .map(|answer| answer["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(2..10));
}

/// The end of the input also ends a line: the server answers it, or reports its error.
#[tokio::test]
async fn the_last_line_needs_no_newline() {
    let call = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": { "name": "list_sessions", "arguments": {}, "_meta": meta() } });
    let call = call.to_string();
    for (last, code) in [
        (call.as_str(), None),
        (&call[..call.len() - 1], Some(-32700)),
    ] {
        let mut client = LineClient::open(library("amber"));
        client.initialize("2025-11-25").await;
        client.send_bytes(last.as_bytes()).await;
        let answers = client.end().await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        match code {
            None => assert_eq!(answers[0]["id"], 5),
            Some(code) => assert_eq!(answers[0]["error"]["code"], code),
        }
    }
}

#[tokio::test]
async fn invalid_utf_8_is_answered_with_an_error() {
    let mut client = LineClient::open(library("amber"));
    client.initialize("2025-11-25").await;
    client.send_bytes(b"{\"a\":\"\xff\"}\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    assert!(client.end().await.is_empty());
}

/// The client has closed the server's output, but not its input.
#[tokio::test]
async fn a_closed_output_ends_the_server() {
    let (mut client_end, input) = tokio::io::duplex(1 << 16);
    let (output, unread) = tokio::io::duplex(1 << 16);
    drop(unread);
    let server = McpServer::new(
        Histories::Shared(Box::new(corpus(library("amber")))),
        CallerSession::default(),
    );
    let server = tokio::spawn(serve(server, input, output));
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "list_sessions", "arguments": {}, "_meta": meta() } });
    let line = format!("{call}\n{call}\n");
    client_end.write_all(line.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(4), server).await;
    assert!(ended.is_ok(), "the server still runs");
    drop(client_end);
}

#[tokio::test]
async fn an_empty_input_is_not_an_error() {
    assert!(LineClient::open(library("amber")).end().await.is_empty());
}
