//! Linking a session to a second identity is refused, counted, logged and in the audit, in both scopes.

use serde_json::json;

use crate::hot::{CANARY, complete_turn_json, ephemeral};
use crate::limits::metric;
use crate::world::World;

#[test]
fn each_refusal_is_counted_and_logged_once() {
    for durable in ["all", "authenticated"] {
        let world = World::new();
        let server = ephemeral(&world, &[("FILROUGE_DURABLE", durable)]);
        let anonymous = server.client();
        let bob = anonymous.for_identity("bob");
        let refused = || metric(&anonymous, "filrouge_links_refused_total");
        anonymous
            .for_identity("ada")
            .post("/v/turns", &complete_turn_json("r1", "One?", "1"))
            .wrote(201);
        bob.put("/v/link", &json!({ "identity_id": "bob" }))
            .fails(409, "session_linked");
        assert_eq!(refused(), 1.0);
        let body = complete_turn_json("r2", "Mine?", CANARY);
        bob.post("/v/turns", &body).fails(409, "session_conflict");
        assert_eq!(refused(), 2.0);
        // An anonymous caller is not a second owner.
        anonymous
            .post("/v/turns", &body)
            .fails(409, "session_conflict");
        assert_eq!(refused(), 2.0);
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains("LINK_REFUSED]"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 2, "{log}");
        let ids = [
            "tenant_id=default",
            "session_id=v",
            "identity_id=bob",
            "owner=ada",
        ];
        for line in lines {
            assert!(ids.iter().all(|id| line.contains(id)), "{line}");
            assert!(!line.contains(CANARY), "{line}");
        }
        // The audit has one row, for the first attempt, whether it shows one session, all, or one end user.
        for filter in [
            "",
            "?session_id=v",
            "?identity_id=bob",
            "?identity_id=ada&limit=1",
        ] {
            let mut rows = Vec::new();
            let mut path = format!("/api/v1/audit{filter}");
            loop {
                let page = anonymous.send_without_body("GET", &path, "").is(200);
                rows.extend(page["data"].as_array().unwrap().clone());
                let Some(next) = page["next_cursor"].as_str() else {
                    break;
                };
                let separator = if filter.is_empty() { '?' } else { '&' };
                path = format!("/api/v1/audit{filter}{separator}cursor={next}");
            }
            let refusals: Vec<_> = rows.iter().filter(|row| row["seq"].is_null()).collect();
            assert_eq!(refusals.len(), 1, "{filter}: {rows:?}");
            assert_eq!(refusals[0]["channel"], "link");
            assert_eq!(refusals[0]["identity_id"], "ada");
            let detail = json!([{ "type": "link_refused", "identity_id": "bob", "owner": "ada" }]);
            assert_eq!(refusals[0]["detail"], detail);
        }
        server.stop();
        world.verify();
    }
}
