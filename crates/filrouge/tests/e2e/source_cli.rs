//! Histories of coding agents on the command line, read in place.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{CommandOutput, World, copy_tree, finish, fixture};

/// The sample key of Amazon's documentation, in the output of a tool of the genuine history.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
/// The session of OpenCode that plans a rate limiter.
pub(crate) const PLAN: &str = "ses_44e90f601ffeHj8PvwdQsVnTrd";

/// A home with the history of each program in its default folder.
pub(crate) fn home() -> World {
    let world = World::new();
    copy_tree(&fixture("opencode-json"), &world.path("data/opencode"));
    copy_tree(&fixture("claude-code"), &world.path(".claude"));
    copy_tree(&fixture("codex"), &world.path(".codex"));
    world
}

/// A command without the programs' own variables, which could name other folders.
pub(crate) fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(world: &World, arguments: &[&str]) -> CommandOutput {
    finish(command(world, arguments), &format!("{arguments:?}"))
}

pub(crate) fn ok(world: &World, arguments: &[&str]) -> String {
    let command_output = run(world, arguments);
    assert_eq!(
        command_output.code,
        Some(0),
        "{arguments:?}: {command_output:?}"
    );
    command_output.stdout
}

/// Runs a command, which must succeed; returns the JSON document that it prints.
pub(crate) fn json(world: &World, arguments: &[&str]) -> Value {
    let text = ok(world, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{text}"))
}

/// The ids of the sessions in the output.
fn ids(answer: &Value) -> Vec<String> {
    let sessions = answer["data"].as_array().unwrap().iter();
    sessions
        .map(|s| s["session_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_program_has_a_default_folder_that_can_be_overridden() {
    let world = home();
    for (source, count) in [("opencode", 14), ("claude-code", 4), ("codex", 2)] {
        let all = json(&world, &["sessions", "list", "--source", source]);
        assert_eq!(
            (all["total"].as_u64(), ids(&all).len()),
            (Some(count), count as usize),
            "{source}"
        );
        let text = ok(&world, &["sessions", "list", "--source", source]);
        assert!(
            text.starts_with(" SESSION") && text.contains(source),
            "{text}"
        );
    }
    let legacy = format!("opencode:{}", fixture("opencode-json-legacy").display());
    let two = json(
        &world,
        &["sessions", "list", "--source", &legacy, "--source", "codex"],
    );
    assert_eq!(two["total"], 4);
    // The programs' own variables are honored.
    let list_with = |name: &str, value: &Path, source: &str| {
        let mut command = command(&world, &["sessions", "list", "--json", "--source", source]);
        command.env(name, value);
        finish(command, name)
    };
    copy_tree(&fixture("codex"), &world.path("other-codex"));
    copy_tree(&fixture("opencode-sqlite-first"), &world.path("db"));
    fs::rename(
        world.path("db/opencode.db"),
        world.path("db/opencode-mine.db"),
    )
    .unwrap();
    let codex = list_with("CODEX_HOME", &world.path("other-codex"), "codex");
    assert!(codex.stdout.contains("\"total\": 2"), "{codex:?}");
    let missing = list_with("CLAUDE_CONFIG_DIR", &world.path("missing"), "claude-code");
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("~/.claude"), "{missing:?}");
    let database = list_with(
        "OPENCODE_DB",
        &world.path("db/opencode-mine.db"),
        "opencode",
    );
    assert!(
        database.stdout.contains("\"total\": 36"),
        "22 sessions of the database and 14 of the files: {database:?}"
    );
}

#[test]
fn lists_are_filtered_and_paged() {
    let world = home();
    let source = ["--source", "opencode"];
    let list = |more: &[&str]| {
        ids(&json(
            &world,
            &[&["sessions", "list"], &source[..], more].concat(),
        ))
    };
    assert_eq!(list(&["--q", "RATE LIMITER"]), [PLAN]);
    assert_eq!(list(&["--project", "carnet"]).len(), 3);
    assert_eq!(list(&["--agent", "roadmap"]), [PLAN]);
    assert!(list(&["--agent", "nobody"]).is_empty());
    let (all, mut paged, mut cursor) = (list(&[]), Vec::new(), None::<String>);
    loop {
        let mut more = vec!["sessions", "list", "--limit", "5"];
        if let Some(cursor) = &cursor {
            more.extend(["--cursor", cursor]);
        }
        let page = json(&world, &[&more[..], &source[..]].concat());
        paged.extend(ids(&page));
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((paged.len(), paged), (14, all));
}

#[test]
fn wrong_names_and_options_are_usage_errors() {
    let world = home();
    for wrong in [
        &["sessions", "list", "--source", "cursor"][..],
        &["sessions", "list", "--source", "codex:"],
        &["sessions", "list", "--source", "ledger:/x"],
        &["sessions", "list", "--source", "opencode:/there/is/nothing"],
        &["sessions", "list", "--source", "opencode:/etc"],
        &["sessions", "list", "--source", "codex", "--limit", "0"],
        &[
            "sessions", "list", "--source", "codex", "--status", "active",
        ],
        &["sessions", "list", "--source", "codex", "--cursor", "x"],
        &["sessions", "show", "x", "--unmasked"],
        &["sessions", "show", "x", "--source", "ledger", "--unmasked"],
        &["export", "x", "--unmasked"],
        &["search", "/(/", "--source", "codex"],
        &["search", "--source", "codex"],
        &["search", "x", "--role", "tool"],
        &["search", "x", "--since", "yesterday"],
        &["stats"],
        &["stats", "--project", "x"],
        &["stats", "--kpi", "--source", "codex"],
        &["stats", "x", "--source", "codex", "--since", "7d"],
    ] {
        let command_output = run(&world, wrong);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {command_output:?}"
        );
        assert!(!command_output.stderr.is_empty(), "{wrong:?}");
    }
    let incomplete = run(&world, &["stats"]).stderr;
    assert!(
        incomplete.contains("--kpi") && incomplete.contains("--source"),
        "{incomplete}"
    );
    let unknown = run(&world, &["sessions", "list", "--source", "cursor"]).stderr;
    assert!(
        unknown.contains("known: opencode, claude-code, codex, ledger"),
        "{unknown}"
    );
    for call in [
        &["sessions", "show"][..],
        &["lineage"],
        &["stats"],
        &["export"],
    ] {
        let command_output = run(
            &world,
            &[call, &["../../x", "--source", "opencode"]].concat(),
        );
        assert_eq!(command_output.code, Some(1), "{call:?}: {command_output:?}");
        assert!(
            command_output
                .stderr
                .starts_with("error[session_not_found]"),
            "{command_output:?}"
        );
    }
}

#[test]
fn a_search_without_a_source_searches_all_sources_and_names_them() {
    let world = home();
    let command_output = run(&world, &["search", "rate", "limiter"]);
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    for source in ["opencode (", "claude-code (", "codex ("] {
        assert!(command_output.stderr.contains(source), "{command_output:?}");
    }
    assert!(
        !command_output.stderr.contains("ledger"),
        "the output names a ledger, but none exists: {command_output:?}"
    );
    assert!(
        command_output.stdout.contains(PLAN) && command_output.stdout.contains("«limiter»"),
        "{command_output:?}"
    );
    // An existing ledger is searched too.
    ok(&world, &["import", "codex"]);
    let with_ledger = run(&world, &["search", "limiter"]).stderr;
    assert!(with_ledger.contains("ledger ("), "{with_ledger}");
    let mut named = command(&world, &["search", "limiter"]);
    named.env("FILROUGE_SOURCE", "codex,claude-code");
    let named = finish(named, "FILROUGE_SOURCE");
    assert!(
        !named.stderr.contains("opencode") && named.stderr.contains("codex ("),
        "{named:?}"
    );
    fs::create_dir_all(world.path("config/filrouge")).unwrap();
    let file = world.path("config/filrouge/config.toml");
    fs::write(&file, "sources = [\"opencode\"]\n").unwrap();
    let from_file = run(&world, &["search", "limiter"]).stderr;
    assert!(
        from_file.contains("opencode (") && !from_file.contains("codex ("),
        "{from_file}"
    );
    let shown = ok(&world, &["config", "show"]);
    assert!(
        shown
            .lines()
            .any(|l| l.starts_with("sources ") && l.contains("opencode  (")),
        "{shown}"
    );
    fs::write(&file, "sources = [\"cursor\"]\n").unwrap();
    assert_eq!(run(&world, &["search", "limiter"]).code, Some(2));
}

#[test]
fn searches_are_filtered() {
    let world = home();
    let found = |more: &[&str]| {
        json(
            &world,
            &[&["search", "--source", "opencode"], more].concat(),
        )
    };
    let total = |more: &[&str]| found(more)["total_matches"].as_u64().unwrap();
    let all = total(&["limiter"]);
    assert!(all >= 3, "{all}");
    let by_user = total(&["limiter", "--role", "user"]);
    assert!(by_user > 0 && by_user < all);
    assert_eq!(total(&["limiter", "--project", "carnet"]), 0);
    assert_eq!(total(&["limiter", "--until", "2020-01-01T00:00:00Z"]), 0);
    // A time is a date, a number of milliseconds or a duration. Titles have no time, so they are not found.
    let timed = total(&["limiter", "--since", "2020-01-01T00:00:00Z"]);
    assert!(timed > 0 && timed < all, "{timed}");
    for before in ["2020-01-01", "1577836800000", "1000w"] {
        assert_eq!(total(&["limiter", "--until", before]), 0, "{before}");
        assert_eq!(total(&["limiter", "--since", before]), timed, "{before}");
    }
    assert!(
        total(&["--tool", "bash"]) > 0,
        "a filter alone is a valid query"
    );
    let one = found(&["--session", PLAN, "limiter"]);
    assert_eq!(ids(&one), [PLAN]);
    // Pages of one session.
    let (first, all) = (
        found(&["--tool", "bash", "--limit", "1"]),
        found(&["--tool", "bash"]),
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = found(&["--tool", "bash", "--limit", "1", "--cursor", cursor]);
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&all)[..2]);
}

#[test]
fn credentials_are_masked_by_default() {
    let world = home();
    let listed = json(
        &world,
        &[
            "sessions",
            "list",
            "--source",
            "opencode",
            "--q",
            "staging key",
        ],
    );
    let id = &ids(&listed)[0];
    for call in [
        &["sessions", "show", id][..],
        &["export", id, "--format", "md"],
        &["export", id, "--format", "html"],
        &["export", id, "--format", "json"],
        &["search", SECRET],
    ] {
        let call = [call, &["--source", "opencode"]].concat();
        assert!(!ok(&world, &call).contains(SECRET), "{call:?}");
        let unmasked = [&call[..], &["--unmasked"]].concat();
        // Without the marks of a search's hits.
        let unmasked = ok(&world, &unmasked).replace(['«', '»'], "");
        assert!(unmasked.contains(SECRET), "{call:?}: {unmasked}");
    }
}

/// Adds a message part to [`PLAN`] whose text is longer than a pipe's buffer; returns the text without its end.
fn add_long_text(world: &World) -> String {
    let folder = world.path("data/opencode/storage/part/msg_bb16f0a3a001rdZxChPy3cyFHV");
    let text = "the fil rouge goes on and on; ".repeat(20_000);
    let part = json!({
        "id": "prt_zzz", "messageID": "msg_bb16f0a3a001rdZxChPy3cyFHV", "sessionID": PLAN,
        "type": "text", "text": format!("{text}\nthe very end of it"),
    });
    fs::write(folder.join("prt_zzz.json"), part.to_string()).unwrap();
    text
}

#[test]
fn a_pipe_gets_the_complete_output_and_may_be_closed_early() {
    let world = home();
    let long_text = add_long_text(&world);
    for call in [
        &["sessions", "show", PLAN][..],
        &["sessions", "show", PLAN, "--json"],
        &["export", PLAN, "--format", "md"],
        &["export", PLAN, "--format", "html"],
        &["export", PLAN, "--format", "json"],
    ] {
        let call = [call, &["--source", "opencode"]].concat();
        let text = ok(&world, &call);
        let repetitions = text.matches("the fil rouge goes on and on;").count();
        assert_eq!(
            repetitions,
            20_000,
            "{call:?}: {} bytes of output, {} bytes of text",
            text.len(),
            long_text.len()
        );
        assert!(text.contains("the very end of it"), "{call:?}");
        assert!(
            text.contains("Plan 07 is ready"),
            "the text after the long one is missing: {call:?}"
        );
        // The reader closes the pipe after 100 bytes, as `head` does.
        let mut child = command(&world, &call)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut beginning = [0; 100];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut beginning).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{call:?}: {stderr}");
        assert!(
            !stderr.contains("panicked") && !stderr.contains("error"),
            "{stderr}"
        );
    }
}

#[test]
fn max_chars_cuts_the_output_and_shows_how_to_continue() {
    let world = home();
    let show = [
        "sessions",
        "show",
        PLAN,
        "--source",
        "opencode",
        "--max-chars",
        "500",
    ];
    let first = run(&world, &show);
    let cursor = first
        .stderr
        .split("--cursor ")
        .nth(1)
        .unwrap()
        .trim()
        .to_owned();
    let second = run(&world, &[&show[..], &["--cursor", &cursor]].concat());
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{second:?}");
    assert_ne!(first.stdout, second.stdout);
}
