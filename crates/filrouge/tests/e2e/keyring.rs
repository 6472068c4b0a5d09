//! The keyring: lost, restored, rotated (DESIGN §9).

use std::fs;

use serde_json::json;

use crate::http::Client;
use crate::world::World;

fn write(client: &Client, request: &str) {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
}

#[test]
fn a_store_without_its_keyring_is_refused() {
    let world = World::new();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    let exported = world.ok(&["export", "s"]);
    let backup = world.path("backup.json");
    fs::rename(world.keyring(), &backup).unwrap();

    for command in [
        &["sessions", "list"][..],
        &["sessions", "show", "s"],
        &["export", "s"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let output = world.run(command);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{command:?}: {output:?}"
        );
        assert!(
            output.stderr.contains("key_missing") && output.stderr.contains("hint:"),
            "{output:?}"
        );
    }
    assert_eq!(
        world.run(&["verify"]).code,
        Some(2),
        "without the key, the result is unknown"
    );
    assert_eq!(world.run(&["doctor"]).code, Some(1));
    assert!(
        !world.keyring().exists(),
        "a command created a new keyring for an existing store"
    );

    // No command writes data without a MAC.
    let folder = crate::world::fixture("opencode-json");
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["import", "opencode", folder.to_str().unwrap()],
        &["anchor", "accept"],
        &["anchor", "init"],
        &["redact", "s", "--seq", "1", "--reason", "x"],
    ] {
        let output = world.run(&[command, &["--unverified"]].concat());
        assert_eq!(output.code, Some(2), "{command:?}: {output:?}");
        assert!(
            output.stderr.contains("--unverified only reads"),
            "{output:?}"
        );
    }
    assert!(!world.keyring().exists());

    for broken in ["", "{}", "{\"active\":1,\"keys\":{\"1\":\"00\"}}"] {
        fs::write(world.keyring(), broken).unwrap();
        let output = world.run(&["sessions", "list"]);
        assert!(
            output.code == Some(1) && output.stderr.contains("key_missing"),
            "{output:?}"
        );
    }
    let other = "{\"active\":1,\"keys\":{\"1\":\"".to_owned() + &"ab".repeat(32) + "\"}}";
    fs::write(world.keyring(), other).unwrap();
    let output = world.run(&["export", "s"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), ""),
        "another key was accepted: {output:?}"
    );
    // A store that records its key reports an unknown result; in other stores, a wrong key looks like damage.
    assert!(matches!(world.run(&["verify"]).code, Some(1 | 2)));

    fs::rename(backup, world.keyring()).unwrap();
    assert_eq!(world.ok(&["export", "s"]), exported);
    world.verify();
}

#[test]
fn a_store_without_its_keyring_can_be_read_unverified() {
    let world = World::new();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    let export = ["export", "s", "--format", "md"];
    let unverified = [&export[..], &["--unverified"]].concat();
    let exported = world.ok(&export);
    assert_eq!(world.ok(&unverified), exported);
    fs::remove_file(world.keyring()).unwrap();
    assert_eq!(world.ok(&unverified), exported);
    world.ok(&["sessions", "list", "--unverified"]);
    world.ok(&["sessions", "show", "s", "--unverified"]);
    // Links are checked, but MACs are not, so the store cannot be reported as intact.
    let output = world.run(&["verify", "--unverified"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn a_server_from_before_a_rotation_names_the_missing_key() {
    let world = World::new();
    let old = world.serve();
    write(&old.client(), "r1");
    let rotated = world.run(&["keyring", "rotate"]);
    assert!(
        rotated.code == Some(0) && rotated.stderr.contains("restart every running server"),
        "{rotated:?}"
    );
    let new = world.serve();
    write(&new.client(), "r2");
    old.client().get("/s/items").fails(500, "key_missing");
    let other = json!({ "request_id": "r", "question_neutral": "?" });
    old.client().post("/t/turns", &other).wrote(201);
    assert_eq!(
        old.client().get_body("/readyz")["integrity"],
        serde_json::Value::Null,
        "a missing key is not damage"
    );
    assert_eq!(new.client().all("/t/turns", 50).len(), 1);
    old.stop();
    let again = world.serve();
    assert_eq!(again.client().all("/s/turns", 50).len(), 2);
    again.stop();
    new.stop();
    world.verify();
}

#[test]
fn old_keys_still_verify() {
    let world = World::new();
    for round in 1..=3_u64 {
        let server = world.serve();
        write(&server.client(), &format!("r{round}"));
        write(&server.client(), &format!("again{round}"));
        server.stop();
        world.verify();
        let rotated = world.json(&["keyring", "rotate"]);
        assert_eq!(rotated["active"], round + 1);
    }
    let server = world.serve();
    let client = server.client();
    let turns = client.all("/s/turns", 500);
    assert_eq!(turns.len(), 6);
    let again = json!({ "request_id": "r1", "question_neutral": "?", "answer_neutral": "!" });
    assert_eq!(
        client.post("/s/turns", &again).wrote(200)["turn_id"],
        turns[0]["turn_id"],
        "turn ids are still derived with the first key"
    );
    write(&client, "last");
    assert_eq!(client.get_body("/s/verify")["status"], "intact");
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    server.stop();
    world.verify();
    let list = world.json(&["keyring", "list"]);
    assert_eq!(list["keys"], json!([1, 2, 3, 4]));
    let text = world.ok(&["keyring", "list"]);
    let secret = fs::read_to_string(world.keyring()).unwrap();
    let secret = secret.split('"').find(|t| t.len() == 64).unwrap();
    assert!(text.contains("key 4") && !text.contains(secret), "{text}");

    // Without the first key, its records cannot be verified, and no id can be derived.
    let mut keyring: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(world.keyring()).unwrap()).unwrap();
    keyring["keys"].as_object_mut().unwrap().remove("1");
    fs::write(world.keyring(), keyring.to_string()).unwrap();
    let output = world.run(&["export", "s"]);
    assert!(
        output.code == Some(1) && output.stderr.contains("key_missing"),
        "{output:?}"
    );
    assert_eq!(world.run(&["verify"]).code, Some(2));
}
