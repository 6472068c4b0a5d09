//! Bundles on the command line and over HTTP: written, verified without a store, imported elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::{CommandOutput, World};

/// Parts that a JSON parser would change: spaces, a lone surrogate, a duplicate member, and a number beyond f64.
const ODD: &str = "[ {\"type\":\"text\",\n\"text\":\"\\ud800 caf\u{e9} \u{fffd}\"},{\"type\":\"n\",\"n\":1.0,\"n\":1e400} ]";

/// Records a session with complete turns, an open one and a redaction.
fn record_data(client: &Client, session: &str) {
    client
        .post(
            "",
            &json!({ "session_id": session, "title": "one \u{1b}[31m", "metadata": { "a": 1.5 } }),
        )
        .wrote(201);
    let at = format!("/{}", session.replace('/', "%2f"));
    for request in ["r1", "r2"] {
        let body = format!(
            r#"{{"request_id":"{request}","question_neutral":"what? {request}","answer_neutral":"that!",
            "items":[{{"role":"tool","channel":"own","parts":{ODD}}}]}}"#
        );
        client.post_text(&format!("{at}/turns"), &body).wrote(201);
    }
    let open = json!({ "request_id": "open", "question_neutral": "still open" });
    client.post(&format!("{at}/turns"), &open).wrote(201);
    let secret =
        json!({ "request_id": "secret", "question_neutral": "hush", "answer_neutral": "hush" });
    let redacted = client.post(&format!("{at}/turns"), &secret).wrote(201);
    let redacted = redacted["turn_id"].as_str().unwrap();
    let reason = json!({ "reason": "on request" });
    client
        .post(&format!("{at}/turns/{redacted}/redact"), &reason)
        .wrote(200);
}

/// A world whose store contains the session `s`; its server has stopped.
fn filled_world() -> World {
    let world = World::new();
    let server = world.serve();
    record_data(&server.client(), "s");
    server.stop();
    world
}

/// Writes a file in the world's folder; returns its path.
fn write_file(world: &World, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = world.path(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Runs `verify --bundle` on a machine without a store.
fn verify(empty: &World, path: &Path, options: &[&str]) -> CommandOutput {
    let bundle = ["verify", "--bundle", path.to_str().unwrap()];
    empty.run(&[&bundle, options].concat())
}

fn public_key(world: &World) -> String {
    let listed = world.json(&["keyring", "list"]);
    let key = listed["public_keys"]["1"].as_str().unwrap().to_owned();
    assert!(world.ok(&["keyring", "list"]).contains(&key));
    key
}

#[test]
fn a_bundle_is_verified_without_a_store() {
    let (world, empty) = (filled_world(), World::new());
    let text = world.ok(&["export", "s", "--format", "json"]);
    assert!(text.contains(&format!("\"parts\":{ODD},")));
    assert!(!text.contains("hush"));
    let key = public_key(&world);
    let good = write_file(&empty, "s.json", &text);
    let command_output = verify(&empty, &good, &[]);
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    assert_eq!(
        command_output.stdout,
        format!("intact: session s, 4 turns, 10 items\nsigned by {key}\n")
    );
    assert!(
        command_output.stderr.contains("--public-key"),
        "{command_output:?}"
    );
    let command_output = verify(&empty, &good, &["--json"]);
    let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
    assert_eq!(
        reported,
        json!({ "status": "intact", "sessions": 1, "session_id": "s", "turns": 4, "items": 10, "findings": [],
            "signed_by": { "key_id": 1, "public_key": key, "trusted": false } })
    );
    let command_output = verify(&empty, &good, &["--json", "--public-key", &key]);
    let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
    assert_eq!(
        (command_output.code, &reported["signed_by"]["trusted"]),
        (Some(0), &json!(true))
    );
    let command_output = verify(&empty, &good, &["--public-key", &key]);
    assert_eq!(
        (command_output.code, command_output.stderr.as_str()),
        (Some(0), ""),
        "{command_output:?}"
    );
    let other = public_key(&filled_world());
    let command_output = verify(&empty, &good, &["--public-key", &other]);
    assert_eq!(command_output.code, Some(1), "{command_output:?}");
    assert!(
        command_output
            .stdout
            .starts_with("BROKEN: session s\n  head: signed by"),
        "{command_output:?}"
    );
    let upper = key.to_uppercase();
    assert_eq!(
        verify(&empty, &good, &["--public-key", &upper]).code,
        Some(0)
    );
    // It has the right length, but is not a point of the curve.
    let no_point = format!("02{}", "0".repeat(62));
    for malformed in ["", "00", &"g".repeat(64), &no_point] {
        let command_output = verify(&empty, &good, &["--public-key", malformed]);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{command_output:?}"
        );
    }
    // Verification created nothing next to the bundle.
    let files: Vec<_> = fs::read_dir(empty.path("")).unwrap().collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn damage_is_reported_with_exit_code_and_location() {
    let (world, empty) = (filled_world(), World::new());
    let text = world.ok(&["export", "s"]);
    let changed = write_file(&empty, "changed", text.replacen("what? r2", "what! r2", 1));
    let command_output = verify(&empty, &changed, &["--json"]);
    let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
    assert_eq!(command_output.code, Some(1));
    assert_eq!(
        (&reported["status"], &reported["signed_by"]),
        (&json!("broken"), &Value::Null)
    );
    // The question also occurs earlier, in the turn; the finding names the item, because the turn is derived from it.
    assert_eq!(reported["findings"][0]["seq"], 4, "{reported}");
    let item = text.replace("\"text\":\"what? r2\"", "\"text\":\"what! r2\"");
    let command_output = verify(&empty, &write_file(&empty, "item", item), &[]);
    assert_eq!(command_output.code, Some(1));
    assert!(
        command_output
            .stdout
            .starts_with("BROKEN: session s\n  seq 4: "),
        "{command_output:?}"
    );
    let at = text.find('\u{fffd}').unwrap();
    let unreadable = [&text.as_bytes()[..at], b"\xff", &text.as_bytes()[at + 3..]].concat();
    for (name, bytes, code) in [
        ("unreadable", unreadable, 1),
        ("empty", Vec::new(), 2),
        ("other", b"{}".to_vec(), 2),
        ("cut", text.as_bytes()[..text.len() - 1].to_vec(), 1),
        ("longer", format!("{text}\n").into_bytes(), 1),
        ("version", text.replacen(":1,", ":2,", 1).into_bytes(), 2),
    ] {
        let path = write_file(&empty, name, bytes);
        let command_output = verify(&empty, &path, &[]);
        assert_eq!(
            command_output.code,
            Some(code),
            "{name}: {command_output:?}"
        );
        let command_output = verify(&empty, &path, &["--json"]);
        let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
        let status = if code == 1 { "broken" } else { "cannot_tell" };
        assert_eq!(
            (command_output.code, &reported["status"]),
            (Some(code), &json!(status))
        );
        assert!(reported["findings"][0]["what"].is_string());
    }
    let command_output = verify(&empty, &empty.path("other"), &[]);
    let refused = "cannot tell\n  not a bundle: ";
    assert!(
        command_output.stdout.starts_with(refused),
        "{command_output:?}"
    );
    let nowhere = empty.path("nowhere");
    for options in [&[][..], &["--json"]] {
        let command_output = verify(&empty, &nowhere, options);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{command_output:?}"
        );
        assert!(
            command_output.stderr.contains("nowhere"),
            "{command_output:?}"
        );
    }
    for usage in [
        &["verify", "--public-key", "00"][..],
        &["verify", "s", "--bundle", "x"],
        &["verify", "--bundle"],
        &["export", "s", "--format", "xml"],
    ] {
        assert_eq!(world.run(usage).code, Some(2), "{usage:?}");
    }
}

/// A signature confirms the content, so content that was read without MAC checks is not signed.
#[test]
fn unverified_contents_are_not_signed() {
    let world = filled_world();
    for _ in ["with the keyring", "without"] {
        let command_output = world.run(&["export", "s", "--unverified"]);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{command_output:?}"
        );
        assert!(
            command_output.stderr.contains("hint: "),
            "{command_output:?}"
        );
        world.ok(&["export", "s", "--unverified", "--format", "html"]);
        fs::remove_file(world.keyring()).ok();
    }
}

/// The part of a bundle before its signature.
fn without_signature(bundle: &str) -> &str {
    &bundle[..bundle.rfind(",\"key_id\":").unwrap()]
}

#[test]
fn a_bundle_is_imported_into_another_store() {
    let (world, other) = (filled_world(), World::new());
    let text = world.ok(&["export", "s"]);
    let path = write_file(&other, "s.json", &text);
    let path = path.to_str().unwrap();
    let import = ["import", "bundle", path];
    let key = public_key(&world);
    for (options, code) in [
        (&["--public-key", "00"][..], 2),
        (&["--public-key", &"0".repeat(64)], 1),
        (&["--tenant", "theirs"], 2),
    ] {
        let command_output = other.run(&[&import, options].concat());
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(code), ""),
            "{command_output:?}"
        );
    }
    let broken = write_file(&other, "broken.json", text.replace("that!", "this!"));
    let command_output = other.run(&["import", "bundle", broken.to_str().unwrap()]);
    assert_eq!(command_output.code, Some(1));
    assert!(
        command_output.stderr.contains("integrity_error") && command_output.stderr.contains("hint"),
        "{command_output:?}"
    );
    let command_output = other.run(&["import", "bundle", "nowhere.json"]);
    assert_eq!(command_output.code, Some(2), "{command_output:?}");
    assert_eq!(other.json(&["sessions", "list"])["data"], json!([]));

    let reported = other.json(&[&import[..], &["--public-key", &key]].concat());
    assert_eq!(
        reported,
        json!({ "session_id": "s", "created": true, "turns": 4, "items": 10,
            "signed_by": { "key_id": 1, "public_key": key, "trusted": true } })
    );
    other.verify();
    let again = other.ok(&["export", "s"]);
    assert_eq!(without_signature(&again), without_signature(&text));
    assert!(
        other
            .ok(&import)
            .starts_with("known already: session s, 4 turns, 10 items")
    );

    // The conversation continues in `other`; a repeated start finds its turn.
    let (source, target) = (world.serve(), other.serve());
    let repeated = json!({ "request_id": "r1", "question_neutral": "what? r1" });
    let first = source.client().get_body("/s/turns?request_id=r1")["data"][0].clone();
    let found = target.client().get_body("/s/turns?request_id=r1")["data"][0].clone();
    assert_eq!(found, first);
    let replayed = target.client().post("/s/turns", &repeated).wrote(200);
    assert_eq!(
        (&replayed["turn_id"], &replayed["replayed"]),
        (&first["turn_id"], &json!(true))
    );
    let open = target.client().get_body("/s/turns?request_id=open")["data"][0].clone();
    let close = format!("/s/turns/{}/finalize", open["turn_id"].as_str().unwrap());
    target
        .client()
        .post(&close, &json!({ "answer_neutral": "done" }))
        .wrote(200);
    let new = json!({ "request_id": "new", "question_neutral": "?", "answer_neutral": "!" });
    assert_eq!(
        target.client().post("/s/turns", &new).wrote(201)["ordinal"],
        5
    );
    source.stop();
    target.stop();
    other.verify();

    // The session has grown in `other`, so its new bundle conflicts with the session in `world`; the first bundle adds
    // nothing to `other`.
    let grown = write_file(&world, "grown.json", other.ok(&["export", "s"]));
    assert_eq!(verify(&world, &grown, &[]).code, Some(0));
    let command_output = world.run(&["import", "bundle", grown.to_str().unwrap(), "--json"]);
    let reported: Value = serde_json::from_str(&command_output.stderr).unwrap();
    assert_eq!(
        (command_output.code, &reported["code"]),
        (Some(1), &json!("session_conflict")),
        "{command_output:?}"
    );
    assert!(reported["hint"].is_string());
    assert!(other.ok(&import).starts_with("known already"));
    world.verify();

    // Imported into a third store with the same keyring and exported again, the bundle is identical byte for byte.
    let third = World::new();
    fs::create_dir_all(third.keyring().parent().unwrap()).unwrap();
    fs::copy(world.keyring(), third.keyring()).unwrap();
    assert!(
        third
            .ok(&["import", "bundle", path])
            .starts_with("imported: session s")
    );
    assert_eq!(third.ok(&["export", "s"]), text);
    third.verify();
}

#[test]
fn sessions_are_exported_over_http() {
    let world = World::new();
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    record_data(&ada, "a/b");
    let at = "/a%2fb/export";
    for (query, media_type, name) in [
        ("", "application/json", "session.json"),
        ("?format=json", "application/json", "session.json"),
        ("?format=md", "text/markdown; charset=utf-8", "session.md"),
        ("?format=html", "text/html; charset=utf-8", "session.html"),
    ] {
        let response = ada.get(&format!("{at}{query}"));
        assert_eq!(response.status, 200, "{query}");
        assert_eq!(response.header("content-type"), Some(media_type));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let attachment = format!("attachment; filename=\"{name}\"");
        assert_eq!(
            response.header("content-disposition"),
            Some(attachment.as_str())
        );
        let policy = response.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("sandbox; default-src 'none'"),
            "{policy}"
        );
        let format = name.rsplit('.').next().unwrap();
        let written = world.ok(&["export", "a/b", "--format", format]);
        assert_eq!(response.text, written, "{format}");
        assert!(response.text.contains("what? r1"), "{format}");
        assert!(!response.text.contains("hush"), "{format}");
    }
    for wrong in [
        "?format=xml",
        "?format=",
        "?format=JSON",
        "?forma=md",
        "?format=md&x=1",
    ] {
        ada.get(&format!("{at}{wrong}")).fails(422, "invalid");
    }
    // A foreign session looks absent (P6).
    for format in ["json", "md", "html"] {
        for viewer in [&bob, &server.client()] {
            let foreign = viewer.get(&format!("{at}?format={format}"));
            foreign.fails(404, "session_not_found");
            let absent = viewer.get(&format!("/a%2fc/export?format={format}"));
            assert_eq!(foreign.text.replace("a/b", "a/c"), absent.text);
        }
    }
    server.stop();
}

#[test]
fn the_python_script_verifies_exported_bundles() {
    let world = filled_world();
    let text = world.ok(&["export", "s"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verify_bundle.py");
    let run = |path: &Path, key: &[String]| {
        let mut python = Command::new("python3");
        let output = python.arg(&script).arg(path).args(key).output();
        let output = output.expect("this test runs python3: install Python 3.8 or newer");
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let intact = (
        Some(0),
        format!("intact\nsigned by {}\n", public_key(&world)),
    );
    let good = write_file(&world, "s.json", &text);
    assert_eq!(run(&good, &[]), intact);
    assert_eq!(run(&good, &[public_key(&world)]), intact);
    let (code, reported) = run(&good, &[public_key(&filled_world())]);
    assert_eq!(
        (code, reported.starts_with("broken: head")),
        (Some(1), true),
        "{reported}"
    );
    let changed = write_file(&world, "changed", text.replace("that!", "this!"));
    let (code, reported) = run(&changed, &[]);
    assert_eq!(
        (code, reported.starts_with("broken: items[2], seq 3")),
        (Some(1), true),
        "{reported}"
    );
}
