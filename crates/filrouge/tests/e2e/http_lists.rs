//! Lists with cursors and filters, restored contexts, and verification over HTTP.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::mcp_http::Agent;
use crate::world::World;

/// Records the complete turn number `n`.
fn record_turn(client: &Client, session: &str, n: u64) -> Value {
    let body = json!({ "request_id": format!("r{n}"), "question_neutral": format!("q{n}"), "answer_neutral": format!("a{n}") });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

/// The values of a text field in all rows of a page.
fn values(page: &Value, field: &str) -> Vec<String> {
    let rows = page["data"].as_array().unwrap();
    rows.iter()
        .map(|r| r[field].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn items_are_paged() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=60 {
        record_turn(&client, "s", n);
    }
    assert_eq!(
        client.get_body("/s/items")["data"]
            .as_array()
            .unwrap()
            .len(),
        50
    );
    for limit in [1, 7, 60, 120, 500] {
        let seqs: Vec<u64> = client
            .all("/s/items", limit)
            .iter()
            .map(|i| i["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, (1..=120).collect::<Vec<_>>(), "limit {limit}");
    }
    let page = client.get_body("/s/items?after=118&limit=2");
    assert_eq!(
        (&page["data"][0]["seq"], &page["next_cursor"]),
        (&json!(119), &Value::Null)
    );
    for after in ["120", "121", "18446744073709551615"] {
        let page = client.get_body(&format!("/s/items?after={after}"));
        assert_eq!(
            page,
            json!({ "data": [], "next_cursor": null }),
            "after {after}"
        );
    }
    client
        .post("", &json!({ "session_id": "empty" }))
        .wrote(201);
    for list in ["items", "turns"] {
        let page = client.get_body(&format!("/empty/{list}"));
        assert_eq!(page, json!({ "data": [], "next_cursor": null }));
    }
    server.stop();
}

#[test]
fn items_are_read_from_the_newest_and_by_key() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=30 {
        record_turn(&client, "s", n);
    }
    for limit in [1, 7, 60, 500] {
        let items = client.all("/s/items?order=desc", limit);
        let seqs = items.iter().map(|i| i["seq"].as_u64().unwrap());
        assert!(seqs.eq((1..=60).rev()), "limit {limit}");
        assert_eq!(client.all("/s/items?order=asc", limit).len(), 60);
    }
    let page = client.get_body("/s/items?order=desc&before=4&limit=2");
    let seqs = page["data"].as_array().unwrap().iter().map(|i| &i["seq"]);
    assert_eq!(seqs.collect::<Vec<_>>(), [&json!(3), &json!(2)]);
    assert_eq!(page["next_cursor"], "2");
    let none = json!({ "data": [], "next_cursor": null });
    for before in ["0", "1"] {
        let page = client.get_body(&format!("/s/items?order=desc&before={before}"));
        assert_eq!(page, none, "before {before}");
    }
    let turn = json!({ "request_id": "keyed", "question_neutral": "?", "items": [
        text_item("a/b c", "system", "system_note", "n")] });
    client.post("/s/turns", &turn).wrote(201);
    let found = client.get_body("/s/items?item_id=a%2Fb%20c");
    assert_eq!(found["data"][0]["seq"], 62, "{found}");
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    assert_eq!(found["next_cursor"], Value::Null);
    assert_eq!(client.get_body("/s/items?item_id=none"), none);
    for excluded in [
        "order=desc&after=3",
        "before=3",
        "order=asc&before=3",
        "order=desc&before=3&cursor=3",
        "after=3&cursor=3",
        "item_id=a&after=3",
        "item_id=a&order=desc&before=3",
        "item_id=a&cursor=3",
        "order=newest",
    ] {
        let refused = client.get(&format!("/s/items?{excluded}"));
        let refused = refused.fails(422, "invalid");
        assert!(refused["hint"].is_string(), "{excluded}: {refused}");
    }
    for for_pages in ["order=desc", "order=desc&before=3", "item_id=a"] {
        let path = format!("/s/items?{for_pages}");
        let headers = [("accept", "text/event-stream")];
        client
            .send("GET", &path, None, &headers)
            .fails(422, "invalid");
    }
    client
        .get("/none/items?item_id=a")
        .fails(404, "session_not_found");
    client
        .get("/none/items?order=desc")
        .fails(404, "session_not_found");
    server.stop();
}

#[test]
fn items_are_read_by_their_seqs() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=30 {
        record_turn(&client, "s", n);
    }
    let seqs = |query: &str| -> Vec<u64> {
        let page = client.get_body(&format!("/s/items?{query}"));
        assert_eq!(page["next_cursor"], Value::Null, "{query}");
        let items = page["data"].as_array().unwrap().iter();
        items.map(|i| i["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs("seqs=3,9,12-15"), [3, 9, 12, 13, 14, 15]);
    assert_eq!(seqs("seqs=9,3,3-4"), [3, 4, 9]);
    assert_eq!(seqs("seqs=3,9,12-15&cursor=12"), [13, 14, 15]);
    assert_eq!(seqs("seqs=59-70"), [59, 60]);
    assert_eq!(seqs("seqs=61"), Vec::<u64>::new());
    assert_eq!(seqs("seqs=1-500"), (1..=60).collect::<Vec<_>>());
    let found = client.get_body("/s/items?seqs=9");
    assert_eq!(found, client.get_body("/s/items?seqs=9-9"));
    let listed = client.get_body("/s/items?after=8&limit=1");
    assert_eq!(found["data"], listed["data"]);
    for refused in [
        "seqs=",
        "seqs=0",
        "seqs=5-4",
        "seqs=3,x",
        "seqs=1-501",
        "seqs=3&after=2",
        "seqs=3&order=desc",
        "seqs=3&order=desc&before=9",
        "seqs=3&item_id=a",
    ] {
        let problem = client.get(&format!("/s/items?{refused}"));
        let problem = problem.fails(422, "invalid");
        assert!(problem["hint"].is_string(), "{refused}: {problem}");
    }
    let headers = [("accept", "text/event-stream")];
    client
        .send("GET", "/s/items?seqs=3", None, &headers)
        .fails(422, "invalid");
    client
        .get("/none/items?seqs=3")
        .fails(404, "session_not_found");
    server.stop();
}

#[test]
fn turns_are_paged_from_either_end() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=9 {
        record_turn(&client, "s", n);
        if n % 3 == 0 {
            let body = json!({ "request_id": format!("open{n}"), "question_neutral": "?" });
            client.post("/s/turns", &body).wrote(201);
        }
    }
    for limit in [1, 2, 5, 12, 500] {
        let ordinals: Vec<u64> = client
            .all("/s/turns", limit)
            .iter()
            .map(|t| t["ordinal"].as_u64().unwrap())
            .collect();
        assert_eq!(ordinals, (1..=12).collect::<Vec<_>>());
        assert_eq!(client.all("/s/turns?status=open", limit).len(), 3);
    }
    let newest = client.get_body("/s/turns?status=finalized&limit=4");
    assert_eq!(values(&newest, "request_id"), ["r6", "r7", "r8", "r9"]);
    let before = format!(
        "/s/turns?status=finalized&limit=4&cursor={}",
        newest["next_cursor"].as_str().unwrap()
    );
    let before = client.get_body(&before);
    assert_eq!(values(&before, "request_id"), ["r2", "r3", "r4", "r5"]);
    assert_eq!(client.all("/s/turns?status=finalized", 4).len(), 9);
    let all = client.get_body("/s/turns?status=finalized&limit=9");
    assert_eq!(
        (all["data"].as_array().unwrap().len(), &all["next_cursor"]),
        (9, &Value::Null)
    );
    assert_eq!(client.get_body("/s/turns?status=failed")["data"], json!([]));

    let one = client.get_body("/s/turns?request_id=r4");
    assert_eq!(values(&one, "question_neutral"), ["q4"]);
    assert_eq!(
        client.get_body("/s/turns?request_id=r4&status=open")["data"],
        json!([])
    );
    assert_eq!(
        client.get_body("/s/turns?request_id=none")["data"],
        json!([])
    );
    client
        .get("/none/turns?request_id=r4")
        .fails(404, "session_not_found");
    server.stop();
}

#[test]
fn sessions_are_filtered() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    for n in 0..12 {
        let project = if n % 4 == 0 { "rare" } else { "common" };
        ada.post(
            "",
            &json!({ "session_id": format!("s{n}"), "project_id": project }),
        )
        .wrote(201);
    }
    let newest = ada.get_body("?limit=3");
    assert_eq!(values(&newest, "session_id"), ["s11", "s10", "s9"]);
    for limit in [1, 5, 12, 500] {
        assert_eq!(ada.all("", limit).len(), 12);
        assert_eq!(ada.all("?project_id=rare", limit).len(), 3);
    }
    assert_eq!(ada.all("?status=active", 50).len(), 12);
    assert_eq!(ada.all("?status=closed", 50).len(), 0);
    assert_eq!(ada.all("?identity_id=ada", 50).len(), 12);
    assert_eq!(ada.all("?identity_id=bob", 50).len(), 0);
    let third = ada.get_body("/s3")["created_at"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(ada.all(&format!("?since={third}"), 50).len(), 9);
    assert_eq!(ada.all(&format!("?until={third}"), 50).len(), 3);
    server.stop();
}

#[test]
fn sessions_are_listed_by_last_activity_or_by_creation() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    // MCP orders by milliseconds.
    let next_millisecond = || std::thread::sleep(Duration::from_millis(2));
    for session in ["a", "b", "c"] {
        record_turn(&client, session, 1);
        next_millisecond();
    }
    record_turn(&client, "a", 2);
    next_millisecond();
    client
        .patch("/b", &json!({ "state": "WAITING" }))
        .wrote(200);
    for (query, ids) in [
        ("", ["b", "a", "c"]),
        ("?order=updated", ["b", "a", "c"]),
        ("?order=created", ["c", "b", "a"]),
    ] {
        for limit in [1, 2, 3] {
            let listed = client.all(query, limit);
            let listed = listed.iter().map(|s| s["session_id"].as_str().unwrap());
            assert_eq!(listed.collect::<Vec<_>>(), ids, "{query} {limit}");
        }
    }
    client.get("?order=oldest").fails(422, "invalid");
    let list = |arguments: &[&str]| {
        let page = world.ok(&[&["sessions", "list", "--json"], arguments].concat());
        values(&serde_json::from_str(&page).unwrap(), "session_id")
    };
    assert_eq!(list(&[]), ["b", "a", "c"]);
    assert_eq!(list(&["--order", "created"]), ["c", "b", "a"]);
    let listed = |arguments: Value| {
        let call = json!({ "name": "list_sessions", "arguments": arguments });
        let answer = Agent::new(&server, None).request("tools/call", call);
        let rows = &answer["result"]["structuredContent"]["sessions"];
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(json!({})), ["b", "a", "c"]);
    let by_creation = listed(json!({ "order": "created" }));
    assert_eq!(by_creation, ["c", "b", "a"]);
    server.stop();
    world.verify();
}

#[test]
fn paging_neither_skips_nor_repeats_while_others_write() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 1..=30 {
        record_turn(&client, "s", n);
        record_turn(&client, &format!("t{n}"), 1);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let writer = server.client();
            for n in 31.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                record_turn(&writer, "s", n);
                record_turn(&writer, &format!("t{n}"), 1);
            }
        });
        for _ in 0..5 {
            let seqs: Vec<u64> = client
                .all("/s/items", 7)
                .iter()
                .map(|i| i["seq"].as_u64().unwrap())
                .collect();
            assert!(
                seqs.len() >= 60 && seqs.iter().copied().eq(1..=seqs.len() as u64),
                "{seqs:?}"
            );
            let ordinals: Vec<u64> = client
                .all("/s/turns", 3)
                .iter()
                .map(|t| t["ordinal"].as_u64().unwrap())
                .collect();
            assert!(ordinals.len() >= 30 && ordinals.iter().copied().eq(1..=ordinals.len() as u64));
            let finalized = client.all("/s/turns?status=finalized", 4);
            let distinct: BTreeSet<_> = finalized
                .iter()
                .map(|t| t["ordinal"].as_u64().unwrap())
                .collect();
            assert_eq!(distinct.len(), finalized.len());
            assert!((1..=30).all(|n| distinct.contains(&n)));
            let sessions = client.all("?order=created", 4);
            let ids: BTreeSet<_> = sessions
                .iter()
                .map(|s| s["session_id"].as_str().unwrap())
                .collect();
            assert_eq!(ids.len(), sessions.len());
            assert!((1..=30).all(|n| ids.contains(format!("t{n}").as_str())));
        }
        stop.store(true, Ordering::Relaxed);
    });
    server.stop();
    world.verify();
}

#[test]
fn a_context_reports_the_items_that_it_omits() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_turn(&client, "s", 1);
    let open = json!({ "request_id": "open", "question_neutral": "?" });
    client.post("/s/turns", &open).wrote(201);
    for (request, path, body) in [
        ("failed", "fail", json!({ "error": { "code": "e" } })),
        ("cancelled", "cancel", json!({})),
    ] {
        let start = json!({ "request_id": request, "question_neutral": "?" });
        let turn = client.post("/s/turns", &start).wrote(201);
        let id = turn["turn_id"].as_str().unwrap();
        client
            .post(&format!("/s/turns/{id}/{path}"), &body)
            .wrote(200);
    }
    let picture = json!({ "request_id": "picture", "question_neutral": "draw", "items": [
        { "role": "assistant", "channel": "final", "parts": [{ "type": "image_url", "url": "x" }] }] });
    let turn = client.post("/s/turns", &picture).wrote(201);
    let id = turn["turn_id"].as_str().unwrap();
    client
        .post(&format!("/s/turns/{id}/finalize"), &json!({}))
        .wrote(200);
    record_turn(&client, "s", 2);

    let context = client.get_body("/s/context");
    let pair = |n: u64| (json!(format!("q{n}")), json!(format!("a{n}")));
    let pairs = |context: &Value| -> Vec<(Value, Value)> {
        let messages = context["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|m| (m["question"].clone(), m["answer"].clone()))
            .collect()
    };
    assert_eq!(pairs(&context), [pair(1), pair(2)]);
    let reasons: Vec<&str> = context["report"]["dropped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "turn_open",
            "turn_failed",
            "turn_failed",
            "turn_cancelled",
            "turn_cancelled",
            "no_text",
            "no_text",
            "no_text"
        ]
    );
    assert_eq!(context["report"]["kept"], 4);
    assert_eq!(context["report"]["window"]["last_turns"], Value::Null);
    assert_eq!(context["report"]["window"]["first_seq"], 1);

    let one = client.get_body("/s/context?format=pairs&variant=neutral&last_turns=1");
    assert_eq!(pairs(&one), [pair(2)]);
    assert_eq!(one["report"]["window"]["last_turns"], 1);
    assert_eq!(
        pairs(&client.get_body("/s/context?last_turns=1000")),
        [pair(1), pair(2)]
    );
    assert_eq!(
        client.get_body("/s/context?variant=translated")["messages"],
        json!([])
    );
    for bad in [
        "last_turns=0",
        "last_turns=-1",
        "format=xml",
        "variant=old",
        "max=1",
    ] {
        client
            .get(&format!("/s/context?{bad}"))
            .fails(422, "invalid");
    }
    client.get("/none/context").fails(404, "session_not_found");
    server.stop();
}

#[test]
fn a_session_can_be_verified() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = json!({ "request_id": "r", "question_neutral": "?", "items": [text_item("i", "system", "system_note", "n")] });
    client.post("/s/turns", &turn).wrote(201);
    let report = client.get_body("/s/verify");
    assert_eq!(report["status"], "intact");
    assert_eq!(
        (&report["sessions"], &report["turns"], &report["items"]),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(report["findings"], json!([]));
    client.get("/none/verify").fails(404, "session_not_found");
    assert_eq!(client.get_body("/healthz"), json!({ "status": "ok" }));
    let ready = client.get_body("/readyz");
    assert_eq!(
        ready,
        json!({
            "status": "ready", "read_only": null, "integrity": null, "anchor": null, "issuer": null, "keys": null, "projections": null, "hot": null,
            "store": null, "search": null,
            "spool": { "entries": 0, "sessions": 0, "bytes": 0, "bytes_max": 64 << 20, "oldest_s": null, "dead_letters": 0 },
        })
    );
    server.stop();
}
