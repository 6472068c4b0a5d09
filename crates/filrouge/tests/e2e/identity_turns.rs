//! The turns of all sessions of an identity: order, paging under concurrent writes, and ownership.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::{Client, Response};
use crate::world::World;

/// Records a complete turn.
fn record_turn(client: &Client, session: &str, request: &str) -> Value {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

/// Requests `/api/v1/turns` with a query.
fn get_turns(caller: &Caller, query: &str) -> Response {
    caller.send("GET", &format!("/api/v1/turns?{query}"), None)
}

/// Session and request id of each turn of a page.
fn names(page: &Value) -> Vec<String> {
    let name = |t: &Value| {
        format!(
            "{}/{}",
            t["session_id"].as_str().unwrap(),
            t["request_id"].as_str().unwrap()
        )
    };
    page["data"].as_array().unwrap().iter().map(name).collect()
}

/// Reads all pages; `between` runs after each page except the last.
fn all_turns(caller: &Caller, query: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut turns, mut cursor) = (Vec::new(), String::new());
    for n in 0.. {
        assert!(n < 1000, "the pages do not end");
        let page = get_turns(caller, &format!("{query}{cursor}")).is(200);
        turns.extend(names(&page));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        between(n);
    }
    turns
}

#[test]
fn turns_are_paged_newest_first() {
    let world = World::new();
    let server = world.serve();
    let (client, ada) = (
        server.client().for_identity("ada"),
        Caller::anonymous(&server).for_identity("ada"),
    );
    for session in ["s1", "s2", "s3"] {
        client
            .post("", &json!({ "session_id": session }))
            .wrote(201);
    }
    for (session, request) in [
        ("s3", "a"),
        ("s1", "a"),
        ("s1", "b"),
        ("s3", "b"),
        ("s1", "c"),
    ] {
        record_turn(&client, session, request);
    }
    let open = json!({ "request_id": "open", "question_neutral": "?" });
    client.post("/s1/turns", &open).wrote(201);
    let expected = ["s3/b", "s3/a", "s1/open", "s1/c", "s1/b", "s1/a"];
    for limit in [1, 2, 3, 5, 6, 7, 500] {
        assert_eq!(
            all_turns(&ada, &format!("identity_id=ada&limit={limit}"), |_| {}),
            expected,
            "{limit}"
        );
    }
    assert_eq!(
        all_turns(&ada, "identity_id=ada&status=open&limit=1", |_| {}),
        ["s1/open"]
    );
    let page = get_turns(&ada, "identity_id=ada&limit=1").is(200);
    assert_eq!(
        page["data"][0],
        client.get_body("/s3/turns")["data"][1],
        "the turn differs from that in the session's list"
    );

    // Replaced and redacted turns are left out.
    let replaced = client.get_body("/s1/turns?request_id=b")["data"][0]["turn_id"].clone();
    let path = format!("/s1/turns/{}", replaced.as_str().unwrap());
    let better = json!({ "request_id": "b2", "question_neutral": "?", "answer_neutral": "!" });
    client.post(&format!("{path}/replace"), &better).wrote(201);
    let redacted = client.get_body("/s1/turns?request_id=c")["data"][0]["turn_id"].clone();
    let path = format!("/s1/turns/{}", redacted.as_str().unwrap());
    client
        .post(&format!("{path}/redact"), &json!({ "reason": "x" }))
        .wrote(200);
    for limit in [1, 2, 50] {
        let turns = all_turns(&ada, &format!("identity_id=ada&limit={limit}"), |_| {});
        assert_eq!(
            turns,
            ["s3/b", "s3/a", "s1/open", "s1/b2", "s1/a"],
            "{limit}"
        );
    }
    server.stop();
    world.verify();
}

#[test]
fn pages_neither_skip_nor_repeat_turns_while_others_write() {
    let world = World::new();
    let server = world.serve();
    let (client, ada) = (
        server.client().for_identity("ada"),
        Caller::anonymous(&server).for_identity("ada"),
    );
    let mut before = Vec::new();
    for session in 0..6 {
        for request in 0..7 {
            record_turn(&client, &format!("s{session}"), &format!("r{request}"));
            before.push(format!("s{session}/r{request}"));
        }
    }
    let seen = all_turns(&ada, "identity_id=ada&limit=4", |n| {
        // New turns in sessions of earlier and later pages, new sessions, a replaced turn, and an erased session.
        for session in [0, 3, 5] {
            record_turn(&client, &format!("s{session}"), &format!("late{n}"));
        }
        record_turn(&client, &format!("new{n}"), "r");
        let old = client.get_body("/s1/turns?request_id=r3")["data"][0].clone();
        if n == 1 {
            let path = format!("/s1/turns/{}/replace", old["turn_id"].as_str().unwrap());
            let better =
                json!({ "request_id": "better", "question_neutral": "?", "answer_neutral": "!" });
            client.post(&path, &better).wrote(201);
        }
        if n == 2 {
            client.delete("/s2").is(200);
        }
    });
    let mut distinct = seen.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len(), "a turn is repeated: {seen:?}");
    for turn in before
        .iter()
        .filter(|t| !t.starts_with("s2/") && *t != "s1/r3")
    {
        assert!(seen.contains(turn), "{turn} was skipped: {seen:?}");
    }
    assert!(seen.contains(&"s1/better".to_owned()));
    server.stop();
    world.verify();
}

/// The parts of a response that must be equal, whether the identity exists or not.
fn comparable_parts(response: &Response) -> (u16, Vec<String>, String) {
    let names = response.headers.iter().map(|(n, _)| n.clone()).collect();
    (response.status, names, response.text.clone())
}

#[test]
fn a_foreign_identity_looks_absent() {
    let world = World::new();
    let keys = ["service", "user", "auditor", "admin"].map(|role| {
        let identity: &[&str] = if role == "user" {
            &["--identity", "bob"]
        } else {
            &[]
        };
        key(&world, &[&["--role", role], identity].concat())
    });
    let server = world.serve();
    let [service, user, auditor, admin] = keys.map(|key| Caller::with_credentials(&server, &key));
    let body =
        json!({ "request_id": "r", "question_neutral": "secret", "answer_neutral": "secret" });
    service
        .for_identity("ada")
        .post("/adas/turns", &body)
        .wrote(201);
    user.post("/bobs/turns", &body).wrote(201);
    for stranger in [
        &user,
        &service.for_identity("bob"),
        &admin.for_identity("bob"),
        &service.for_identity("Ada"),
    ] {
        let foreign = get_turns(stranger, "identity_id=ada");
        let unknown = get_turns(stranger, "identity_id=unknown");
        assert_eq!(comparable_parts(&foreign), comparable_parts(&unknown));
        assert_eq!(foreign.is(200), json!({ "data": [], "next_cursor": null }));
    }
    // A cursor of another caller reveals nothing.
    for session_number in 0..20_u64 {
        let cursor = session_number << 32 | 2;
        let [foreign, unknown] = ["ada", "unknown"]
            .map(|id| get_turns(&user, &format!("identity_id={id}&cursor={cursor}")));
        assert_eq!(comparable_parts(&foreign), comparable_parts(&unknown));
        assert!(!foreign.text.contains("secret"), "{}", foreign.text);
    }
    for (caller, own) in [
        (&user, "bob"),
        (&service.for_identity("ada"), "ada"),
        (&service.for_identity("bob"), "bob"),
    ] {
        assert_eq!(
            names(&get_turns(caller, &format!("identity_id={own}")).is(200)),
            [format!("{own}s/r")]
        );
    }
    for tenant_wide in [&service, &auditor, &admin] {
        assert_eq!(
            names(&get_turns(tenant_wide, "identity_id=ada").is(200)),
            ["adas/r"]
        );
        assert_eq!(
            names(&get_turns(tenant_wide, "identity_id=bob").is(200)),
            ["bobs/r"]
        );
        assert_eq!(
            names(&get_turns(tenant_wide, "identity_id=unknown").is(200)),
            Vec::<String>::new()
        );
    }
    get_turns(&Caller::anonymous(&server), "identity_id=ada").fails(401, "unauthenticated");
    server.stop();
}

#[test]
fn the_work_for_a_page_is_limited_for_any_cursor() {
    let world = World::new();
    let server = world.serve();
    let (client, ada) = (
        server.client().for_identity("ada"),
        Caller::anonymous(&server).for_identity("ada"),
    );
    record_turn(&client, "first", "r");
    for n in 0..450 {
        client
            .post("", &json!({ "session_id": format!("empty-{n}") }))
            .wrote(201);
    }
    let mut pages = 0;
    assert_eq!(
        all_turns(&ada, "identity_id=ada", |_| pages += 1),
        ["first/r"]
    );
    assert_eq!(pages, 2, "two empty pages precede the page with the turn");
    for cursor in [
        0,
        1,
        2,
        255,
        256,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 32) | 1,
        (1 << 32) | 7,
        451 << 32,
        999_999_999_999_999_999,
        9_999_999_999_999_999_999,
    ] {
        let response = get_turns(&ada, &format!("identity_id=ada&cursor={cursor}"));
        if response.status != 200 {
            // The cursor names no session.
            response.fails(422, "invalid");
            continue;
        }
        let page = response.is(200);
        let found = names(&page);
        assert!(found.is_empty() || found == ["first/r"], "{cursor}: {page}");
    }
    for (wrong, code) in [
        ("", "invalid"),
        ("identity_id=", "invalid"),
        ("identity_id=ada&cursor=-1", "invalid"),
        ("identity_id=ada&cursor=x", "invalid"),
        ("identity_id=ada&cursor=99999999999999999999", "invalid"),
        ("identity_id=ada&limit=0", "invalid"),
        ("identity_id=ada&limit=501", "invalid"),
        ("identity_id=ada&status=done", "invalid"),
        ("identity_id=ada&session_id=s", "invalid"),
    ] {
        get_turns(&ada, wrong).fails(422, code);
    }
    server.stop();
}

#[test]
fn sessions_are_found_by_agent_title_status_and_owner() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    for (client, id, title, agent) in [
        (&ada, "a1", "Opening Hours %_", "desk"),
        (&ada, "a2", "straße ÄRGER", "planner"),
        (&bob, "b1", "opening a shop", "desk"),
    ] {
        client
            .post("", &json!({ "session_id": id, "title": title }))
            .wrote(201);
        let items =
            json!([{ "role": "assistant", "channel": "plan", "agent": agent, "parts": [] }]);
        let body = json!({ "request_id": "r", "question_neutral": "?", "items": items });
        client.post(&format!("/{id}/turns"), &body).wrote(201);
    }
    ada.post("/a2/close", &json!({})).is(200);
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|s| s["session_id"].as_str().unwrap().to_owned())
            .collect()
    };
    for (query, found) in [
        ("agent=desk", vec!["a1"]),
        ("agent=Desk", vec![]),
        ("agent=des", vec![]),
        ("agent=*es*", vec!["a1"]),
        ("agent=*", vec!["a2", "a1"]),
        ("agent=_es*", vec![]),
        ("q=oPENing", vec!["a1"]),
        ("q=%25_", vec!["a1"]),
        ("q=%25%25", vec![]),
        ("q=_%25", vec![]),
        ("q=stra%C3%9Fe%20%C3%84", vec!["a2"]),
        ("q=%C3%A4rger", vec![]),
        ("q=opening&agent=planner", vec![]),
        ("q=&agent=planner&status=closed", vec!["a2"]),
        ("q='%20OR%201=1--", vec![]),
        ("identity_id=bob", vec![]),
    ] {
        assert_eq!(ids(&ada.get_body(&format!("?{query}"))), found, "{query}");
    }
    let listed =
        |arguments: &[&str]| ids(&world.json(&[&["sessions", "list"], arguments].concat()));
    assert_eq!(listed(&["--agent", "desk"]), ["b1", "a1"]);
    assert_eq!(listed(&["--agent", "desk", "--identity", "ada"]), ["a1"]);
    assert_eq!(listed(&["--q", "OPENING"]), ["b1", "a1"]);
    assert_eq!(listed(&["--status", "closed"]), ["a2"]);
    assert_eq!(listed(&["--status", "active", "--q", "shop"]), ["b1"]);
    assert_eq!(listed(&["--identity", "never"]), Vec::<String>::new());
    for wrong in [["--status", "done"], ["--identity", ""]] {
        let done = world.run(&[&["sessions", "list"][..], &wrong].concat());
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {done:?}"
        );
    }
    server.stop();
}
