//! Credentials reach no log, response or metric, wherever a request contains them (DESIGN §8).

use serde_json::json;

use crate::caller::{Caller, key, within_five_seconds};
use crate::world::World;

/// The text that every request contains as a credential.
const CANARY: &str = "c4n4ryT0k3n";

/// Sends the canary wherever credentials belong, and where callers may send them by mistake; returns all responses.
fn send_everywhere(anonymous: &Caller, valid: &Caller) -> Vec<String> {
    let mut answers = Vec::new();
    for (name, value) in [
        ("authorization", format!("Bearer {CANARY}")),
        (
            "authorization",
            format!("Bearer frk_{CANARY}0_{CANARY:0<43}"),
        ),
        (
            "authorization",
            format!("Bearer {CANARY}.{CANARY}.{CANARY}"),
        ),
        ("authorization", format!("Basic {CANARY}")),
        ("authorization", CANARY.to_owned()),
        ("authorization", format!("Bearer {CANARY}, Bearer {CANARY}")),
        ("authorization", format!("Bearer \u{e9}{CANARY}")),
        ("proxy-authorization", format!("Basic {CANARY}")),
        ("cookie", format!("session={CANARY}")),
        ("x-api-key", CANARY.to_owned()),
        ("filrouge-session-token", format!("{CANARY}-{CANARY}")),
        ("filrouge-session-token", CANARY.to_owned()),
        (
            "filrouge-session-token",
            format!("{CANARY} \u{e9} {CANARY}"),
        ),
    ] {
        for caller in [anonymous, valid] {
            let caller = caller.with(name, &value);
            for target in [
                "/api/v1/sessions",
                "/api/v1/sessions/s/turns",
                "/readyz",
                "/metrics",
                "/x",
            ] {
                answers.push(caller.send("GET", target, None).text);
            }
        }
    }
    for caller in [anonymous, valid] {
        for target in [
            format!("/api/v1/sessions?access_token={CANARY}"),
            format!("/api/v1/sessions?limit={CANARY}"),
            format!("/api/v1/sessions/s/turns?api_key={CANARY}&token={CANARY}"),
            format!("/healthz?token={CANARY}"),
            format!("/api/v1/nothing?token={CANARY}"),
        ] {
            answers.push(caller.send("GET", &target, None).text);
        }
        for body in [
            json!({ "request_id": "a", "question_neutral": "?", "runtime_context": { "token": CANARY } }),
            json!({ "request_id": "b", "question_neutral": "?",
                "runtime_context": { "headers": { "authorization": [CANARY] }, "channel": "web" } }),
        ] {
            answers.push(caller.post("/s/turns", &body).text);
        }
        answers.push(caller.send("GET", "/api/v1/sessions/s/items", None).text);
        answers.push(caller.send("GET", "/api/v1/sessions/s/export", None).text);
    }
    answers
}

#[test]
fn credentials_appear_only_in_the_request() {
    let world = World::new();
    let environment = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_LOG", "trace"),
        ("FILROUGE_REQUIRE_SESSION_TOKEN", "true"),
    ];
    let server = world.serve_with_env(&environment, &[]);
    let anonymous = Caller::anonymous(&server);
    let mut answers = send_everywhere(&anonymous, &anonymous.for_identity("ada"));
    let text = key(&world, &["--role", "admin"]);
    within_five_seconds("the first key applies", || anonymous.get("").status == 401);
    let admin = Caller::with_credentials(&server, &text);
    answers.extend(send_everywhere(&anonymous, &admin));
    let metrics = admin.send("GET", "/metrics", None);
    assert_eq!(metrics.status, 200, "{metrics:?}");
    answers.push(metrics.text);
    let secret = text.rsplit('_').next().unwrap();
    for answer in &answers {
        assert!(
            !answer.contains(CANARY) && !answer.contains(secret),
            "{answer}"
        );
    }
    let log = server.log();
    assert!(
        log.contains("TRACE") || log.contains("DEBUG") || log.contains("INFO"),
        "{log}"
    );
    server.stop();
    for credential in [CANARY, secret] {
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains(credential))
            .collect();
        assert!(lines.is_empty(), "{lines:?}");
    }
    for credential in [CANARY, secret] {
        world.assert_not_stored(credential);
    }
    world.verify();
}
