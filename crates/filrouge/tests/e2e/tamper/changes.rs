//! The change feed names a session whose row somebody has given to another tenant.

use serde_json::json;

use super::{change_rows, named, session_ids};
use crate::caller::{Caller, key};
use crate::world::{Server, World};

const FEED: &str = "/api/v1/changes?limit=500";

/// Reads the feed as the owner, an operator, and somebody else.
fn check(server: &Server, [admin, service]: [&str; 2]) {
    let user = |name| Caller::with_credentials(server, service).for_identity(name);
    let feed = user("ann").send("GET", FEED, None).is(200);
    assert_eq!(session_ids(&feed, "data"), ["other"], "{feed}");
    assert_eq!(named(&feed), ["erased", "live"], "{feed}");
    let feed = Caller::with_credentials(server, admin).send("GET", FEED, None);
    let feed = feed.is(200);
    assert_eq!(session_ids(&feed, "data"), ["his", "other"], "{feed}");
    assert_eq!(named(&feed), ["erased", "live"], "{feed}");
    let feed = user("bob").send("GET", FEED, None).is(200);
    assert_eq!(session_ids(&feed, "data"), ["his"], "{feed}");
    assert_eq!(named(&feed), [""; 0], "{feed}");
}

#[test]
fn sessions_that_look_like_another_tenants_are_named() {
    for (world, schema) in [
        (World::on_sqlite(), ""),
        (World::on_postgres(), "filrouge."),
    ] {
        let keys = ["admin", "service"].map(|role| key(&world, &["--role", role]));
        let [admin, service] = &keys;
        let server = world.serve();
        for (owner, session) in [
            ("ann", "live"),
            ("ann", "erased"),
            ("ann", "other"),
            ("bob", "his"),
        ] {
            let user = Caller::with_credentials(&server, service).for_identity(owner);
            let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
            user.post(&format!("/{session}/turns"), &turn).is(201);
            if session == "erased" {
                let target = format!("/api/v1/sessions/{session}");
                user.send("DELETE", &target, None).is(200);
            }
        }
        let moved =
            "UPDATE {}session SET tenant_id = 'elsewhere' WHERE session_id IN ('live', 'erased')";
        change_rows(&world, schema, moved);
        check(&server, [admin, service]);
        server.stop();
        let server = world.serve();
        check(&server, [admin, service]);
        server.stop();
        let verified = world.run(&["verify"]);
        assert_eq!(verified.code, Some(1), "{verified:?}");
    }
}
