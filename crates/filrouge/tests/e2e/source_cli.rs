//! Histories of coding agents on the command line, read in place.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{Done, World, copy_tree, finish, fixture};

/// A key in the output of a tool in the genuine history; a sample of public documentation.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
pub(crate) const PLAN: &str = "ses_44e90f601ffeHj8PvwdQsVnTrd";

/// A home in which agents have worked: a copy of the fixture in the default place of each program.
pub(crate) fn home() -> World {
    let world = World::new();
    copy_tree(&fixture("opencode-json"), &world.path("data/opencode"));
    copy_tree(&fixture("claude-code"), &world.path(".claude"));
    copy_tree(&fixture("codex"), &world.path(".codex"));
    world
}

/// A command without the programs' own variables, which could name other places.
fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_DB"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(world: &World, arguments: &[&str]) -> Done {
    finish(command(world, arguments), &format!("{arguments:?}"))
}

pub(crate) fn ok(world: &World, arguments: &[&str]) -> String {
    let done = run(world, arguments);
    assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
    done.stdout
}

pub(crate) fn json(world: &World, arguments: &[&str]) -> Value {
    let text = ok(world, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{text}"))
}

fn ids(answer: &Value) -> Vec<String> {
    let sessions = answer["sessions"].as_array().unwrap().iter();
    sessions
        .map(|s| s["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_program_has_a_default_place_that_can_be_overridden() {
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
    let moved = |name: &str, value: &Path, source: &str| {
        let mut command = command(&world, &["sessions", "list", "--json", "--source", source]);
        command.env(name, value);
        finish(command, name)
    };
    copy_tree(&fixture("codex"), &world.path("elsewhere"));
    copy_tree(&fixture("opencode-sqlite-first"), &world.path("db"));
    fs::rename(
        world.path("db/opencode.db"),
        world.path("db/opencode-mine.db"),
    )
    .unwrap();
    let codex = moved("CODEX_HOME", &world.path("elsewhere"), "codex");
    assert!(codex.stdout.contains("\"total\": 2"), "{codex:?}");
    let nowhere = moved("CLAUDE_CONFIG_DIR", &world.path("nowhere"), "claude-code");
    assert_eq!(nowhere.code, Some(2), "{nowhere:?}");
    assert!(nowhere.stderr.contains("~/.claude"), "{nowhere:?}");
    let database = moved(
        "OPENCODE_DB",
        &world.path("db/opencode-mine.db"),
        "opencode",
    );
    assert!(
        database.stdout.contains("\"total\": 36"),
        "22 and 14: {}",
        database.stderr
    );
}

#[test]
fn lists_are_filtered_and_continue() {
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
    let (whole, mut paged, mut cursor) = (list(&[]), Vec::new(), None::<String>);
    loop {
        let mut more = vec!["sessions", "list", "--limit", "5"];
        if let Some(cursor) = &cursor {
            more.extend(["--cursor", cursor]);
        }
        let page = json(&world, &[&more[..], &source[..]].concat());
        paged.extend(ids(&page));
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((paged.len(), paged), (14, whole));
}

#[test]
fn wrong_names_and_options_are_wrong_usage() {
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
        let done = run(&world, wrong);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {done:?}"
        );
        assert!(!done.stderr.is_empty(), "{wrong:?}");
    }
    let named = run(&world, &["stats"]).stderr;
    assert!(
        named.contains("--kpi") && named.contains("--source"),
        "{named}"
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
        let done = run(
            &world,
            &[call, &["../../x", "--source", "opencode"]].concat(),
        );
        assert_eq!(done.code, Some(1), "{call:?}: {done:?}");
        assert!(
            done.stderr.starts_with("error[session_not_found]"),
            "{done:?}"
        );
    }
}

#[test]
fn a_search_without_a_source_searches_everywhere_and_reports_it() {
    let world = home();
    let done = run(&world, &["search", "rate", "limiter"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for place in ["opencode (", "claude-code (", "codex ("] {
        assert!(done.stderr.contains(place), "{done:?}");
    }
    assert!(
        !done.stderr.contains("ledger"),
        "no ledger exists, so none is named: {done:?}"
    );
    assert!(
        done.stdout.contains(PLAN) && done.stdout.contains("«limiter»"),
        "{done:?}"
    );
    // The ledger is included as soon as it exists.
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
    let total = |more: &[&str]| found(more)["totalMatches"].as_u64().unwrap();
    let all = total(&["limiter"]);
    assert!(all >= 3, "{all}");
    let by_user = total(&["limiter", "--role", "user"]);
    assert!(by_user > 0 && by_user < all);
    assert_eq!(total(&["limiter", "--project", "carnet"]), 0);
    assert_eq!(total(&["limiter", "--until", "2020-01-01T00:00:00Z"]), 0);
    // A moment can be a date, milliseconds or a duration. Titles have no time.
    let said = total(&["limiter", "--since", "2020-01-01T00:00:00Z"]);
    assert!(said > 0 && said < all, "{said}");
    for before in ["2020-01-01", "1577836800000", "1000w"] {
        assert_eq!(total(&["limiter", "--until", before]), 0, "{before}");
        assert_eq!(total(&["limiter", "--since", before]), said, "{before}");
    }
    assert!(
        total(&["--tool", "bash"]) > 0,
        "a filter alone is a valid query"
    );
    let one = found(&["--session", PLAN, "limiter"]);
    assert_eq!(ids(&one), [PLAN]);
    // One page at a time.
    let (first, whole) = (
        found(&["--tool", "bash", "--limit", "1"]),
        found(&["--tool", "bash"]),
    );
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = found(&["--tool", "bash", "--limit", "1", "--cursor", cursor]);
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&whole)[..2]);
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
        let open = [&call[..], &["--unmasked"]].concat();
        let open = ok(&world, &open).replace(['«', '»'], "");
        assert!(open.contains(SECRET), "{call:?}: {open}");
    }
}

/// Creates a session with more text than a pipe buffers; returns its id.
fn large(world: &World) -> String {
    let folder = world.path("data/opencode/storage/part/msg_bb16f0a3a001rdZxChPy3cyFHV");
    let words = "the fil rouge goes on and on; ".repeat(20_000);
    let part = json!({
        "id": "prt_zzz", "messageID": "msg_bb16f0a3a001rdZxChPy3cyFHV", "sessionID": PLAN,
        "type": "text", "text": format!("{words}\nthe very end of it"),
    });
    fs::write(folder.join("prt_zzz.json"), part.to_string()).unwrap();
    words
}

#[test]
fn a_pipe_gets_the_complete_output_or_is_closed_quietly() {
    let world = home();
    let words = large(&world);
    for call in [
        &["sessions", "show", PLAN][..],
        &["sessions", "show", PLAN, "--json"],
        &["export", PLAN, "--format", "md"],
        &["export", PLAN, "--format", "html"],
        &["export", PLAN, "--format", "json"],
    ] {
        let call = [call, &["--source", "opencode"]].concat();
        let text = ok(&world, &call);
        let whole = text.matches("the fil rouge goes on and on;").count();
        assert_eq!(
            whole,
            20_000,
            "{call:?}: {} of {} bytes",
            text.len(),
            words.len()
        );
        assert!(text.contains("the very end of it"), "{call:?}");
        assert!(
            text.contains("Plan 07 is ready"),
            "the text after it is shown too: {call:?}"
        );
        // A reader that reads only a little, as `head` does.
        let mut child = command(&world, &call)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut few = [0; 100];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut few).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{call:?}: {reported}");
        assert!(
            !reported.contains("panicked") && !reported.contains("error"),
            "{reported}"
        );
    }
}

#[test]
fn a_budget_cuts_the_answer_and_shows_how_to_continue() {
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
