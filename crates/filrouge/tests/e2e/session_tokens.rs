//! Session tokens: the secrets that protect anonymous sessions (DESIGN §7).

use serde_json::json;

use crate::caller::{Caller, key};
use crate::world::World;

/// The environment of a server that gives each anonymous session a secret.
const REQUIRED: [(&str, &str); 2] = [
    ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ("FILROUGE_REQUIRE_SESSION_TOKEN", "true"),
];
const TOKEN_HEADER: &str = "filrouge-session-token";

#[test]
fn a_session_gets_a_secret_that_reads_and_links_require() {
    let world = World::new();
    let server = world.serve_with_env(&REQUIRED, &[]);
    let anonymous = Caller::anonymous(&server);
    let created = anonymous.post("", &json!({ "session_id": "s" }));
    created.wrote(201);
    let secret = created.header(TOKEN_HEADER).unwrap().to_owned();
    // Long enough for 256 bits.
    assert!(secret.len() >= 43, "{secret}");
    assert!(!created.text.contains(&secret));
    let holder = anonymous.with(TOKEN_HEADER, &secret);
    let repeated = holder.post("", &json!({ "session_id": "s" }));
    repeated.wrote(200);
    assert_eq!(repeated.header(TOKEN_HEADER), None);
    let guess = anonymous.with(TOKEN_HEADER, &"0".repeat(64));
    for stranger in [&anonymous, &guess, &anonymous.for_identity("ada")] {
        stranger.get("/s").fails(404, "session_not_found");
        stranger.get("/s/items").fails(404, "session_not_found");
        let taken = stranger.post("", &json!({ "session_id": "s" }));
        taken.fails(409, "session_conflict");
        assert_eq!(taken.header(TOKEN_HEADER), None);
        let link = json!({ "identity_id": "ada" }).to_string();
        let linked = stranger.send("PUT", "/api/v1/sessions/s/link", Some(&link));
        linked.fails(404, "session_not_found");
    }
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    holder.post("/s/turns", &turn).wrote(201);
    assert_eq!(holder.get("/s").is(200)["turn_count"], 1);
    let link = json!({ "identity_id": "ada" }).to_string();
    let linked = holder
        .for_identity("ada")
        .send("PUT", "/api/v1/sessions/s/link", Some(&link));
    assert_eq!(linked.status, 200, "{linked:?}");
    anonymous.for_identity("ada").get("/s").is(200);
    holder.get("/s").fails(404, "session_not_found");
    let log = server.log();
    assert!(!log.contains(&secret), "{log}");
    server.stop();
    world.verify();
}

#[test]
fn an_anonymous_session_of_an_admin_gets_a_secret() {
    let world = World::new();
    let admin = key(&world, &["--role", "admin"]);
    let service = key(&world, &["--role", "service"]);
    let server = world.serve_with_env(&REQUIRED, &[]);
    let (admin, service) = (
        Caller::with_credentials(&server, &admin),
        Caller::with_credentials(&server, &service),
    );
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    for (session, created) in [
        ("s", admin.post("", &json!({ "session_id": "s" }))),
        ("t", admin.post("/t/turns", &turn)),
    ] {
        created.wrote(201);
        let path = format!("/{session}");
        let secret = created.header(TOKEN_HEADER).expect("a secret").to_owned();
        for stranger in [&service, &service.for_identity("ada")] {
            stranger.get(&path).fails(404, "session_not_found");
            let link = json!({ "identity_id": "ada" }).to_string();
            let target = format!("/api/v1/sessions/{session}/link");
            let linked = stranger.send("PUT", &target, Some(&link));
            linked.fails(404, "session_not_found");
        }
        service.with(TOKEN_HEADER, &secret).get(&path).is(200);
        admin.get(&path).is(200);
    }
    // Only the creation of an anonymous session returns a secret: no replay does, and no write to an owned session.
    let repeated = admin.post("/t/turns", &turn);
    repeated.wrote(200);
    assert_eq!(repeated.header(TOKEN_HEADER), None);
    let owned = service
        .for_identity("ada")
        .post("", &json!({ "session_id": "u" }));
    owned.wrote(201);
    assert_eq!(admin.post("/u/turns", &turn).header(TOKEN_HEADER), None);
    server.stop();
    world.verify();
}

#[test]
fn a_caller_that_sends_its_own_secret_can_retry() {
    let world = World::new();
    let server = world.serve_with_env(&REQUIRED, &[]);
    let anonymous = Caller::anonymous(&server);
    let own = anonymous.with(TOKEN_HEADER, "a-secret-of-my-own");
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    let first = own.post("/s/turns", &turn);
    first.wrote(201);
    assert_eq!(first.header(TOKEN_HEADER), None);
    own.post("/s/turns", &turn).wrote(200);
    anonymous.get("/s").fails(404, "session_not_found");
    assert_eq!(own.get("/s").is(200)["turn_count"], 1);

    let created = anonymous.post("/t/turns", &turn);
    created.wrote(201);
    let secret = created.header(TOKEN_HEADER).expect("a secret").to_owned();
    anonymous.get("/t").fails(404, "session_not_found");
    let holder = anonymous.with(TOKEN_HEADER, &secret);
    assert_eq!(holder.get("/t").is(200)["turn_count"], 1);
    let second = json!({ "request_id": "q", "question_neutral": "?" });
    assert_eq!(holder.post("/t/turns", &second).header(TOKEN_HEADER), None);

    let owned = anonymous
        .for_identity("ada")
        .post("", &json!({ "session_id": "u" }));
    owned.wrote(201);
    assert_eq!(
        owned.header(TOKEN_HEADER),
        None,
        "owned sessions need no secret"
    );
    for wrong in ["short", "with a space in it", &"x".repeat(257)] {
        let refused = anonymous.with(TOKEN_HEADER, wrong).get("/s");
        let body = refused.fails(422, "invalid");
        assert!(!body.to_string().contains("space in it"));
    }
    server.stop();
    world.verify();
}

#[test]
fn without_the_setting_only_a_secret_of_the_caller_protects_a_session() {
    let world = World::new();
    let server = world.serve();
    let anonymous = Caller::anonymous(&server);
    let created = anonymous.post("", &json!({ "session_id": "open" }));
    created.wrote(201);
    assert_eq!(created.header(TOKEN_HEADER), None);
    anonymous.get("/open").is(200);
    let own = anonymous.with(TOKEN_HEADER, "0123456789abcdef");
    own.post("", &json!({ "session_id": "closed" })).wrote(201);
    anonymous.get("/closed").fails(404, "session_not_found");
    own.get("/closed").is(200);
    server.stop();
    world.verify();
}
