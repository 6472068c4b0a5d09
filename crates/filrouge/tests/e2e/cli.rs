//! The command line: data on stdout, messages on stderr, exit codes.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::World;

/// A store with a finished turn and an open one; title and question contain control characters.
fn filled_world() -> World {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client.post("", &json!({ "session_id": "s", "title": "red \u{1b}[31mtitle\nsecond", "project_id": "p" })).wrote(201);
    let complete = json!({ "request_id": "r", "question_neutral": "Where does\u{7} it lead?", "answer_neutral": "Through.", "items": [
        { "role": "assistant", "channel": "tool_call", "parts": [{ "type": "tool_call", "call_id": "1", "name": "follow", "args": { "n": 1 } }] }] });
    client.post("/s/turns", &complete).wrote(201);
    client
        .post(
            "/t/turns",
            &json!({ "request_id": "r", "question_neutral": "?" }),
        )
        .wrote(201);
    server.stop();
    world
}

#[test]
fn sessions_are_listed_and_shown() {
    let world = filled_world();
    let list = world.ok(&["sessions", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].trim_start().starts_with("SESSION") && lines.len() == 3,
        "{list}"
    );
    for (line, words) in [(0, "SESSION STATUS OWNER TURNS"), (1, "t active 1 1")] {
        let cells: Vec<&str> = lines[line].split_whitespace().collect();
        assert!(cells.join(" ").starts_with(words), "{list}");
    }
    let server = world.serve();
    let owned = json!({ "session_id": "u" });
    server
        .client()
        .for_identity("ada")
        .post("", &owned)
        .wrote(201);
    server.stop();
    let newest = world.ok(&["sessions", "list", "--limit", "1"]);
    let cells: Vec<&str> = newest.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..3], ["u", "active", "ada"]);
    world.ok(&["erase", "--session", "u", "--yes"]);
    assert!(
        lines[1].trim_start().starts_with("t ") && lines[2].trim_start().starts_with("s "),
        "{list}"
    );
    let show = world.ok(&["sessions", "show", "s"]);
    assert!(
        show.contains("Where does")
            && show.contains("Through.")
            && show.contains("follow {\"n\":1}"),
        "{show}"
    );
    for text in [&list, &show] {
        assert!(
            !text.chars().any(|c| c.is_control() && c != '\n'),
            "{text:?}"
        );
    }

    let first = world.json(&["sessions", "list", "--limit", "1"]);
    assert_eq!(first["data"][0]["session_id"], "t");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.json(&["sessions", "list", "--limit", "1", "--cursor", cursor]);
    assert_eq!(
        (&second["data"][0]["session_id"], &second["next_cursor"]),
        (&json!("s"), &Value::Null)
    );
    let of_project = world.json(&["sessions", "list", "--project", "p"]);
    assert_eq!(of_project["data"].as_array().unwrap().len(), 1);
    let page = world.run(&["sessions", "list", "--limit", "1"]);
    assert!(page.stderr.contains(cursor), "{page:?}");
}

/// An item of a bundle without the members that its link is computed from.
fn without_chain_fields(item: &Value) -> Value {
    let mut item = item.clone();
    let members = item.as_object_mut().unwrap();
    for chained in ["events", "salt", "link"] {
        assert!(members.remove(chained).is_some(), "{chained}");
    }
    item
}

#[test]
fn exports_contain_the_data_that_http_returns() {
    let world = filled_world();
    let server = world.serve();
    let client = server.client();
    let text = world.ok(&["export", "s"]);
    assert_eq!(text, world.ok(&["export", "s", "--format", "json"]));
    let export: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(export["filrouge_bundle"], json!(1));
    assert_eq!(export["session"], client.get_body("/s"));
    assert_eq!(export["turns"], client.get_body("/s/turns")["data"]);
    let items = client.get("/s/items");
    let plain: Vec<Value> = export["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(without_chain_fields)
        .collect();
    assert_eq!(Value::from(plain.clone()), items.body()["data"]);
    let raw = items.text.strip_prefix("{\"data\":[").unwrap();
    let raw = raw.strip_suffix("}],\"next_cursor\":null}").unwrap();
    for item in raw.split("},{\"seq\":") {
        assert!(
            text.contains(item),
            "the export does not contain the bytes of this item: {item}"
        );
    }
    assert_eq!(
        world.json(&["sessions", "show", "s"])["items"],
        Value::from(plain)
    );
    server.stop();
}

#[test]
fn verify_exits_with_a_code_for_each_result() {
    let world = filled_world();
    let text = world.ok(&["verify"]);
    assert!(
        text.starts_with("intact: 2 sessions, 2 turns, 4 items"),
        "{text}"
    );
    let one = world.json(&["verify", "t"]);
    assert_eq!(
        (&one["status"], &one["sessions"], &one["items"]),
        (&json!("intact"), &json!(1), &json!(1))
    );
    let absent = world.run(&["verify", "none"]);
    assert_eq!(absent.code, Some(1), "{absent:?}");
    let malformed = world.run(&["verify", ""]);
    assert_eq!(malformed.code, Some(2), "{malformed:?}");

    let empty = World::new();
    let command_output = empty.run(&["verify"]);
    assert_eq!(command_output.code, Some(2), "{command_output:?}");
    assert!(command_output.stdout.is_empty());
    let file = world.path("no.db");
    std::fs::write(&file, "not a database").unwrap();
    let command_output = world.run(&["verify", "--store", &format!("sqlite:{}", file.display())]);
    assert!(
        matches!(command_output.code, Some(1 | 2)),
        "{command_output:?}"
    );
}

#[test]
fn json_output_is_one_document() {
    let world = filled_world();
    for command in [
        &["sessions", "list"][..],
        &["sessions", "show", "s"],
        &["verify"],
        &["verify", "s"],
        &["doctor"],
        &["anchor", "show"],
        &["keyring", "list"],
        &["config", "show"],
    ] {
        assert!(world.json(command).is_object(), "{command:?}");
    }
    let failed = world.run(&["sessions", "show", "none", "--json"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""));
    let problem: Value = serde_json::from_str(&failed.stderr).unwrap();
    assert_eq!(problem["code"], "session_not_found");
    assert!(problem.get("hint").is_some() && problem["detail"].is_string());
}

#[test]
fn doctor_finds_faults() {
    let world = filled_world();
    let text = world.ok(&["doctor"]);
    for name in ["configuration", "keyring", "store", "anchor", "heads"] {
        assert!(
            text.lines()
                .any(|l| l.starts_with("ok") && l.contains(name)),
            "{name}: {text}"
        );
    }
    assert!(!text.contains("FAILED"));
    let keyring = world.keyring();
    let set_mode = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&keyring, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o644);
    let command_output = world.run(&["doctor"]);
    assert_eq!(command_output.code, Some(1), "{command_output:?}");
    assert!(
        command_output.stdout.contains("FAILED") && command_output.stdout.contains("chmod 600"),
        "{command_output:?}"
    );
    set_mode(0o600);
    world.ok(&["doctor"]);
    let empty = World::new();
    let command_output = empty.run(&["doctor", "--json"]);
    assert_eq!(command_output.code, Some(1));
    let report: Value = serde_json::from_str(&command_output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert!(empty.is_empty(), "doctor created a store");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let world = filled_world();
    let commands: &[&[&str]] = &[
        &["sessions", "list"],
        &["sessions", "list", "--json"],
        &["sessions", "show", "s"],
        &["export", "s"],
        &["verify"],
        &["doctor"],
        &["config", "show"],
        &["keyring", "list"],
        &["completions", "bash"],
        &["--help"],
    ];
    for arguments in commands {
        let mut child = world
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn help_shows_all_commands() {
    let world = World::new();
    let commands = [
        "serve",
        "ui",
        "sessions",
        "import",
        "export",
        "lineage",
        "stats",
        "erase",
        "project",
        "verify",
        "doctor",
        "anchor",
        "keyring",
        "config",
        "completions",
    ];
    let help = world.ok(&["--help"]);
    for command in commands {
        assert!(help.contains(command), "{command}: {help}");
        let text = world.ok(&[command, "--help"]);
        assert!(text.contains(&format!("filrouge {command}")), "{text}");
        let (own, global) = text.split_once("\nGlobal options:\n").expect(&text);
        for option in ["--store", "--tenant", "--config", "--json", "--unverified"] {
            assert!(global.contains(option) && !own.contains(option), "{text}");
        }
        assert!(
            !global.contains(":\n"),
            "a section follows the global options: {text}"
        );
    }
    assert!(help.contains("Exit codes"));
    for word in ["FILROUGE_STORE", "FILROUGE_TENANT", "FILROUGE_CONFIG"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(world.ok(&["serve", "--help"]).contains("FILROUGE_LISTEN"));
    assert!(world.ok(&["--version"]).starts_with("filrouge "));
    let script = world.ok(&["completions", "bash"]);
    assert!(
        script.contains("_filrouge()") && script.contains("keyring"),
        "bash"
    );
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(world.ok(&["completions", shell]).contains("filrouge"));
    }
    for wrong in [
        &["unknown"][..],
        &[],
        &["completions", "tcsh"],
        &["export"],
        &["sessions", "list", "--limit", "x"],
    ] {
        let command_output = world.run(wrong);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {command_output:?}"
        );
    }
    assert!(
        !world.path("data").exists() && !world.path("config").exists(),
        "help created files"
    );
}
