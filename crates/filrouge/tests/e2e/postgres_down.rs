//! The database stops while a server runs, and starts again: the server reports clear errors and needs no restart.

use filrouge_testbed::{Options, Server as PostgresServer};
use serde_json::json;

use crate::http::text_item;
use crate::limits::{metric, until};
use crate::tail_client::Tail;
use crate::upload_client::turn;
use crate::world::World;

#[test]
fn a_server_reports_a_lost_database_and_continues_when_it_is_back() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut tail = Tail::open(server.origin(), "/s/items?after=0", &[]);
    assert_eq!(tail.next().unwrap().id, Some(1));
    postgres.stop_immediate();

    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded", "{ready}");
    assert!(
        ready["store"].as_str().unwrap().contains("PostgreSQL"),
        "{ready}"
    );
    assert_eq!(client.get_body("/healthz")["status"], "ok");
    assert!(metric(&client, "filrouge_http_requests_total") >= 0.0);
    assert_eq!(client.get("/metrics").status, 200);
    let item = json!({ "items": [text_item("late", "assistant", "thought", "t")] });
    let items = format!("{path}/items");
    let refused = client.post(&items, &item).fails(503, "store_unavailable");
    assert!(refused["hint"].is_string(), "{refused}");
    client.get("/s").fails(503, "store_unavailable");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("FAILED  store"), "{doctor:?}");

    postgres.restart();
    until("the server answers again", || {
        client.get_body("/readyz")["store"].is_null()
    });
    let written = client.post(&items, &item).wrote(201);
    assert_eq!(written["last_seq"], 2);
    // The search index retries every two seconds.
    until("every part is ready", || {
        client.get_body("/readyz")["status"] == "ready"
    });
    // The tail shows new items. If the server has ended it, a reconnected one does.
    let id = match tail.next() {
        Some(event) => event.id,
        None => {
            let mut tail = Tail::open(server.origin(), "/s/items", &[("last-event-id", "1")]);
            tail.next().unwrap().id
        }
    };
    assert_eq!(id, Some(2));
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    server.stop();
    world.verify();
}
