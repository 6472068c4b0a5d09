//! The log lines of live calls, compared with their published format (DESIGN §12).

use serde_json::{Value, json};

use crate::http::Client;
use crate::leases::serve_with;
use crate::world::World;

/// The name of the store in the log lines of these tests.
pub(crate) fn source() -> &'static str {
    match std::env::var_os("FILROUGE_TEST_STORE") {
        Some(_) => "pg",
        None => "sqlite",
    }
}

/// The log lines that contain this marker, without the text before it.
fn lines<'l>(log: &'l str, marker: &str) -> Vec<&'l str> {
    let found = log
        .lines()
        .filter_map(|line| line.find(marker).map(|at| &line[at..]));
    found.collect()
}

/// Plays a call: a resume, a turn, a checkpoint, a lease that another holder waits for in vain, and a second resume.
fn call(client: &Client) {
    client
        .post("/call-1/resume", &json!({"holder": "a", "create": true}))
        .wrote(201);
    let turn = json!({"request_id": "r", "question_neutral": "book", "answer_neutral": "two or three?", "fence": 1});
    client.post("/call-1/turns", &turn).wrote(201);
    let checkpoint = json!({"label": "WAIT_CONFIRM", "state": {"slots": [2, 3]}, "fence": 1});
    client.put("/call-1/checkpoints", &checkpoint).wrote(201);
    client
        .post("/call-1/lease", &json!({"holder": "b", "wait_ms": 1}))
        .fails(423, "lease_timeout");
    client.delete("/call-1/lease?holder=a&fence=1").wrote(200);
    client
        .post("/call-1/resume", &json!({"holder": "b"}))
        .wrote(200);
}

#[test]
fn the_log_lines_of_live_calls_have_the_published_format() {
    let world = World::new();
    let server = serve_with(&world, &[("FILROUGE_TENANT", "1")]);
    call(&server.client());
    let source = source();
    let log = server.log();
    for expected in [
        "[CALL_LOCK] acquired tenant_id=1 call_id=call-1".to_owned(),
        format!(
            "[CALL_RESUME] source={source} tenant_id=1 call_id=call-1 state=- ck_seq=0 last_seq=0"
        ),
        "[CALL_JOURNAL] tenant_id=1 call_id=call-1 seq=1 role=user".to_owned(),
        "[CALL_JOURNAL] tenant_id=1 call_id=call-1 seq=2 role=agent".to_owned(),
        "[CHECKPOINT] tenant_id=1 call_id=call-1 seq=2 state=WAIT_CONFIRM".to_owned(),
        "[CALL_LOCK_TIMEOUT] tenant_id=1 call_id=call-1".to_owned(),
        format!(
            "[CALL_RESUME] source={source} tenant_id=1 call_id=call-1 state=WAIT_CONFIRM ck_seq=2 last_seq=2"
        ),
    ] {
        let marker = expected.split(' ').next().unwrap();
        let found = lines(&log, marker);
        let matches = |line: &&str| {
            line.strip_prefix(&expected)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        assert!(found.iter().any(matches), "{expected}\n{found:#?}");
    }
    assert_eq!(lines(&log, "[CALL_LOCK] acquired").len(), 2, "{log}");
    for content in ["book", "two or three", "slots"] {
        assert!(!log.contains(content), "{content}: {log}");
    }
    server.stop();
}

#[test]
fn a_session_id_cannot_forge_log_fields_and_each_role_is_logged() {
    let world = World::new();
    let server = serve_with(&world, &[("FILROUGE_TENANT", "1")]);
    let client = server.client();
    let call = "/a%20seq=9%20role=user";
    let create = json!({"holder": "h", "create": true});
    client.post(&format!("{call}/resume"), &create).wrote(201);
    let start = json!({"request_id": "r", "question_neutral": "?", "fence": 1});
    let turn = client.post(&format!("{call}/turns"), &start).wrote(201);
    let turn = format!("{call}/turns/{}", turn["turn_id"].as_str().unwrap());
    let items = json!({"items": [{"role": "assistant", "channel": "final", "parts": [{"type": "text", "text": "!"}]}], "fence": 1});
    client.post(&format!("{turn}/items"), &items).wrote(201);
    // The item of the channel `final` becomes the turn's answer, and a `system_note` records this.
    let finalize = json!({"fence": 1, "release": true});
    client
        .post(&format!("{turn}/finalize"), &finalize)
        .wrote(200);
    let log = server.log();
    let logged = lines(&log, "[CALL_JOURNAL]");
    for (seq, role) in [(1, "user"), (2, "agent"), (3, "system")] {
        let line =
            format!("[CALL_JOURNAL] tenant_id=1 call_id=a_seq=9_role=user seq={seq} role={role}");
        assert!(
            logged.iter().any(|logged| logged.starts_with(&line)),
            "{line}\n{logged:#?}"
        );
    }
    assert!(!log.contains("a seq=9"), "{log}");
    server.stop();
}

#[test]
fn json_log_lines_of_live_calls_contain_the_same_fields() {
    let world = World::new();
    let json = [("FILROUGE_LOG_FORMAT", "json"), ("FILROUGE_TENANT", "1")];
    let server = serve_with(&world, &json);
    call(&server.client());
    let log = server.log();
    let logged: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    for expected in [
        json!({"message": "[CALL_LOCK] acquired", "tenant_id": "1", "call_id": "call-1"}),
        json!({"message": "[CALL_LOCK_TIMEOUT]", "tenant_id": "1", "call_id": "call-1", "holder": "a"}),
        json!({"message": "[CALL_JOURNAL]", "tenant_id": "1", "call_id": "call-1", "seq": 2, "role": "agent"}),
        json!({"message": "[CHECKPOINT]", "tenant_id": "1", "call_id": "call-1", "seq": 2, "state": "WAIT_CONFIRM"}),
        json!({"message": "[CALL_RESUME]", "state": "WAIT_CONFIRM", "ck_seq": 2, "last_seq": 2}),
    ] {
        let matches = |line: &Value| {
            let members = expected.as_object().unwrap();
            members
                .iter()
                .all(|(name, value)| line["fields"][name] == *value)
        };
        assert!(logged.iter().any(matches), "{expected}\n{log}");
    }
    server.stop();
}
