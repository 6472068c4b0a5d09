//! A witness outside the reach of whoever can write the store and the folder of the anchor (DESIGN §9).

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::caller::within_five_seconds;
use crate::http::Client;
use crate::world::{Server, World, copy_tree};

fn write(client: &Client, request: &str) {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
}

/// A server that writes statements to `file` every second.
fn serve(world: &World, file: &str) -> Server {
    let path = world.path(file).display().to_string();
    let settings = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_WITNESS", &path),
        ("FILROUGE_WITNESS_EVERY_S", "1"),
    ];
    world.serve_with_env(&settings, &[])
}

/// The statements in `file`.
fn statements(world: &World, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(world.path(file)).unwrap_or_default();
    let lines = text.lines();
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn a_store_that_is_rolled_back_with_its_anchor_contradicts_the_witness() {
    let world = World::on_sqlite();
    let server = serve(&world, "witness.jsonl");
    write(&server.client(), "r1");
    server.stop();
    for folder in ["data", "state"] {
        copy_tree(&world.path(folder), &world.path("older").join(folder));
    }
    let server = serve(&world, "witness.jsonl");
    write(&server.client(), "r2");
    within_five_seconds("the running server appends a statement", || {
        let newest = statements(&world, "witness.jsonl").pop();
        newest.is_some_and(|statement| statement["commit_no"] == 2)
    });
    write(&server.client(), "r3");
    server.stop();
    let file = world.path("witness.jsonl").display().to_string();
    let verify = ["verify", "--witness", &file];
    let numbers: Vec<Value> = statements(&world, "witness.jsonl")
        .iter()
        .map(|statement| statement["commit_no"].clone())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    world.ok(&verify);

    for folder in ["data", "state"] {
        fs::remove_dir_all(world.path(folder)).unwrap();
        copy_tree(&world.path("older").join(folder), &world.path(folder));
    }
    world.verify();
    let output = world.run(&verify);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .stdout
            .contains("the store is older than its witness: commit 2"),
        "{output:?}"
    );

    // Another history with as many commits is not the one that the witness recorded.
    let server = world.serve();
    write(&server.client(), "other2");
    write(&server.client(), "other3");
    server.stop();
    let output = world.run(&verify);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .stdout
            .contains("commit 3 is not the one that the witness recorded"),
        "{output:?}"
    );
}

#[test]
fn each_lane_of_a_store_has_its_own_statements() {
    let world = World::on_postgres();
    let server = serve(&world, "witness.jsonl");
    for n in 0..20 {
        let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
        let path = format!("/s{n}/turns");
        server.client().post(&path, &body).wrote(201);
    }
    server.stop();
    let printed = world.ok(&["anchor", "witness"]);
    let printed: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lanes: BTreeSet<u64> = printed
        .iter()
        .map(|s| s["lane"].as_u64().unwrap())
        .collect();
    assert!(
        lanes.len() > 1 && lanes.len() == printed.len(),
        "{printed:?}"
    );
    let commits: u64 = printed
        .iter()
        .map(|s| s["commit_no"].as_u64().unwrap())
        .sum();
    assert_eq!(world.json(&["anchor", "show"])["newest_commit"], commits);
    let appended = statements(&world, "witness.jsonl");
    let is_appended = |printed: &Value| {
        let is_same = |s: &Value, field: &str| s[field] == printed[field];
        let fields = ["lane", "commit_no", "link"];
        appended
            .iter()
            .any(|s| fields.iter().all(|field| is_same(s, field)))
    };
    assert!(printed.iter().all(is_appended), "{appended:?}");
    let file = world.path("witness.jsonl");
    let name = file.display().to_string();
    let verify = ["verify", "--witness", &name];
    world.ok(&verify);

    for statement in &printed {
        let mut later = statement.clone();
        let number = statement["commit_no"].as_u64().unwrap() + 1;
        later["commit_no"] = json!(number);
        fs::write(&file, format!("{later}\n")).unwrap();
        let output = world.run(&verify);
        let words = format!("commit {number} of lane {}, recorded at", statement["lane"]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stdout.contains(&words), "{output:?}");
    }
}

#[test]
fn of_many_contradicted_statements_the_first_are_listed_and_the_others_counted() {
    let world = World::on_sqlite();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    let statement: Value = serde_json::from_str(&world.ok(&["anchor", "witness"])).unwrap();
    let later = |commit_no: u64| {
        let mut later = statement.clone();
        later["commit_no"] = json!(commit_no);
        format!("{later}\n")
    };
    let file = world.path("witness.jsonl");
    fs::write(&file, (2..27).map(later).collect::<String>()).unwrap();
    let output = world.run(&["verify", "--witness", &file.display().to_string()]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(
        output.stdout.matches("is missing").count(),
        10,
        "{output:?}"
    );
    assert!(output.stdout.contains("15 more statements"), "{output:?}");
}

#[test]
fn a_printed_statement_is_read_from_a_log() {
    let world = World::new();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    let statement = world.ok(&["anchor", "witness"]);
    let log = world.path("syslog");
    let file = log.display().to_string();
    let verify = ["verify", "--witness", &file];
    fs::write(
        &log,
        format!("Nov 28 12:00:00 host filrouge: {statement}\n"),
    )
    .unwrap();
    world.ok(&verify);

    let mut other: Value = serde_json::from_str(&statement).unwrap();
    other["link"] = json!("00".repeat(16));
    fs::write(&log, format!("{statement}{other}\n")).unwrap();
    assert_eq!(world.run(&verify).code, Some(1));

    other["store_id"] = json!("another");
    for (text, words) in [
        (other.to_string(), "has no statement about the store"),
        (format!("{statement}{{\"at\""), "line 2 is no statement"),
    ] {
        fs::write(&log, text).unwrap();
        let output = world.run(&verify);
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stderr.contains(words), "{output:?}");
    }
    let output = world.run(&["verify", "--witness", "/nowhere"]);
    assert_eq!(output.code, Some(2), "{output:?}");
}

#[test]
fn a_witness_file_that_cannot_be_written_is_reported() {
    let world = World::new();
    let server = serve(&world, "missing/witness.jsonl");
    let client = server.client();
    write(&client, "r1");
    within_five_seconds("the server is degraded", || {
        let ready = client.get_body("/readyz");
        let why = ready["anchor"].as_str().unwrap_or_default();
        ready["status"] == "degraded" && why.contains("the witness file")
    });
    fs::create_dir(world.path("missing")).unwrap();
    // A crash has left half a line.
    fs::write(world.path("missing/witness.jsonl"), r#"{"at":"20"#).unwrap();
    within_five_seconds("the server is ready", || {
        client.get_body("/readyz")["status"] == "ready"
    });
    server.stop();
    let text = fs::read_to_string(world.path("missing/witness.jsonl")).unwrap();
    let complete_statement: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    assert_eq!(complete_statement["commit_no"], 1, "{text}");
}
