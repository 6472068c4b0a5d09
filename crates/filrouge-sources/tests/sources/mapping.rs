//! Tests of how each kind of part and message becomes an item.

use filrouge_types::{Channel, ItemBody, RawJson, Role, Timestamp, TurnStatus};
use serde_json::{Value, json};

use crate::{GeneratedTree, fixture, items, json, read_all};

/// The item with this id.
fn find<'a>(items: &[&'a ItemBody], id: &str) -> &'a ItemBody {
    items
        .iter()
        .find(|item| item.item_id.as_ref().is_some_and(|i| i.as_str() == id))
        .unwrap()
}

/// The data that the source keeps in the metadata of an item.
fn foreign_fields(item: &ItemBody) -> Value {
    item.metadata
        .as_ref()
        .map_or(Value::Null, |m| json(m.as_str())["opencode"].clone())
}

fn role_and_channel(item: &ItemBody) -> (Role, &str) {
    (item.role, item.channel.as_str())
}

#[test]
fn genuine_tools_become_calls_and_results() {
    let (loaded, _) = read_all(&fixture("opencode-json"));
    let all: Vec<&ItemBody> = loaded.iter().flat_map(items).collect();

    let call = find(&all, "prt_c186e41b400287qIXvFls87wMh:call");
    assert_eq!(role_and_channel(call), (Role::Assistant, "tool_call"));
    let part = &json(call.parts.as_str())[0];
    assert_eq!(
        (&part["name"], &part["args"]["description"]),
        (&json!("task"), &json!("Licence check"))
    );
    let result = find(&all, "prt_c186e41b400287qIXvFls87wMh:result");
    assert_eq!(role_and_channel(result), (Role::Tool, "tool_result"));
    let part = &json(result.parts.as_str())[0];
    assert_eq!(
        (&part["ok"], &part["call_id"]),
        (&json!(true), &json!("01KGC6WGDNWXTQKZZ8601FABPZ"))
    );
    assert_eq!(
        foreign_fields(result)["state"]["metadata"]["sessionId"],
        "ses_3e791be47ffeI7JspQs0H6mjmV"
    );
    // No step finished in this message, so its tokens are stored with its last item.
    assert!(result.usage.is_some() && call.usage.is_none());

    let shell = find(&all, "prt_c186e42ed002qYvYTJRuRMYyyp:result");
    assert_eq!(
        json(shell.parts.as_str())[0]["content"],
        "  8 src/main.rs\n  1 LICENSE\n  9 total\n"
    );
    assert_eq!(
        foreign_fields(shell)["state"]["metadata"],
        json!({"description": ""})
    );
}

#[test]
fn genuine_texts_and_notes_are_mapped() {
    let (loaded, _) = read_all(&fixture("opencode-json"));
    let all: Vec<&ItemBody> = loaded.iter().flat_map(items).collect();
    for (id, kind) in [
        ("prt_c186e412e0033jvv5ZpR3NoZ1a", "agent"),
        ("prt_c186e41b1001z3du05GSnYYu5K", "subtask"),
        ("prt_c186e4173001ZQ0kRtLeBjrPKp", "step-start"),
        ("prt_c186e4174001AsPuq0fRR00dQF", "step-finish"),
    ] {
        let item = find(&all, id);
        assert_eq!(role_and_channel(item), (Role::System, "system_note"));
        assert_eq!(json(item.parts.as_str())[0]["type"], kind);
    }
    let injected = find(&all, "prt_c186e412e004vzhQITpa5Xarrs");
    assert_eq!(role_and_channel(injected), (Role::User, "system_note"));
    assert_eq!(foreign_fields(injected)["part"]["synthetic"], true);
    let question = find(&all, "prt_c186e412e002Ar148XOLdL5X3J");
    assert_eq!(role_and_channel(question), (Role::User, "question"));
    assert_eq!(
        question.parts.as_str(),
        r#"[{"type":"text","text":"Explain this repository @general "}]"#
    );
    assert_eq!(
        foreign_fields(question)["message"]["summary"]["title"],
        "Tour of the repository"
    );
    let answer = find(&all, "prt_c186e4173002HDkGuWVgkmMzIE");
    assert_eq!(role_and_channel(answer), (Role::Assistant, "final"));
    assert_eq!(
        (answer.agent.as_deref(), answer.model.as_deref()),
        (Some("build"), Some("mock/atelier-1"))
    );
    assert_eq!(
        answer.occurred_at.unwrap().as_micros(),
        1_769_936_404_852_000
    );
}

#[test]
fn genuine_errors_files_and_compactions_are_mapped() {
    let (loaded, _) = read_all(&fixture("opencode-json"));
    let all: Vec<&ItemBody> = loaded.iter().flat_map(items).collect();
    let error = find(&all, "msg_c186e40ea001ZP2Kcm6udPKOY4:error");
    assert_eq!(role_and_channel(error), (Role::Assistant, "error"));
    let part = &json(error.parts.as_str())[0];
    assert_eq!(
        (&part["code"], &part["source"], &part["retryable"]),
        (&json!("APIError"), &json!("opencode"), &json!(false))
    );
    assert_eq!(foreign_fields(error)["error"]["data"]["statusCode"], 400);
    assert!(error.usage.is_some());

    let by_type = |kind: &str| {
        all.iter()
            .copied()
            .find(|item| json(item.parts.as_str())[0]["type"] == kind)
            .unwrap()
    };
    assert_eq!(role_and_channel(by_type("file")), (Role::User, "question"));
    assert_eq!(
        role_and_channel(by_type("patch")),
        (Role::System, "system_note")
    );
    assert_eq!(
        role_and_channel(by_type("compaction")),
        (Role::System, "system_note")
    );
    assert_eq!(
        role_and_channel(by_type("reasoning")),
        (Role::Assistant, "thought")
    );
    let summary = all
        .iter()
        .find(|item| item.channel == Channel::Summary)
        .unwrap();
    assert_eq!(
        (summary.role, summary.agent.as_deref()),
        (Role::Assistant, Some("compaction"))
    );
}

#[test]
fn items_are_json_that_the_ledger_accepts_and_ids_are_unique() {
    for name in ["opencode-json", "opencode-json-legacy"] {
        for session in &read_all(&fixture(name)).0 {
            assert!(
                RawJson::parse(session.metadata.as_str())
                    .unwrap()
                    .is_object()
            );
            let mut ids = std::collections::BTreeSet::new();
            for item in items(session) {
                assert!(
                    ids.insert(item.item_id.clone().unwrap()),
                    "{:?}",
                    item.item_id
                );
                assert!(RawJson::parse(item.parts.as_str()).unwrap().is_array());
                for object in [&item.metadata, &item.usage].into_iter().flatten() {
                    assert!(RawJson::parse(object.as_str()).unwrap().is_object());
                }
            }
        }
    }
}

#[test]
fn part_types_that_no_fixture_contains_are_mapped() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.part("m1", "a", r#""type":"text","text":"q","ignored":true"#);
    tree.part(
        "m1",
        "b",
        r#""type":"text","text":"\ud800 \u00e9","time":{"start":7}"#,
    );
    tree.answer("m2", 2, "");
    tree.part("m2", "a", r#""type":"text","text":"x""#);
    for (id, fields) in [
        (
            "c",
            r#""type":"retry","attempt":1,"error":{"name":"APIError"},"time":{"created":9}"#,
        ),
        ("d", r#""type":"snapshot","snapshot":"abc""#),
        ("e", r#""type":"new-kind","x":[1, 2]"#),
        ("f", r#""type":"text","text":5"#),
        (
            "g",
            r#""type":"tool","tool":"t","state":{"status":"completed","output":"o"}"#,
        ),
        ("h", r#""type":"file","mime":"image/png","url":"data:,""#),
    ] {
        tree.part("m2", id, fields);
    }
    let loaded = tree.load();
    // The second message contains a part id of the first.
    assert_eq!(loaded.skipped.len(), 1);
    assert_eq!(loaded.skipped[0].reason.as_str(), "duplicate_id");
    let all = items(&loaded);
    assert_eq!(
        role_and_channel(find(&all, "a")),
        (Role::User, "system_note")
    );
    let raw = find(&all, "b");
    assert_eq!(
        raw.parts.as_str(),
        "[{\"type\":\"text\",\"text\":\"\\ud800 \\u00e9\"}]"
    );
    assert_eq!(raw.occurred_at.unwrap().as_micros(), 7_000);
    assert_eq!(find(&all, "c").occurred_at.unwrap().as_micros(), 9_000);
    for id in ["c", "d", "e", "f", "g"] {
        assert_eq!(
            role_and_channel(find(&all, id)),
            (Role::System, "system_note"),
            "{id}"
        );
    }
    let kept = r#"[{"id":"e","sessionID":"s1","messageID":"m2","type":"new-kind","x":[1, 2]}]"#;
    assert_eq!(find(&all, "e").parts.as_str(), kept);
    assert_eq!(
        role_and_channel(find(&all, "h")),
        (Role::Assistant, "observation")
    );
}

#[test]
fn tools_are_mapped_in_every_state() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.answer("m2", 2, r#","finish":"stop""#);
    let tool = |id: &str, state: &str| {
        tree.part("m2", id, &format!(r#""type":"tool","callID":"c{id}","tool":"bash","metadata":{{"k":1}},"state":{state}"#));
    };
    tool("a", r#"{"status":"pending","input":{},"raw":"{\"co"}"#);
    tool(
        "b",
        r#"{"status":"running","input":{"a":1.0},"time":{"start":5}}"#,
    );
    tool(
        "c",
        r#"{"status":"error","input":{},"error":"no","time":{"start":5,"end":9}}"#,
    );
    tool(
        "d",
        r#"{"status":"completed","input":{},"output":"o","title":"T","metadata":{"output":"o2"},"time":{"start":9,"end":5,"compacted":7},"attachments":[]}"#,
    );
    let loaded = tree.load();
    let all = items(&loaded);
    assert_eq!(
        all.len(),
        1 + 2 + 2 + 2,
        "the question, two calls without results, and two calls with results"
    );
    assert_eq!(
        foreign_fields(find(&all, "a:call"))["state"],
        json!({"status": "pending", "raw": "{\"co"})
    );
    let running = find(&all, "b:call");
    assert_eq!(
        running.parts.as_str(),
        r#"[{"type":"tool_call","call_id":"cb","name":"bash","args":{"a":1.0}}]"#
    );
    assert_eq!(foreign_fields(running)["part"]["metadata"]["k"], 1);
    assert_eq!(running.occurred_at.unwrap().as_micros(), 5_000);
    let failed = find(&all, "c:result");
    assert_eq!(
        failed.parts.as_str(),
        r#"[{"type":"tool_result","call_id":"cc","ok":false,"latency_ms":4,"content":"no"}]"#
    );
    assert_eq!(failed.occurred_at.unwrap().as_micros(), 9_000);
    let completed = find(&all, "d:result");
    assert_eq!(json(completed.parts.as_str())[0]["latency_ms"], Value::Null);
    assert_eq!(
        foreign_fields(completed)["state"],
        json!({"title": "T", "time": {"start": 9, "end": 5, "compacted": 7}, "attachments": [], "metadata": {"output": "o2"}})
    );
}

#[test]
fn answers_are_grouped_into_turns_with_outcomes() {
    let tree = GeneratedTree::new();
    tree.answer("m0", 1, "");
    tree.part("m0", "p0", r#""type":"text","text":"before any question""#);
    tree.user("m2", 3);
    tree.message(
        "m3",
        "assistant",
        4,
        "",
        r#","error":{"name":"MessageAbortedError","data":{"message":"stop"}}"#,
    );
    tree.part("m3", "p3", r#""type":"text","text":"half""#);
    tree.user("m1", 5);
    tree.answer("m4", 6, r#","finish":"stop","error":{"name":"APIError","data":{"message":"later","isRetryable":true}}"#);
    tree.answer("m5", 7, r#","finish":"stop""#);
    tree.part("m5", "p5", r#""type":"text","text":"one""#);
    tree.part("m5", "p6", r#""type":"text","text":"two""#);
    tree.part("m5", "p7", r#""type":"text","text":"""#);
    tree.user("m6", 8);
    tree.answer("m7", 9, r#","finish":"tool-calls""#);
    tree.part("m7", "p8", r#""type":"text","text":"let me see""#);
    let loaded = tree.load();
    let turns = &loaded.turns;
    let requests: Vec<&str> = turns.iter().map(|turn| turn.request_id.as_str()).collect();
    assert_eq!(requests, ["m0", "m2", "m1", "m6"]);
    let outcomes: Vec<&TurnStatus> = turns.iter().map(|turn| &turn.outcome).collect();
    assert_eq!(
        outcomes,
        [
            &TurnStatus::Finalized,
            &TurnStatus::Cancelled,
            &TurnStatus::Finalized,
            &TurnStatus::Interrupted
        ]
    );
    assert!(turns[0].question.is_empty());
    let channels = |turn: usize| {
        turns[turn]
            .items
            .iter()
            .map(|i| i.channel.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(channels(1), ["partial", "error"]);
    // The failed attempt before the answer is kept unchanged, and an empty text is not an answer.
    assert_eq!(
        channels(2),
        ["error", "observation", "final", "observation"]
    );
    assert_eq!(
        json(turns[2].answer().unwrap().parts.as_str())[0]["text"],
        "two"
    );
    assert_eq!(channels(3), ["observation"]);
    assert_eq!(
        turns[1].metadata.as_str(),
        r#"{"opencode":{"messages":["m2","m3"]}}"#
    );
}

#[test]
fn an_unfinished_answer_is_imported_by_a_later_read() {
    let tree = GeneratedTree::new();
    tree.user("m1", 1);
    tree.answer("m2", 2, r#","finish":"tool-calls""#);
    tree.message("m3", "assistant", 3, "", "");
    tree.part("m3", "p3", r#""type":"text","text":"still grow""#);
    let loaded = tree.load();
    assert_eq!(loaded.turns[0].outcome, TurnStatus::Interrupted);
    assert_eq!(
        loaded.turns[0].metadata.as_str(),
        r#"{"opencode":{"messages":["m1","m2"],"incomplete":["m3"]}}"#
    );
    assert_eq!(loaded.skipped[0].reason.as_str(), "incomplete");
    let hour_later = |millis| Timestamp::from_millis(loaded.session.updated + millis).unwrap();
    let early = loaded
        .clone()
        .with_broken_off_answers(hour_later(3_599_999));
    assert_eq!(early, loaded);
    let broken_off = loaded
        .clone()
        .with_broken_off_answers(hour_later(3_600_000));
    let turn = &broken_off.turns[0];
    assert_eq!(turn.outcome, TurnStatus::Interrupted);
    let last = turn.items.last().unwrap();
    assert_eq!(last.channel.as_str(), "partial");
    assert!(last.parts.as_str().contains("still grow"));
    assert_eq!(
        turn.metadata.as_str(),
        r#"{"opencode":{"messages":["m1","m2","m3"]}}"#
    );
    assert!(broken_off.skipped.is_empty());

    tree.answer(
        "m3",
        3,
        r#","finish":"stop","tokens":{"input":1},"cost":0.50"#,
    );
    let loaded = tree.load();
    assert_eq!(loaded.turns[0].outcome, TurnStatus::Finalized);
    let answer = loaded.turns[0].answer().unwrap();
    assert_eq!(
        answer.usage.as_ref().unwrap().as_str(),
        r#"{"tokens":{"input":1},"cost":0.50}"#
    );
}
