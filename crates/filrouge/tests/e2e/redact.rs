//! Redaction over HTTP and on the command line removes a text from every response and every file.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::caller::within_five_seconds;
use crate::http::Client;
use crate::import::import;
use crate::world::{World, copy_tree, fixture};

const SECRET: &str = "the-launch-code-is-80085";

/// Records a complete turn of three items, all with `text`.
fn record_turn(client: &Client, session: &str, request: &str, text: &str) -> Value {
    let body = json!({ "request_id": request, "question_neutral": format!("{text}?"),
        "answer_neutral": format!("{text}!"), "items": [{ "item_id": format!("{request}-i"),
        "role": "assistant", "channel": "plan", "parts": [{ "type": "text", "text": text }] }] });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

fn turn_path(session: &str, turn: &Value) -> String {
    format!("/{session}/turns/{}", turn["turn_id"].as_str().unwrap())
}

#[test]
fn a_turn_is_redacted_over_http() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    let kept = record_turn(&ada, "s", "r1", "kept");
    let turn = record_turn(&ada, "s", "r2", SECRET);
    let path = turn_path("s", &turn);
    let reason = json!({ "reason": "requested by the user" });
    let redacted = ada.post(&format!("{path}/redact"), &reason).wrote(200);
    assert_eq!(redacted["turn_id"], turn["turn_id"]);
    assert_eq!(redacted["replayed"], false);
    for text in ["question_neutral", "answer_neutral"] {
        assert_eq!(redacted[text], Value::Null);
    }
    assert!(redacted["deleted_at"].is_string());
    assert_eq!(ada.get_body(&path), redacted);
    let repeated = ada.post(&format!("{path}/redact"), &reason).wrote(200);
    assert_eq!(
        (&repeated["replayed"], &repeated["deleted_at"]),
        (&json!(true), &redacted["deleted_at"])
    );

    let items = ada.all("/s/items", 2);
    let empty: Vec<&Value> = items.iter().filter(|i| i["redacted"] == true).collect();
    assert_eq!(empty.len(), 3);
    assert!(empty.iter().all(|i| i["parts"] == json!([])));
    let redaction = items.last().unwrap();
    assert_eq!(
        (
            &redaction["seq"],
            &redaction["channel"],
            &redaction["role"],
            &redaction["turn_id"]
        ),
        (
            &json!(7),
            &json!("redaction"),
            &json!("system"),
            &Value::Null
        )
    );
    assert_eq!(
        redaction["parts"],
        json!([{ "type": "redaction", "seqs": [[4, 6]], "turn_id": turn["turn_id"], "by": "ada",
            "reason": "requested by the user" }])
    );

    for list in [
        "/s/turns",
        "/s/turns?status=finalized",
        "/s/turns?include_redacted=false",
    ] {
        let page = ada.get_body(list);
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(page["data"][0]["turn_id"], kept["turn_id"], "{list}");
    }
    assert_eq!(ada.get_body("/s/turns?request_id=r2")["data"], json!([]));
    for list in [
        "/s/turns?",
        "/s/turns?status=finalized&",
        "/s/turns?request_id=r2&",
    ] {
        let list = format!("{list}include_redacted=true");
        ada.get(&list).fails(403, "forbidden");
        let page = server.client().get_body(&list);
        let last = page["data"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["deleted_at"], redacted["deleted_at"], "{list}");
    }
    ada.get("/s/turns?include_redacted=maybe")
        .fails(422, "invalid");
    for read in [
        "",
        "/items",
        "/turns?include_redacted=true",
        "/context",
        "/verify",
    ] {
        let text = ada.get(&format!("/s{read}")).text;
        assert!(!text.contains(SECRET), "{read}");
    }
    world.assert_not_stored(SECRET);
    server.stop();
    world.assert_not_stored(SECRET);
    world.verify();
}

#[test]
fn invalid_redactions_are_refused() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    let turn = record_turn(&ada, "s", "r", "words");
    let redact = format!("{}/redact", turn_path("s", &turn));
    for body in [
        json!({}),
        json!({ "reason": "" }),
        json!({ "reason": null }),
        json!({ "reason": 7 }),
        json!({ "reason": "a", "more": 1 }),
    ] {
        ada.post(&redact, &body).fails(422, "invalid");
    }
    ada.post(&redact, &json!({ "reason": "x".repeat(4097) }))
        .fails(422, "limit_exceeded");
    ada.post_text(&redact, "{").fails(400, "bad_request");
    ada.post_text(&redact, "[]").fails(422, "invalid");
    let open = json!({ "request_id": "open", "question_neutral": "?" });
    let open = ada.post("/s/turns", &open).wrote(201);
    let reason = json!({ "reason": "x" });
    let refused = ada
        .post(&format!("{}/redact", turn_path("s", &open)), &reason)
        .fails(409, "turn_open");
    assert!(refused["hint"].is_string());
    // A foreign session and a foreign turn look absent (P6).
    record_turn(&bob, "b", "r", "words");
    let absent = json!({ "turn_id": "11111111-1111-8111-8111-111111111111" });
    let redact_as_bob = |path: &str| bob.post(path, &reason);
    let missing = redact_as_bob(&redact.replace("/s/", "/x/"));
    missing.fails(404, "session_not_found");
    let foreign = redact_as_bob(&redact);
    assert_eq!(foreign.text.replace("\\\"s\\\"", "\\\"x\\\""), missing.text);
    assert_eq!(foreign.status, missing.status);
    let missing = redact_as_bob(&format!("{}/redact", turn_path("b", &absent)));
    missing.fails(404, "turn_not_found");
    let foreign = redact_as_bob(&format!("{}/redact", turn_path("b", &turn)));
    let id = |turn: &Value| turn["turn_id"].as_str().unwrap().to_owned();
    assert_eq!(foreign.text.replace(&id(&turn), &id(&absent)), missing.text);
    assert_eq!(
        ada.get_body(&turn_path("s", &turn))["deleted_at"],
        Value::Null
    );
    let longest = json!({ "reason": "x".repeat(4096) });
    ada.post(&redact, &longest).wrote(200);
    server.stop();
    world.verify();
}

/// The disk is full for the search index, then for the ledger.
#[test]
fn a_redaction_on_a_full_disk_of_postgresql_is_507() {
    let world = World::on_postgres();
    let server = world.serve();
    let client = server.client();
    let turn = record_turn(&client, "s", "r", SECRET);
    let redact = format!("{}/redact", turn_path("s", &turn));
    let reason = json!({ "reason": "requested" });
    for (event, table) in [("UPDATE", "search_state"), ("INSERT", "record")] {
        world.database().sql(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER refuse BEFORE {event} ON filrouge.{table}
             FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
        ));
        client.post(&redact, &reason).fails(507, "store_full");
        assert!(client.get("/s/items").text.contains(SECRET), "{table}");
        world.database().sql("DROP FUNCTION refuse CASCADE");
    }
    within_five_seconds("the redaction is made", || {
        client.post(&redact, &reason).status == 200
    });
    server.stop();
    world.serve().stop();
    world.assert_not_stored(SECRET);
    world.verify();
}

#[test]
fn a_turn_is_redacted_on_the_command_line() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let first = record_turn(&client, "s", "r1", SECRET);
    record_turn(&client, "s", "r2", "another-secret");
    let id = first["turn_id"].as_str().unwrap();
    // The server runs meanwhile.
    let receipt = world.json(&["redact", "s", "--turn", id, "--reason", "why not"]);
    assert_eq!(
        (
            &receipt["session_id"],
            &receipt["turn_id"],
            &receipt["seqs"]
        ),
        (&json!("s"), &first["turn_id"], &json!([[1, 3]]))
    );
    assert_eq!(
        (&receipt["redaction_seq"], &receipt["replayed"]),
        (&json!(7), &json!(false))
    );
    let shown = client.get_body(&turn_path("s", &first));
    assert_eq!(shown["deleted_at"], receipt["at"]);
    let repeated = world.json(&["redact", "s", "--turn", id, "--reason", "why not"]);
    assert_eq!(
        (&repeated["replayed"], &repeated["at"]),
        (&json!(true), &receipt["at"])
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
    for secret in [SECRET, "another-secret"] {
        assert!(!shown.contains(secret) && !export.contains(secret));
        world.assert_not_stored(secret);
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
        let output = world.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?} {output:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
    world.verify();
}

#[test]
fn a_redaction_is_shown_first_and_names_the_fields_that_keep_the_words() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = record_turn(&client, "s", "r1", SECRET);
    let title = json!({ "title": format!("About {SECRET}"), "metadata": { "by": "me" } });
    client.patch("/s", &title).wrote(200);
    let event = json!({ "key": "k", "kind": "noted", "detail": { "said": SECRET } });
    client.post("/s/events", &event).wrote(201);
    let id = turn["turn_id"].as_str().unwrap();
    let redact = ["redact", "s", "--turn", id, "--reason", "x"];
    let before = client.get_body("/s");
    let shown = world.json(&[&redact[..], &["--dry-run"]].concat());
    assert_eq!(shown["seqs"], json!([1, 2, 3]));
    assert_eq!(shown["still_in"], json!(["title", "detail of event k"]));
    let text = world.ok(&[&redact[..], &["--dry-run"]].concat());
    assert!(
        text.contains("plan") && text.contains("--with-title"),
        "{text}"
    );
    assert_eq!(client.get_body("/s"), before, "a dry run changes nothing");
    let receipt = world.json(&[&redact[..], &["--with-title", "--yes"]].concat());
    assert_eq!(receipt["still_in"], json!(["detail of event k"]));
    assert_eq!(client.get_body("/s")["title"], Value::Null);
    server.stop();
    world.verify();
}

/// A text that [`rewrite`] adds.
const CHANGED: &str = "changed-in-the-source";

/// Changes every text of an OpenCode history.
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
                    .replace("\"text\":\"", &format!("\"text\":\"{CHANGED} "))
                    .replace("\"text\": \"", &format!("\"text\": \"{CHANGED} "));
                changes += usize::from(part != changed);
                fs::write(&path, changed).unwrap();
            }
        }
    }
    assert!(changes > 3, "{changes} files were changed");
}

/// The ids of all sessions that have items.
fn session_ids(world: &World) -> Vec<String> {
    let sessions = world.json(&["sessions", "list"]);
    let data = sessions["data"].as_array().unwrap().iter();
    data.filter(|s| s["last_seq"] != 0)
        .map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Even if its source has changed, a repeated import does not restore redacted contents.
#[test]
fn a_repeated_import_restores_no_redacted_text() {
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
        let output = world.run(&["redact", id, "--seq", &seqs, "--reason", "x"]);
        redacted += usize::from(output.code == Some(0));
    }
    assert!(redacted > 0, "no session was redacted");
    rewrite(&folder);
    let summary = import(&world, &folder);
    assert_eq!(summary["turns_replaced"], 0, "{summary}");
    for id in &ids {
        let text = world.ok(&["export", id]);
        assert!(!text.contains(CHANGED), "{text}");
    }
    world.verify();
}

/// A repeated import replaces changed turns, but none that has a redacted item.
#[test]
fn a_repeated_import_keeps_turns_with_redacted_items() {
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
