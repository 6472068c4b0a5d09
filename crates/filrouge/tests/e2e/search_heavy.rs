//! A slow search stops when its client disconnects.

use std::io::Write;

use crate::limits::{connect, metric, until};
use crate::search_http::{found, send_search, target, turn};
use crate::world::World;

/// Every state of this expression stays active: matching the text below would take minutes.
const HEAVY: &str = "[a-d][a-p ]{0,8000}[q-z]{2}";

#[test]
fn a_client_that_disconnects_stops_its_search() {
    let world = World::new();
    let settings = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_LIMITS_LARGE_ANSWERS", "1"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let client = server.client();
    let text = "abcdefgh ijklmnop ".repeat(60_000);
    turn(&client, "long", "r", ("a lantern", &text));
    assert_eq!(found(&client, &[("q", "lantern")]), ["long"]);
    for _ in 0..3 {
        let mut stream = connect(&server);
        let target = target(&[("regex", HEAVY)]);
        let head = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // The request of the metrics is counted too.
        let in_flight = || metric(&client, "filrouge_http_requests_in_flight");
        until("the search has begun", || in_flight() >= 2.0);
        drop(stream);
        until("the search has stopped", || in_flight() < 2.0);
    }
    // All searches share one slot, because `large_answers` is 1. It must be free again.
    assert_eq!(found(&client, &[("q", "lantern")]), ["long"]);
    send_search(&client, &[("regex", "lan.ern$")]).is(200);
    server.stop();
}
