//! How the command line shows histories of other programs: credentials only on request, no control characters, and no
//! empty output for a history that cannot be read.

use std::fs;

use serde_json::Value;

use crate::source_cli::{PLAN, home, json, ok, run};
use crate::world::World;

/// The sample key of Amazon's documentation.
const SECRET: &str = "AKIAIOSFODNN7EXAMPLE";
// The project of PLAN in OpenCode's files, two of its messages, and a tool call.
const PROJECT: &str = "data/opencode/storage/session/d82cdb25e3fd8e4bddc64a620042cf815cd8b682";
const QUESTION: &str = "msg_bb16f0a3a001rdZxChPy3cyFHV";
const ANSWER: &str = "msg_bb16f0b27001rsxLySrVE6RG6K";
const CALL: &str = "prt_bb16f0c06002AN1Mo0n1RppQjF";

/// Sets a string in one of OpenCode's JSON files.
fn set(world: &World, path: &str, pointer: &str, text: &str) {
    let path = world.path(path);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    *value.pointer_mut(pointer).unwrap() = text.into();
    fs::write(&path, value.to_string()).unwrap();
}

/// A home in which the title, the agents and a tool of [`PLAN`] contain this text.
fn home_with(text: &str) -> World {
    let world = home();
    set(
        &world,
        &format!("{PROJECT}/{PLAN}.json"),
        "/title",
        &format!("Limiter {text} plan"),
    );
    for message in [QUESTION, ANSWER] {
        let path = format!("data/opencode/storage/message/{PLAN}/{message}.json");
        set(&world, &path, "/agent", &format!("agent {text}"));
    }
    let path = format!("data/opencode/storage/part/{ANSWER}/{CALL}.json");
    set(&world, &path, "/tool", &format!("tool {text}"));
    world
}

/// All commands that show [`PLAN`].
const QUERIES: [&[&str]; 9] = [
    &["sessions", "list", "--q", "limiter"],
    &["sessions", "show", PLAN],
    &["search", "limiter", "plan"],
    &["lineage", PLAN],
    &["stats", PLAN],
    &["stats"],
    &["export", PLAN, "--format", "md"],
    &["export", PLAN, "--format", "html"],
    &["export", PLAN],
];

#[test]
fn no_command_shows_a_credential_by_default() {
    let world = home_with(SECRET);
    for query in QUERIES {
        let query = [query, &["--source", "opencode"]].concat();
        let with_json = [&query[..], &["--json"]].concat();
        let mut calls = vec![&query];
        if !query.contains(&"--format") {
            calls.push(&with_json);
        }
        for call in calls {
            let text = ok(&world, call);
            assert!(!text.contains(SECRET), "{call:?}: {text}");
            assert!(text.contains("masked:"), "{call:?}: {text}");
            let unmasked = ok(&world, &[&call[..], &["--unmasked"]].concat());
            assert!(unmasked.contains(SECRET), "{call:?}: {unmasked}");
        }
    }
}

#[test]
fn unmasking_the_ledger_alone_is_refused() {
    let world = home();
    for query in QUERIES {
        // A search, and statistics of all sessions, always query other sources too.
        if query[0] == "search" || query == ["stats"] {
            continue;
        }
        for source in [&[][..], &["--source", "ledger"]] {
            let call = [query, source, &["--unmasked"]].concat();
            let output = run(&world, &call);
            assert_eq!(output.code, Some(2), "{call:?}: {output:?}");
            assert!(output.stderr.contains("--source"), "{call:?}: {output:?}");
        }
    }
}

#[test]
fn names_and_titles_print_no_control_characters() {
    let world = home_with("a\u{202e}b\u{2028}c\u{2066}d\u{85}e\u{1b}[2J");
    let controls = ['\u{202e}', '\u{2028}', '\u{2066}', '\u{85}', '\u{1b}'];
    for query in QUERIES {
        let text = ok(&world, &[query, &["--source", "opencode"]].concat());
        if query[0] != "export" {
            assert!(!text.contains(controls), "{query:?}: {text:?}");
            assert!(
                text.contains("a\u{fffd}b\u{fffd}c\u{fffd}d"),
                "{query:?}: {text:?}"
            );
        } else if query.contains(&"--format") {
            // A document keeps direction marks that a language needs, and closes them.
            let count = |c: char| text.matches(c).count();
            assert_eq!(count('\u{202e}'), count('\u{202c}'), "{query:?}: {text:?}");
            assert_eq!(count('\u{2066}'), count('\u{2069}'), "{query:?}: {text:?}");
            assert!(!text.contains(['\u{1b}', '\u{85}']), "{query:?}: {text:?}");
        }
    }
}

#[test]
fn an_unreadable_history_is_not_shown_as_empty() {
    let world = home();
    fs::create_dir_all(world.path("damaged")).unwrap();
    fs::write(
        world.path("damaged/opencode.db"),
        "this is no database\n".repeat(500),
    )
    .unwrap();
    let damaged = format!("opencode:{}", world.path("damaged").display());
    for query in QUERIES {
        for more in [&[][..], &["--json"]] {
            if query.contains(&"--format") && !more.is_empty() {
                continue;
            }
            let call = [query, more, &["--source", &damaged]].concat();
            let output = run(&world, &call);
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (Some(1), ""),
                "{call:?}: {output:?}"
            );
            assert!(
                output.stderr.contains("can be read") && output.stderr.contains("damaged"),
                "{call:?}: {output:?}"
            );
        }
    }
    // The other history is shown, and a notice names the unreadable one.
    let both = [
        "sessions", "list", "--json", "--source", &damaged, "--source", "codex",
    ];
    let output = run(&world, &both);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\"total\": 2"), "{output:?}");
    assert!(
        output.stderr.contains("not queried: opencode"),
        "{output:?}"
    );
    assert_eq!(
        json(&world, &["sessions", "list", "--source", "codex"])["total"],
        2
    );
}

#[test]
fn conflicting_output_formats_are_refused() {
    let world = home();
    for source in [&[][..], &["--source", "opencode"]] {
        for format in ["md", "html"] {
            let call = [&["export", PLAN, "--json", "--format", format], source].concat();
            let output = run(&world, &call);
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (Some(2), ""),
                "{call:?}: {output:?}"
            );
            assert!(output.stderr.contains("--format"), "{output:?}");
        }
    }
    let source = ["--source", "opencode"];
    let plain = ok(&world, &[&["export", PLAN][..], &source].concat());
    let with_json = ok(&world, &[&["export", PLAN, "--json"][..], &source].concat());
    assert_eq!(plain, with_json);
}
