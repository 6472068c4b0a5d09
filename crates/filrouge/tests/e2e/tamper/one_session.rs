//! Searches, lists, statistics and lineages of healthy sessions continue while one session is damaged, and say so.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::change_rows;
use crate::caller::{Caller, key, within_five_seconds};
use crate::mcp_stdio::Agent;
use crate::world::{CommandOutput, Server, World};

/// The damage of the session `hers`, in both stores.
const DAMAGES: [[&str; 2]; 2] = [
    [
        "UPDATE {}head SET data = CAST(x'ff' || substr(data, 2) AS BLOB) WHERE pk = (SELECT pk FROM {}session WHERE session_id = 'hers')",
        "UPDATE {}head SET data = '\\xff'::bytea || substr(data, 2) WHERE pk = (SELECT pk FROM {}session WHERE session_id = 'hers')",
    ],
    ["DELETE FROM {}session WHERE session_id = 'hers'"; 2],
];

/// The notice about the damaged session.
const NOTICE: &str = r#"left out as unreadable: 1 ("ledger:hers")"#;

#[track_caller]
fn search(caller: &Caller) -> Value {
    let target = "/api/v1/search?q=lantern";
    caller.send("GET", target, None).is(200)
}

/// Asserts that a search found the other sessions, and says which one it lacks.
#[track_caller]
fn assert_incomplete(found: &Value, sessions: &str, expected: u64) {
    assert_eq!(found[sessions], expected, "{found}");
    assert_eq!(found["exact"], false, "{found}");
    let notices = found["notices"].as_array().unwrap();
    assert!(notices.iter().any(|notice| notice == NOTICE), "{found}");
}

/// Asserts that a command continued, and named the damaged session.
#[track_caller]
fn assert_named(done: &CommandOutput) {
    assert_eq!(done.code, Some(0), "{done:?}");
    let notice = r#"session "hers" is damaged and left out: "#;
    assert!(done.stderr.contains(notice), "{done:?}");
}

/// Searches as an operator, as the owner of the damaged session, and as somebody else.
fn check_searches(server: &Server, [admin, service]: [&str; 2]) {
    let admin = Caller::with_credentials(server, admin);
    assert_incomplete(&search(&admin), "total_sessions", 2);
    let user = |name| Caller::with_credentials(server, service).for_identity(name);
    assert_incomplete(&search(&user("ann")), "total_sessions", 1);
    let others = search(&user("bob"));
    assert_eq!(
        (&others["total_sessions"], &others["exact"]),
        (&json!(1), &json!(true)),
        "{others}"
    );
    assert!(!others.to_string().contains("hers"), "{others}");
}

/// Searches, and reads statistics and lineages of the others' relatives.
fn check_server(server: &Server, keys: [&str; 2]) {
    check_searches(server, keys);
    let [admin, service] = keys;
    let admin = Caller::with_credentials(server, admin);
    let user = |name| Caller::with_credentials(server, service).for_identity(name);
    for route in ["stats", "lineage"] {
        let result = admin.get(&format!("/parent/{route}")).is(200);
        assert_eq!(result["findings"][0]["session_id"], "hers", "{result}");
        let result = user("bob").get(&format!("/his/{route}")).is(200);
        assert!(result.get("findings").is_none(), "{result}");
    }
}

fn check_search_command(world: &World) {
    let found = world.json(&["search", "lantern", "--source", "ledger"]);
    assert_incomplete(&found, "total_sessions", 2);
}

fn check_commands(world: &World) {
    let list = world.run(&["sessions", "list"]);
    assert_named(&list);
    assert!(list.stdout.contains("his") && list.stdout.contains("parent"));
    let page = world.json(&["sessions", "list"]);
    assert_eq!(page["findings"][0]["session_id"], "hers", "{page}");
    for command in ["stats", "lineage"] {
        assert_named(&world.run(&[command, "parent"]));
    }
    check_search_command(world);
}

fn check_mcp(world: &World) {
    let mut agent = Agent::start(world.command(&["mcp", "--source", "ledger"]));
    agent.initialize("2025-11-25");
    let list = agent.tool("list_sessions", json!({}));
    assert_eq!(list["total"], 2, "{list}");
    assert!(list["notices"].as_array().unwrap().contains(&NOTICE.into()));
    let found = agent.tool("search_sessions", json!({ "query": "lantern" }));
    assert_incomplete(&found, "totalSessions", 2);
    let history = agent.tool("get_session_history", json!({ "sessionID": "his" }));
    assert_eq!(history["session"]["id"], "his", "{history}");
    let arguments = json!({ "name": "get_session_history", "arguments": { "sessionID": "hers" } });
    let refused = agent.request("tools/call", arguments).to_string();
    assert!(refused.contains("session_unreadable"), "{refused}");
}

fn keys(world: &World) -> [String; 2] {
    ["admin", "service"].map(|role| key(world, &["--role", role]))
}

/// Records two sessions of Ann and one of Bob, and waits until the index has them.
fn record(server: &Server, [admin, service]: [&str; 2]) {
    let user = |name| Caller::with_credentials(server, service).for_identity(name);
    for (owner, session, parent) in [
        ("ann", "parent", None),
        ("ann", "hers", Some("parent")),
        ("bob", "his", None),
    ] {
        let created = json!({ "session_id": session, "parent_session_id": parent });
        user(owner).post("", &created).is(201);
        let turn =
            json!({ "request_id": "r", "question_neutral": "a lantern", "answer_neutral": "lit" });
        user(owner)
            .post(&format!("/{session}/turns"), &turn)
            .is(201);
    }
    wait_for_index(&Caller::with_credentials(server, admin), 3);
}

fn wait_for_index(admin: &Caller, sessions: u64) {
    within_five_seconds("the index answers", || {
        let found = search(admin);
        found["as_of"].is_string() && found["total_sessions"] == sessions
    });
}

#[test]
fn healthy_sessions_are_served_while_one_is_damaged() {
    for (store, schema) in ["", "filrouge."].into_iter().enumerate() {
        for damage in DAMAGES {
            let world = match store {
                0 => World::on_sqlite(),
                _ => World::on_postgres(),
            };
            let [admin_key, service_key] = keys(&world);
            let server = world.serve();
            record(&server, [&admin_key, &service_key]);
            let admin = Caller::with_credentials(&server, &admin_key);
            change_rows(&world, schema, damage[store]);
            assert_incomplete(&search(&admin), "total_sessions", 2);
            server.stop();
            let server = world.serve();
            check_server(&server, [&admin_key, &service_key]);
            server.stop();
            check_commands(&world);
            check_mcp(&world);
        }
    }
}

/// Changes rows of the search index, as somebody with access to it.
fn change_index(world: &World, schema: &str, sql: &str) {
    match schema {
        "" => {
            let file = world.path("data/filrouge/filrouge.db.index");
            let index = rusqlite::Connection::open(file).unwrap();
            index.execute_batch(sql).unwrap();
        }
        _ => drop(world.database().sql(sql)),
    }
}

#[test]
fn a_damaged_session_without_documents_in_the_index_is_named() {
    for (world, schema, records, [documents, sessions, no]) in [
        (
            World::on_sqlite(),
            "",
            "record_key",
            ["document", "session", "id"],
        ),
        (
            World::on_postgres(),
            "filrouge.",
            "record",
            ["filrouge.search_document", "filrouge.search_session", "no"],
        ),
    ] {
        let [admin_key, service_key] = keys(&world);
        let server = world.serve();
        record(&server, [&admin_key, &service_key]);
        server.stop();
        let items = format!(
            "DELETE FROM {{}}{records} WHERE session_pk = (SELECT pk FROM {{}}session WHERE session_id = 'hers')"
        );
        change_rows(&world, schema, &items);
        // First its documents are removed, then the entry that says that it could not be read. After each, the server
        // is also started without a further attack.
        let entry = format!("DELETE FROM {sessions} WHERE key = 'hers'");
        let documents = format!(
            "DELETE FROM {documents} WHERE session = (SELECT {no} FROM {sessions} WHERE key = 'hers')"
        );
        for attack in [&*documents, "", &*entry, ""] {
            change_index(&world, schema, attack);
            let server = world.serve();
            wait_for_index(&Caller::with_credentials(&server, &admin_key), 2);
            check_searches(&server, [&admin_key, &service_key]);
            server.stop();
            check_search_command(&world);
        }
    }
}

/// Creates sessions, so that all sessions are compared, until `/readyz` reports a change of the store, or none.
fn create_until(server: &Server, is_reported: bool) {
    let (client, begun) = (server.client(), Instant::now());
    while client.get_body("/readyz")["integrity"].is_string() != is_reported {
        assert!(begun.elapsed() < Duration::from_secs(60), "{is_reported}");
        client.post("", &json!({})).wrote(201);
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_repaired_session_is_served_without_a_restart() {
    for (world, schema) in [
        (World::on_sqlite(), ""),
        (World::on_postgres(), "filrouge."),
    ] {
        let server = world.serve();
        let client = server.client();
        let session = json!({ "session_id": "hers", "title": "genuine" });
        client.post("", &session).wrote(201);
        let set_title = |title: &str| {
            let sql = format!("UPDATE {{}}session SET title = '{title}' WHERE session_id = 'hers'");
            change_rows(&world, schema, &sql);
        };
        set_title("forged");
        create_until(&server, true);
        client.get("/hers").fails(500, "integrity_error");
        set_title("also forged");
        create_until(&server, true);
        client.get("/hers").fails(500, "integrity_error");
        set_title("genuine");
        create_until(&server, false);
        assert_eq!(client.get_body("/hers")["title"], "genuine");
        assert!(client.get_body("").get("findings").is_none());
        server.stop();
        world.verify();
    }
}
