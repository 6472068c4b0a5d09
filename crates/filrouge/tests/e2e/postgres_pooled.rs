//! Servers behind PgBouncer in transaction mode.

use filrouge_testbed::{Database, PgBouncer};
use serde_json::{Value, json};

use crate::http::text_item;
use crate::tail_client::Tail;
use crate::upload_client::turn;
use crate::world::{Server, World};

/// Tests two servers on different machines behind the pool.
///
/// With a `direct` connection to the database they are notified of each other's commits; otherwise they poll.
fn test_two_servers(direct: bool) {
    let database = Database::new();
    let pool = PgBouncer::before(&database, 10);
    let world = World::at(&pool.url(database.name()), "buffered");
    let direct_url = database.url();
    let mut environment = vec![("FILROUGE_LISTEN", "127.0.0.1:0")];
    if direct {
        environment.push(("FILROUGE_STORE_DIRECT", &direct_url));
    }
    let one = world.serve_with_env(&environment, &[]);
    let machine = world.other_machine();
    let other = machine.serve_with_env(&environment, &[]);
    let path = turn(&one.client(), "r");
    let mut tail = Tail::open(other.origin(), "/s/items?after=1", &[]);
    for n in 2..20 {
        let writer = [&one, &other][n % 2].client();
        let item = text_item(&n.to_string(), "assistant", "thought", "t");
        writer
            .post(&format!("{path}/items"), &json!({ "items": [item] }))
            .wrote(201);
        assert_eq!(tail.next().unwrap().id, Some(n as u64));
    }
    overload(&[&one, &other]);
    for server in [&one, &other] {
        assert_eq!(server.client().get_body("/readyz")["status"], "ready");
        let log = server.log();
        assert!(!log.contains("WARN filrouge_postgres"), "{log}");
    }
    let report: Value = machine.json(&["doctor"]);
    assert_eq!(report["ok"], true, "{report}");
    world.verify();
    one.stop();
    other.stop();
}

/// Runs more concurrent writers and readers than the pool has connections.
fn overload(servers: &[&Server]) {
    std::thread::scope(|scope| {
        for n in 0..16 {
            let client = servers[n % servers.len()].client();
            scope.spawn(move || {
                for m in 0..10 {
                    let body = json!({ "request_id": format!("{n}-{m}"), "question_neutral": "?", "answer_neutral": "!" });
                    client.post(&format!("/t{}/turns", n % 4), &body).wrote(201);
                    client.get_body(&format!("/t{}/items", n % 4));
                }
            });
        }
    });
    for session in 0..4 {
        let turns = servers[0].client().all(&format!("/t{session}/turns"), 50);
        assert_eq!(turns.len(), 40);
    }
}

#[test]
fn two_servers_poll_for_each_others_commits() {
    test_two_servers(false);
}

#[test]
fn two_servers_are_notified_of_each_others_commits() {
    test_two_servers(true);
}
