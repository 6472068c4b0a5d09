//! A data folder that was restored to an older state is detected by its anchor, which is outside of it (DESIGN §9).

use std::fs;

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::{World, copy_tree};

/// Records a complete turn of the session `s`.
fn write(client: &Client, request: &str) {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
}

/// A world whose data folder was replaced by an older copy.
fn rolled_back() -> World {
    let world = World::on_sqlite();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    copy_tree(&world.path("data"), &world.path("older"));
    let server = world.serve();
    write(&server.client(), "r2");
    server.stop();
    fs::remove_dir_all(world.path("data")).unwrap();
    copy_tree(&world.path("older"), &world.path("data"));
    world
}

#[test]
fn an_older_copy_is_refused_until_it_is_accepted() {
    let world = rolled_back();
    let server = world.serve();
    let client = server.client();
    for path in ["/s", "/s/items", "/s/turns", "/s/context", ""] {
        client.get(path).fails(500, "integrity_error");
    }
    let body = json!({ "request_id": "r3", "question_neutral": "?" });
    client.post("/s/turns", &body).fails(500, "integrity_error");
    client
        .post("/new/turns", &body)
        .fails(500, "integrity_error");
    client.post("", &json!({})).fails(500, "integrity_error");
    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded");
    assert!(
        ready["integrity"]
            .as_str()
            .unwrap()
            .contains("older than its anchor"),
        "{ready}"
    );
    assert_eq!(client.get_body("/healthz")["status"], "ok");
    server.stop();

    for command in [&["sessions", "list"][..], &["export", "s"]] {
        let output = world.run(command);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{output:?}"
        );
        assert!(output.stderr.contains("integrity_error"), "{output:?}");
    }
    for command in [&["verify"][..], &["verify", "s"]] {
        let output = world.run(command);
        assert_eq!(output.code, Some(1), "{command:?}: {output:?}");
        assert!(
            output.stdout.contains("BROKEN") && output.stdout.contains("older than its anchor"),
            "{output:?}"
        );
    }
    let output = world.run(&["doctor"]);
    assert_eq!(output.code, Some(1));
    assert!(
        output.stdout.contains("FAILED") && output.stdout.contains("filrouge anchor accept"),
        "{output:?}"
    );
    let shown = world.run(&["anchor", "show"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert_eq!(
        world.run(&["anchor", "init"]).code,
        Some(2),
        "`anchor init` replaces no existing anchor"
    );

    let accepted = world.json(&["anchor", "accept"]);
    assert_eq!(accepted["holds"], true);
    let audit = fs::read_to_string(world.path("state/filrouge/anchor/audit.jsonl")).unwrap();
    let lines: Vec<Value> = audit
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{audit}");
    assert_eq!(lines[0]["action"], "anchor_accept");
    assert!(
        lines[0]["anchored_commit"].as_u64() > lines[0]["newest_commit"].as_u64(),
        "{audit}"
    );
    assert_eq!(lines[0]["store_id"], accepted["store_id"]);

    world.verify();
    world.ok(&["doctor"]);
    let server = world.serve();
    write(&server.client(), "r2");
    assert_eq!(server.client().all("/s/turns", 50).len(), 2);
    server.stop();
    world.verify();
}

#[test]
fn an_accepted_anchor_detects_rollbacks_again() {
    let world = rolled_back();
    world.ok(&["anchor", "accept"]);
    let server = world.serve();
    for n in 0..5 {
        write(&server.client(), &format!("n{n}"));
    }
    server.stop();
    fs::remove_dir_all(world.path("data")).unwrap();
    copy_tree(&world.path("older"), &world.path("data"));
    assert_eq!(world.run(&["verify"]).code, Some(1));
}

#[test]
fn a_changed_or_missing_anchor_is_reported() {
    let world = World::on_sqlite();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    let shown = world.json(&["anchor", "show"]);
    let path = shown["path"].as_str().unwrap();
    let text = fs::read_to_string(path).unwrap();
    for changed in [
        text.replacen("\"commit_no\":", "\"commit_no\":1", 1),
        String::new(),
        "{}".to_owned(),
    ] {
        fs::write(path, changed).unwrap();
        assert_eq!(world.run(&["verify"]).code, Some(1));
        assert_eq!(world.run(&["anchor", "show"]).code, Some(1));
        assert_eq!(world.run(&["sessions", "list"]).code, Some(1));
    }
    fs::write(path, &text).unwrap();
    world.verify();

    fs::remove_file(path).unwrap();
    let output = world.run(&["sessions", "list"]);
    assert_eq!(output.code, Some(0));
    assert!(
        output.stderr.contains("had commits and no anchor"),
        "{output:?}"
    );
    world.verify();
    fs::remove_file(path).unwrap();
    world.ok(&["anchor", "init"]);
    let audit = fs::read_to_string(world.path("state/filrouge/anchor/audit.jsonl")).unwrap();
    assert!(audit.contains("anchor_init"), "{audit}");
    world.verify();
}
