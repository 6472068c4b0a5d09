//! A second identity for a session is refused, counted and told of, whichever way it comes.

use serde_json::json;

use crate::hot::{CANARY, ephemeral, whole};
use crate::limits::metric;
use crate::world::World;

#[test]
fn each_refusal_is_one_line_and_one_count() {
    for durable in ["all", "authenticated"] {
        let world = World::new();
        let server = ephemeral(&world, &[("FILROUGE_DURABLE", durable)]);
        let nobody = server.client();
        let bob = nobody.of("bob");
        let refused = || metric(&nobody, "filrouge_links_refused_total");
        nobody
            .of("ada")
            .post("/v/turns", &whole("r1", "One?", "1"))
            .wrote(201);
        bob.put("/v/link", &json!({ "identity_id": "bob" }))
            .fails(409, "session_linked");
        assert_eq!(refused(), 1.0);
        let mine = whole("r2", "Mine?", CANARY);
        bob.post("/v/turns", &mine).fails(409, "session_conflict");
        assert_eq!(refused(), 2.0);
        // Nobody is no second owner.
        nobody
            .post("/v/turns", &mine)
            .fails(409, "session_conflict");
        assert_eq!(refused(), 2.0);
        let log = server.log();
        let told = log.lines().filter(|line| line.contains("LINK_REFUSED]"));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 2, "{log}");
        let ids = ["tenant_id=default", "session_id=v", "identity_id=bob"];
        for line in told {
            assert!(ids.iter().all(|id| line.contains(id)), "{line}");
            assert!(!line.contains(CANARY), "{line}");
        }
        server.stop();
    }
}
