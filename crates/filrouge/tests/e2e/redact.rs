//! Redaction over HTTP and on the command line: the text is removed from every answer and every file.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Client;
use crate::import::import;
use crate::world::{World, copy_tree, fixture};

const SECRET: &str = "the-launch-code-is-80085";

/// Records a complete turn about `words`.
fn whole(client: &Client, session: &str, request: &str, words: &str) -> Value {
    let body = json!({ "request_id": request, "question_neutral": format!("{words}?"),
        "answer_neutral": format!("{words}!"), "items": [{ "item_id": format!("{request}-i"),
        "role": "assistant", "channel": "plan", "parts": [{ "type": "text", "text": words }] }] });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

fn path(session: &str, turn: &Value) -> String {
    format!("/{session}/turns/{}", turn["turn_id"].as_str().unwrap())
}

#[test]
fn a_turn_is_redacted_over_http() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().of("ada");
    let kept = whole(&ada, "s", "r1", "kept");
    let turn = whole(&ada, "s", "r2", SECRET);
    let at = path("s", &turn);
    let reason = json!({ "reason": "asked to by the user" });
    let gone = ada.post(&format!("{at}/redact"), &reason).wrote(200);
    assert_eq!(gone["turn_id"], turn["turn_id"]);
    assert_eq!(gone["replayed"], false);
    for text in ["question_neutral", "answer_neutral"] {
        assert_eq!(gone[text], Value::Null);
    }
    assert!(gone["deleted_at"].is_string());
    assert_eq!(ada.see(&at), gone);
    let again = ada.post(&format!("{at}/redact"), &reason).wrote(200);
    assert_eq!(
        (&again["replayed"], &again["deleted_at"]),
        (&json!(true), &gone["deleted_at"])
    );

    let items = ada.all("/s/items", 2);
    let redacted: Vec<&Value> = items.iter().filter(|i| i["redacted"] == true).collect();
    assert_eq!(redacted.len(), 3);
    assert!(redacted.iter().all(|i| i["parts"] == json!([])));
    let reported = items.last().unwrap();
    assert_eq!(
        (
            &reported["seq"],
            &reported["channel"],
            &reported["role"],
            &reported["turn_id"]
        ),
        (
            &json!(7),
            &json!("redaction"),
            &json!("system"),
            &Value::Null
        )
    );
    assert_eq!(
        reported["parts"],
        json!([{ "type": "redaction", "seqs": [[4, 6]], "turn_id": turn["turn_id"], "by": "ada",
            "reason": "asked to by the user" }])
    );

    for list in [
        "/s/turns",
        "/s/turns?status=finalized",
        "/s/turns?include_redacted=false",
    ] {
        let page = ada.see(list);
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(page["data"][0]["turn_id"], kept["turn_id"], "{list}");
    }
    assert_eq!(ada.see("/s/turns?request_id=r2")["data"], json!([]));
    for list in [
        "/s/turns?",
        "/s/turns?status=finalized&",
        "/s/turns?request_id=r2&",
    ] {
        let list = format!("{list}include_redacted=true");
        ada.get(&list).fails(403, "forbidden");
        let page = server.client().see(&list);
        let last = page["data"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["deleted_at"], gone["deleted_at"], "{list}");
    }
    ada.get("/s/turns?include_redacted=maybe")
        .fails(422, "invalid");
    let everything = [
        "",
        "/items",
        "/turns?include_redacted=true",
        "/context",
        "/verify",
    ];
    for read in everything {
        let text = ada.get(&format!("/s{read}")).text;
        assert!(!text.contains(SECRET), "{read}");
    }
    world.holds_nowhere(SECRET);
    server.stop();
    world.holds_nowhere(SECRET);
    world.verify();
}

#[test]
fn invalid_redactions_are_refused() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (server.client().of("ada"), server.client().of("bob"));
    let turn = whole(&ada, "s", "r", "words");
    let at = format!("{}/redact", path("s", &turn));
    for body in [
        json!({}),
        json!({ "reason": "" }),
        json!({ "reason": null }),
        json!({ "reason": 7 }),
        json!({ "reason": "a", "more": 1 }),
    ] {
        ada.post(&at, &body).fails(422, "invalid");
    }
    ada.post(&at, &json!({ "reason": "x".repeat(4097) }))
        .fails(422, "limit_exceeded");
    ada.post_text(&at, "{").fails(400, "bad_request");
    ada.post_text(&at, "[]").fails(422, "invalid");
    let open = json!({ "request_id": "open", "question_neutral": "?" });
    let open = ada.post("/s/turns", &open).wrote(201);
    let reason = json!({ "reason": "x" });
    let refused = ada
        .post(&format!("{}/redact", path("s", &open)), &reason)
        .fails(409, "turn_open");
    assert!(refused["hint"].is_string());
    // A foreign session and a foreign turn look absent (P6).
    whole(&bob, "b", "r", "words");
    let absent = json!({ "turn_id": "11111111-1111-8111-8111-111111111111" });
    let foreign = |at: &str| bob.post(at, &reason);
    let missing = foreign(&at.replace("/s/", "/x/"));
    missing.fails(404, "session_not_found");
    let theirs = foreign(&at);
    assert_eq!(theirs.text.replace("\\\"s\\\"", "\\\"x\\\""), missing.text);
    assert_eq!(theirs.status, missing.status);
    let missing = foreign(&format!("{}/redact", path("b", &absent)));
    missing.fails(404, "turn_not_found");
    let theirs = foreign(&format!("{}/redact", path("b", &turn)));
    let id = |turn: &Value| turn["turn_id"].as_str().unwrap().to_owned();
    assert_eq!(theirs.text.replace(&id(&turn), &id(&absent)), missing.text);
    assert_eq!(ada.see(&path("s", &turn))["deleted_at"], Value::Null);
    let longest = json!({ "reason": "x".repeat(4096) });
    ada.post(&at, &longest).wrote(200);
    server.stop();
    world.verify();
}

#[test]
fn a_turn_is_redacted_on_the_command_line() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let first = whole(&client, "s", "r1", SECRET);
    whole(&client, "s", "r2", "another-secret");
    let id = first["turn_id"].as_str().unwrap();
    // The server keeps running.
    let reported = world.json(&["redact", "s", "--turn", id, "--reason", "why not"]);
    assert_eq!(
        (
            &reported["session_id"],
            &reported["turn_id"],
            &reported["seqs"]
        ),
        (&json!("s"), &first["turn_id"], &json!([[1, 3]]))
    );
    assert_eq!(
        (&reported["redaction_seq"], &reported["replayed"]),
        (&json!(7), &json!(false))
    );
    let shown = client.see(&path("s", &first));
    assert_eq!(shown["deleted_at"], reported["at"]);
    let again = world.json(&["redact", "s", "--turn", id, "--reason", "why not"]);
    assert_eq!(
        (&again["replayed"], &again["at"]),
        (&json!(true), &reported["at"])
    );
    server.stop();
    let text = world.ok(&["redact", "s", "--seq", "4", "--seq", "5-6", "--reason", "x"]);
    assert!(text.starts_with("redacted: session s, seqs 4-6"), "{text}");
    let text = world.ok(&["redact", "s", "--seq", "5", "4", "--reason", "x"]);
    assert!(
        text.starts_with("was redacted before: session s, seqs 4-5"),
        "{text}"
    );
    let shown = world.ok(&["sessions", "show", "s"]);
    assert_eq!(shown.matches("(redacted)").count(), 6, "{shown}");
    assert!(shown.contains("redaction"), "{shown}");
    let export = world.ok(&["export", "s"]);
    for words in [SECRET, "another-secret"] {
        assert!(!shown.contains(words) && !export.contains(words));
        world.holds_nowhere(words);
    }
    for (arguments, code) in [
        (&["redact", "s", "--reason", "x"][..], 2),
        (&["redact", "s", "--seq", "1"], 2),
        (
            &["redact", "s", "--seq", "1", "--turn", id, "--reason", "x"],
            2,
        ),
        (&["redact", "s", "--seq", "0", "--reason", "x"], 2),
        (&["redact", "s", "--seq", "3-2", "--reason", "x"], 2),
        (&["redact", "s", "--seq", "one", "--reason", "x"], 2),
        (&["redact", "s", "--seq", "1-2-3", "--reason", "x"], 2),
        (&["redact", "s", "--seq", "99", "--reason", "x"], 2),
        (&["redact", "s", "--seq", "7", "--reason", "x"], 2),
        (&["redact", "s", "--turn", id, "--reason", ""], 2),
        (&["redact", "s", "--turn", "x", "--reason", "x"], 2),
        (&["redact", "nothere", "--turn", id, "--reason", "x"], 1),
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?} {done:?}");
        assert_eq!(done.stdout, "", "{arguments:?}");
    }
    world.verify();
}

/// Changes every text of the source.
fn rewrite(folder: &Path) {
    let mut changes = 0;
    let mut folders = vec![folder.join("storage/part")];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let part = fs::read_to_string(&path).unwrap();
                let changed = part
                    .replace("\"text\":\"", "\"text\":\"brought-back ")
                    .replace("\"text\": \"", "\"text\": \"brought-back ");
                changes += usize::from(part != changed);
                fs::write(&path, changed).unwrap();
            }
        }
    }
    assert!(changes > 3);
}

/// The ids of all sessions that have items.
fn session_ids(world: &World) -> Vec<String> {
    let sessions = world.json(&["sessions", "list"]);
    let data = sessions["data"].as_array().unwrap().iter();
    data.filter(|s| s["last_seq"] != 0)
        .map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// A repeated import does not restore redacted contents, however its source has changed.
#[test]
fn an_import_restores_nothing() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    import(&world, &folder);
    let ids = session_ids(&world);
    let mut redacted = 0;
    for id in &ids {
        let last = world.json(&["export", id])["items"]
            .as_array()
            .unwrap()
            .len();
        let seqs = format!("1-{last}");
        let done = world.run(&["redact", id, "--seq", &seqs, "--reason", "x"]);
        redacted += usize::from(done.code == Some(0));
    }
    assert!(redacted > 0);
    rewrite(&folder);
    let summary = import(&world, &folder);
    assert_eq!(summary["turns_replaced"], 0, "{summary}");
    for id in &ids {
        let text = world.ok(&["export", id]);
        assert!(!text.contains("brought-back"), "{text}");
    }
    world.verify();
}

/// It also does not replace a turn with a redacted item; it replaces others.
#[test]
fn an_import_respects_redacted_items() {
    let world = World::new();
    let folder = world.path("history");
    copy_tree(&fixture("opencode-json"), &folder);
    import(&world, &folder);
    let ids = session_ids(&world);
    for id in &ids {
        world.ok(&["redact", id, "--seq", "1", "--reason", "x"]);
    }
    rewrite(&folder);
    let summary = import(&world, &folder);
    assert!(summary["turns_replaced"].as_u64() > Some(0), "{summary}");
    for id in &ids {
        let turns = world.json(&["export", id])["turns"].clone();
        let first = &turns[0];
        assert_eq!(first["ordinal"], 1, "{first}");
        assert_eq!(first["replaced_by_turn_id"], Value::Null, "{first}");
        assert_eq!(first["question_neutral"], Value::Null, "{first}");
    }
    world.verify();
}
