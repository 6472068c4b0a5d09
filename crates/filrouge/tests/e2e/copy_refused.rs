//! Copies that `filrouge copy` refuses, and its report about a source that is not intact.

use std::fs;

use serde_json::{Value, json};

use crate::copy::url;
use crate::http::Client;
use crate::world::{CommandOutput, World, copy_tree};

/// A text that is found in the file, where a test damages it.
const QUESTION: &str = "a question to be found";

fn write(client: &Client, session: &str, request: &str) {
    let body =
        json!({ "request_id": request, "question_neutral": QUESTION, "answer_neutral": "!" });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

fn filled_world() -> World {
    let world = World::on_sqlite();
    let server = world.serve();
    for n in 0..5 {
        write(&server.client(), "s", &format!("r{n}"));
    }
    write(&server.client(), "other", "r");
    server.stop();
    world
}

#[track_caller]
fn assert_refused(output: &CommandOutput, code: i32, words: &str) {
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(code), ""),
        "{output:?}"
    );
    assert!(output.stderr.contains(words), "{output:?}");
}

#[test]
fn stores_that_cannot_be_copied_are_refused() {
    let world = filled_world();
    let (from, to) = (url(&world.store()), url(&world.target()));
    let copy = |from: &str, to: &str| world.run(&["copy", "--from", from, "--to", to]);
    assert_refused(&copy(&from, &from), 2, "the same store");
    let link = world.path("link.db");
    std::os::unix::fs::symlink(world.store(), &link).unwrap();
    assert_refused(&copy(&from, &url(&link)), 2, "the same store");
    for (from, to) in [("memory:", to.as_str()), (&from, "memory:")] {
        assert_refused(&copy(from, to), 2, "in memory");
    }
    assert_refused(&copy("redis://x", &to), 2, "is no kind of store");
    assert_refused(
        &copy(&url(&world.path("none.db")), &to),
        1,
        "there is no store at",
    );
    assert_refused(
        &copy(&from, &url(&world.path("link.db/new.db"))),
        1,
        "link.db",
    );
    assert_refused(&copy(&from, &url(&world.path("data"))), 1, "data");
    assert_refused(&world.copy(&["--unverified"]), 2, "--unverified");
    assert_refused(&world.run(&["copy", "--from", &from]), 2, "--to");
    let foreign = world.path("foreign.db");
    fs::write(
        &foreign,
        "no database at all, but some text of another program ".repeat(40),
    )
    .unwrap();
    let before = fs::read(&foreign).unwrap();
    assert_refused(&copy(&from, &url(&foreign)), 1, "not a database");
    assert_eq!(fs::read(&foreign).unwrap(), before);
    assert!(!world.target().exists(), "a refused copy created a store");
    world.ok(&["copy", "--from", &from, "--to", &to]);
    assert_refused(&copy(&from, &to), 2, "already contains a store");
    let reported = world.run(&["copy", "--from", &from, "--to", &to, "--json"]);
    let reported: Value = serde_json::from_str(&reported.stderr).unwrap();
    assert_eq!(reported["code"], "invalid", "{reported}");
}

#[test]
fn a_source_under_another_keyring_is_refused() {
    let (world, other) = (filled_world(), filled_world());
    fs::copy(other.keyring(), world.keyring()).unwrap();
    assert_refused(
        &world.copy(&[]),
        1,
        "the keyring that the store was written with",
    );
    fs::remove_file(world.keyring()).unwrap();
    assert_refused(&world.copy(&[]), 1, "there is no keyring");
    assert!(!world.target().exists());
}

/// The copy would have its own anchor, which would hide the rollback.
#[test]
fn a_source_that_was_rolled_back_is_refused() {
    let world = filled_world();
    copy_tree(&world.path("data"), &world.path("older"));
    let server = world.serve();
    write(&server.client(), "s", "newest");
    server.stop();
    fs::remove_dir_all(world.path("data")).unwrap();
    copy_tree(&world.path("older"), &world.path("data"));
    let output = world.copy(&[]);
    assert_refused(&output, 1, "older than its anchor");
    assert!(output.stderr.contains("hint: "), "{output:?}");
    assert!(!world.target().exists());
    world.ok(&["anchor", "accept"]);
    assert_eq!(world.copy(&[]).code, Some(0));
}

#[test]
fn damaged_sessions_of_the_source_are_left_out_and_reported() {
    let world = filled_world();
    let mut bytes = fs::read(world.store()).unwrap();
    let words = QUESTION.as_bytes();
    let at = bytes.windows(words.len()).position(|w| w == words).unwrap();
    bytes[at] ^= 1;
    fs::write(world.store(), &bytes).unwrap();
    let source = world.run(&["verify", "--json"]);
    assert_eq!(source.code, Some(1), "{source:?}");
    let source: Value = serde_json::from_str(&source.stdout).unwrap();
    let damaged = source["findings"][0]["session_id"].as_str().unwrap();
    let output = world.copy(&["--json"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let reported: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(reported["source"]["findings"], source["findings"]);
    assert_eq!(reported["left_out"], source["findings"]);
    assert_eq!(reported["copy"]["status"], "intact", "{reported}");
    // The copy has the other session.
    let store = url(&world.target());
    world.verify_at(&store);
    for id in ["s", "other"] {
        let exported = world.run(&["export", id, "--store", &store]);
        assert_eq!(exported.code == Some(0), id != damaged, "{exported:?}");
    }
    fs::remove_dir_all(world.target().parent().unwrap()).unwrap();
    let output = world.copy(&[]);
    assert!(output.stdout.contains("1 sessions"), "{output:?}");
    assert!(output.stdout.contains("BROKEN in the source"), "{output:?}");
}
