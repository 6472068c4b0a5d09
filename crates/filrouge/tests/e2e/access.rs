//! API keys and roles: who gets access, what they can read, and that a refusal reveals nothing (DESIGN §8).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::caller::{Caller, key, key_id, within_five_seconds};
use crate::http::Response;
use crate::world::World;

fn session(id: &str) -> Value {
    json!({ "session_id": id })
}

fn ids(response: &Response) -> Vec<String> {
    let page = response.is(200);
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The parts of a refusal that must be equal for every cause: everything except dates and request ids.
fn comparable_parts(response: &Response) -> (u16, Vec<String>, String) {
    let names = response.headers.iter().map(|(n, v)| match n.as_str() {
        "date" | "filrouge-request-id" | "x-request-id" => n.clone(),
        _ => format!("{n}: {v}"),
    });
    (response.status, names.collect(), response.text.clone())
}

#[test]
fn a_key_gives_access_to_its_tenant_only() {
    let world = World::new();
    let a = key(&world, &["--role", "admin", "--tenant", "a"]);
    let b = key(&world, &["--role", "admin", "--tenant", "b"]);
    let server = world.serve();
    let (a, b) = (
        Caller::with_credentials(&server, &a),
        Caller::with_credentials(&server, &b),
    );
    a.post("", &session("s")).wrote(201);
    assert_eq!(a.get("/s").is(200)["tenant_id"], "a");
    assert_eq!(ids(&a.get("")), ["s"]);
    assert!(ids(&b.get("")).is_empty());
    b.get("/s").fails(404, "session_not_found");
    b.post("", &session("s")).wrote(201);
    assert_eq!(b.get("/s").is(200)["tenant_id"], "b");
    b.for_identity("ada").get("/s/items").is(200);
    server.stop();
    world.verify();
}

#[test]
fn all_bad_credentials_get_the_same_response() {
    let world = World::new();
    let good = key(&world, &["--role", "admin"]);
    let expired = key(&world, &["--role", "admin", "--expires", "1s"]);
    let revoked = key(&world, &["--role", "admin"]);
    world.ok(&["keys", "revoke", key_id(&revoked)]);
    let server = world.serve();
    let anonymous = Caller::anonymous(&server);
    Caller::with_credentials(&server, &good).get("").is(200);
    within_five_seconds("a key expires", || {
        Caller::with_credentials(&server, &expired).get("").status == 401
    });
    let reference = anonymous.get("");
    reference.fails(401, "unauthenticated");
    assert_eq!(reference.header("www-authenticate"), Some("Bearer"));
    let secret = good.rsplit('_').next().unwrap();
    // A valid key except for its last character.
    let last = if good.ends_with('x') { 'y' } else { 'x' };
    let changed = format!("{}{last}", &good[..good.len() - 1]);
    // The id of one key with the secret of another.
    let mixed = format!("frk_{}_{secret}", key_id(&expired));
    for credentials in [
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {good}"),
        good.clone(),
        format!("Bearer {}", expired),
        format!("Bearer {}", revoked),
        format!("Bearer {}", changed),
        format!("Bearer {}", mixed),
        format!("Bearer {}", &good[..good.len() - 1]),
        format!("Bearer {good}, Bearer {good}"),
        format!("Bearer {secret}"),
        "Bearer frk_000000000000_0000000000000000000000000000000000000000000".to_owned(),
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.".to_owned(),
        "Bearer \u{1f511}".to_owned(),
    ] {
        let refused = anonymous.with("authorization", &credentials).get("");
        assert_eq!(
            comparable_parts(&refused),
            comparable_parts(&reference),
            "{credentials}"
        );
    }
    let two_headers =
        Caller::with_credentials(&server, &good).with("authorization", &format!("Bearer {good}"));
    assert_eq!(
        comparable_parts(&two_headers.get("")),
        comparable_parts(&reference)
    );
    for target in [
        format!("/api/v1/sessions?access_token={good}"),
        format!("/api/v1/sessions?api_key={good}"),
        "/api/v1/nothing".to_owned(),
        "/api/v1/sessions/x".to_owned(),
        "/nothing".to_owned(),
    ] {
        let refused = anonymous.send("GET", &target, None);
        assert_eq!(
            comparable_parts(&refused),
            comparable_parts(&reference),
            "{target}"
        );
    }
    server.stop();
}

#[test]
fn a_revoked_key_is_refused_within_five_seconds() {
    let world = World::new();
    let text = key(&world, &["--role", "service"]);
    let server = world.serve();
    let caller = Caller::with_credentials(&server, &text);
    caller.get("").is(200);
    world.ok(&["keys", "revoke", key_id(&text)]);
    within_five_seconds("the revoked key is refused", || {
        caller.get("").status == 401
    });

    let text = key(&world, &["--role", "service"]);
    let late = Caller::with_credentials(&server, &text);
    within_five_seconds("a key is created", || late.get("").status == 200);
    caller.get("").fails(401, "unauthenticated");
    server.stop();
    let again = world.serve();
    Caller::with_credentials(&again, key_id(&text))
        .get("")
        .fails(401, "unauthenticated");
    again.stop();
}

#[test]
fn the_first_key_ends_anonymous_access_to_a_running_server() {
    let world = World::new();
    let server = world.serve();
    let anonymous = Caller::anonymous(&server);
    anonymous.post("", &session("s")).wrote(201);
    assert!(anonymous.send("GET", "/readyz", None).is(200)["status"] == "ready");
    let text = key(&world, &["--role", "service", "--tenant", "elsewhere"]);
    within_five_seconds("the first key applies", || anonymous.get("").status == 401);
    anonymous.get("/s").fails(401, "unauthenticated");
    for path in ["/healthz", "/readyz"] {
        anonymous.send("GET", path, None).is(200);
        let foreign = server
            .client()
            .send_without_body("GET", path, "host: example.org\r\n");
        foreign.is(200);
    }
    // Host and Origin are checked only by servers without keys.
    let foreign = format!("host: example.org\r\nauthorization: Bearer {text}\r\n");
    let client = server.client();
    client
        .send_without_body("GET", "/api/v1/sessions", &foreign)
        .is(200);
    world.ok(&["--tenant", "elsewhere", "keys", "revoke", key_id(&text)]);
    let refused = Caller::with_credentials(&server, &text);
    within_five_seconds("the revoked key is refused", || {
        refused.get("").status == 401
    });
    anonymous.get("").fails(401, "unauthenticated");
    server.stop();
    let again = world.serve();
    Caller::anonymous(&again)
        .get("")
        .fails(401, "unauthenticated");
    again.stop();
}

#[test]
fn listening_beyond_loopback_requires_a_key() {
    let world = World::new();
    let open = ["serve", "--listen", "0.0.0.0:0"];
    let refused = |output: crate::world::CommandOutput| {
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains("keys create"), "{output:?}");
    };
    refused(world.run(&open));
    assert!(world.is_empty());
    world.serve().stop();
    refused(world.run(&open));
    let text = key(&world, &["--role", "service"]);
    let server = world.serve_with_env(&[("FILROUGE_LISTEN", "0.0.0.0:0")], &[]);
    Caller::anonymous(&server)
        .get("")
        .fails(401, "unauthenticated");
    Caller::with_credentials(&server, &text).get("").is(200);
    server.stop();
}

#[test]
fn a_user_key_acts_for_one_identity_and_a_service_key_for_any() {
    let world = World::new();
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let service = key(&world, &["--role", "service"]);
    let auditor = key(&world, &["--role", "auditor"]);
    let server = world.serve();
    let user = Caller::with_credentials(&server, &user);
    let service = Caller::with_credentials(&server, &service);
    let auditor = Caller::with_credentials(&server, &auditor);
    let created = user.post("", &session("hers")).wrote(201);
    assert_eq!(created["identity_id"], "ada");
    user.for_identity("ada").get("/hers").is(200);
    user.for_identity("bob")
        .get("/hers")
        .fails(403, "forbidden");
    user.for_identity("bob")
        .post("", &session("x"))
        .fails(403, "forbidden");
    user.for_identity("ada")
        .for_identity("bob")
        .get("/hers")
        .fails(422, "invalid");

    service
        .for_identity("bob")
        .post("", &session("his"))
        .wrote(201);
    service.post("", &session("open")).wrote(201);
    service.for_identity("ada").get("/hers").is(200);
    service
        .for_identity("bob")
        .get("/hers")
        .fails(404, "session_not_found");
    service.get("/hers").fails(404, "session_not_found");
    user.get("/his").fails(404, "session_not_found");
    assert_eq!(ids(&service.get("")), ["open"]);
    assert_eq!(ids(&service.for_identity("bob").get("")), ["his"]);
    assert_eq!(ids(&user.get("")), ["hers"]);
    assert_eq!(ids(&user.get("?identity_id=bob")), [""; 0]);

    let mut all = ids(&auditor.get(""));
    all.sort();
    assert_eq!(all, ["hers", "his", "open"]);
    auditor.get("/hers/items").is(200);
    assert_eq!(ids(&auditor.for_identity("bob").get("")), ["his"]);
    auditor.post("", &session("x")).fails(403, "forbidden");
    server.stop();
    world.verify();
}

/// The ids of the sessions that a caller can list, sorted.
fn listed(caller: &Caller) -> Vec<String> {
    let mut all = ids(&caller.get(""));
    all.sort();
    all
}

#[test]
fn anonymous_sessions_are_listed_for_anonymous_callers() {
    const SESSION_TOKEN: (&str, &str) = ("filrouge-session-token", "0123456789abcdef");
    let world = World::new();
    let server = world.serve();
    let local = Caller::anonymous(&server);
    local.post("", &session("open")).wrote(201);
    let with_token = local.with(SESSION_TOKEN.0, SESSION_TOKEN.1);
    with_token.post("", &session("tokened")).wrote(201);
    local
        .for_identity("ada")
        .post("", &session("hers"))
        .wrote(201);
    assert_eq!(listed(&local), ["open"]);
    assert_eq!(listed(&with_token), ["tokened"]);
    assert_eq!(listed(&local.for_identity("ada")), ["hers"]);
    server.stop();
    let roles = ["service", "auditor", "admin"].map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let server = world.serve();
    let [service, auditor, admin] = roles.map(|text| Caller::with_credentials(&server, &text));
    assert_eq!(listed(&service), ["open"]);
    assert_eq!(
        listed(&service.with(SESSION_TOKEN.0, SESSION_TOKEN.1)),
        ["tokened"]
    );
    assert_eq!(listed(&service.for_identity("ada")), ["hers"]);
    assert_eq!(listed(&Caller::with_credentials(&server, &user)), ["hers"]);
    for tenant in [&auditor, &admin] {
        assert_eq!(listed(tenant), ["hers", "open", "tokened"]);
        assert_eq!(listed(&tenant.for_identity("ada")), ["hers"]);
    }
    let turn = json!({ "request_id": "r", "question_neutral": "?" });
    let bob = service.for_identity("bob").post("/hers/turns", &turn);
    bob.fails(409, "session_conflict");
    // A header contains a non-ASCII identity as raw UTF-8, not percent-encoded.
    service
        .for_identity("zoë")
        .post("", &session("of-zoë"))
        .wrote(201);
    assert_eq!(
        service.for_identity("zoë").get("/of-zo%C3%AB").is(200)["identity_id"],
        "zoë"
    );
    let encoded = service.for_identity("zo%C3%AB").get("/of-zo%C3%AB");
    encoded.fails(404, "session_not_found");
    server.stop();
}

/// The table of `docs/access.md`: permission → role → cell.
fn documented_grants() -> BTreeMap<String, BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|c| c.trim().to_owned()).collect::<Vec<_>>()
    });
    let mut rows = rows.skip_while(|cells| cells[0] != "permission");
    let head = rows.next().unwrap();
    rows.skip(1)
        .map(|cells| {
            let grants = head.iter().cloned().zip(cells.clone()).skip(2);
            (cells[0].trim_matches('`').to_owned(), grants.collect())
        })
        .collect()
}

/// Permission, method, target and body of requests. Their session does not exist, so allowed requests change nothing.
const ROUTES: [(&str, &str, &str, Option<&str>); 17] = [
    ("read", "GET", "/api/v1/sessions", None),
    ("read", "GET", "/api/v1/sessions/absent", None),
    ("read", "GET", "/api/v1/sessions/absent/items", None),
    ("read", "GET", "/api/v1/sessions/absent/turns", None),
    ("read", "GET", "/api/v1/sessions/absent/context", None),
    ("read", "GET", "/api/v1/sessions/absent/export", None),
    ("read", "GET", "/api/v1/sessions/absent/verify", None),
    ("write", "POST", "/api/v1/sessions/absent/turns", Some("{}")),
    (
        "write",
        "POST",
        "/api/v1/sessions/absent/turns/11111111-1111-8111-8111-111111111111/items",
        Some(r#"{"items":[{"item_id":"i","role":"user","channel":"plan","parts":[]}]}"#),
    ),
    (
        "write",
        "POST",
        "/api/v1/sessions/absent/turns/11111111-1111-8111-8111-111111111111/finalize",
        Some(r#"{"answer_neutral":"!"}"#),
    ),
    (
        "redact",
        "POST",
        "/api/v1/sessions/absent/turns/11111111-1111-8111-8111-111111111111/redact",
        Some(r#"{"reason":"x"}"#),
    ),
    (
        "redact",
        "POST",
        "/api/v1/sessions/absent/redact",
        Some(r#"{"seqs":[[1,1]],"reason":"x"}"#),
    ),
    ("erase", "DELETE", "/api/v1/sessions/absent", None),
    (
        "link",
        "PUT",
        "/api/v1/sessions/absent/link",
        Some(r#"{"identity_id":"ada"}"#),
    ),
    (
        "include_redacted",
        "GET",
        "/api/v1/sessions/absent/turns?include_redacted=true",
        None,
    ),
    ("audit", "GET", "/api/v1/audit", None),
    ("observe", "GET", "/metrics", None),
];

/// Checks that a role has exactly the documented permissions, with and without acting for an end user.
fn check_roles(role: &str, caller: &Caller) {
    let table = documented_grants();
    for (permission, method, target, body) in ROUTES {
        for (acting, caller) in [(false, caller.clone()), (true, caller.for_identity("ada"))] {
            let response = caller.send(method, target, body);
            let grant = table[permission][role].as_str();
            let allowed = match grant {
                "yes" => true,
                "alone" => !acting,
                _ => false,
            };
            let context = format!(
                "{role} (acting for an end user: {acting}) {method} {target}: {response:?}"
            );
            if allowed {
                assert!(![401, 403, 405].contains(&response.status), "{context}");
                assert_ne!(response.header("content-type"), None, "{context}");
            } else {
                response.fails(403, "forbidden");
            }
        }
    }
}

#[test]
fn every_role_has_the_permissions_of_the_table() {
    let world = World::new();
    let without = World::new();
    let open = without.serve();
    check_roles("no keys", &Caller::anonymous(&open));
    open.stop();
    let keys = ["service", "user", "auditor", "admin"].map(|role| {
        let identity: &[&str] = if role == "user" {
            &["--identity", "ada"]
        } else {
            &[]
        };
        (role, key(&world, &[&["--role", role], identity].concat()))
    });
    let server = world.serve();
    for (role, text) in &keys {
        check_roles(role, &Caller::with_credentials(&server, text));
    }
    server.stop();
    world.verify();
}
