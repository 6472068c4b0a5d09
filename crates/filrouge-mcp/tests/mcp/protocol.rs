//! Handshakes, generations, faults.

use serde_json::json;

use crate::made::library;
use crate::talk::{Lines, meta};

#[tokio::test]
async fn older_generations_shake_hands() {
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
async fn the_newest_generation_needs_no_handshake() {
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
async fn what_is_no_message_does_no_harm() {
    let mut lines = Lines::open(library("amber"));
    for garbage in [
        "",
        "hello",
        "{",
        "\u{0}\u{1}",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"$/lsp","params":{}}"#,
    ] {
        lines.say(garbage).await;
    }
    let early = lines.ask(7, "tools/list", json!({})).await;
    assert!(early["error"]["code"].is_number(), "{early}");
    lines.initialize("2025-11-25").await;
    lines.say("more of it").await;
    lines.say("[1,2,3]").await;
    // Well-formed, and no message: answered without an id.
    assert!(lines.hear().await["error"]["code"].is_number());
    lines.say(&"x".repeat(5 << 20)).await;
    let unknown = lines.ask(8, "tools/fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let nobody = json!({ "name": "drop_sessions", "arguments": {} });
    let nobody = lines.ask(9, "tools/call", nobody).await;
    assert_eq!(nobody["error"]["code"], -32602, "{nobody}");
    assert!(
        nobody["error"]["message"]
            .as_str()
            .unwrap()
            .contains("list_sessions")
    );
    let listed = lines.ask(10, "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array());
    assert!(lines.end().await.is_empty());
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
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

#[tokio::test]
async fn nothing_said_is_no_failure() {
    assert!(Lines::open(library("amber")).end().await.is_empty());
}
