//! Ids that are abbreviated, `@latest`, and shell completions of ids.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::mcp_stdio::with_history;
use crate::world::World;

/// A ledger with the sessions `alpha-1`, `alpha-2` and `beta`, the last of which is the newest.
fn filled() -> World {
    let world = World::new();
    let server = world.serve();
    for id in ["alpha-1", "alpha-2", "beta"] {
        let turn = json!({ "request_id": "r", "question_neutral": format!("Who is {id}?"), "answer_neutral": "I." });
        server.client().post(&format!("/{id}/turns"), &turn);
    }
    server.stop();
    world
}

#[test]
fn a_unique_beginning_names_a_session() {
    let world = filled();
    for command in [
        &["sessions", "show"][..],
        &["export"],
        &["lineage"],
        &["stats"],
        &["verify"],
        &["doctor", "session"],
    ] {
        let run = |id: &str| world.run(&[command, &[id]].concat());
        for id in ["beta", "be", "@latest"] {
            assert_eq!(run(id).code, Some(0), "{command:?} {id}");
        }
        let ambiguous = run("alpha");
        assert_eq!(ambiguous.code, Some(2), "{command:?}: {ambiguous:?}");
        for id in ["alpha-1", "alpha-2"] {
            assert!(ambiguous.stderr.contains(id), "{ambiguous:?}");
        }
        let absent = run("gamma");
        assert_ne!(absent.code, Some(0), "{command:?}: {absent:?}");
    }
    for id in ["be", "@latest"] {
        let shown = world.ok(&["sessions", "show", id]);
        assert!(
            shown.starts_with("beta ") && shown.contains("Who is beta?"),
            "{shown}"
        );
    }
    // What cannot be undone needs the whole id.
    for command in [
        &["erase", "be", "--yes"][..],
        &["erase", "--session", "be", "--yes"],
        &["redact", "be", "--seq", "1-9", "--reason", "a test"],
        &[
            "redact", "be", "--seq", "1-9", "--reason", "a test", "--yes",
        ],
    ] {
        world.run(command);
    }
    assert!(
        world
            .ok(&["sessions", "show", "beta"])
            .contains("Who is beta?")
    );
}

#[test]
fn histories_of_other_programs_are_named_alike() {
    let (world, source) = with_history();
    let of =
        |command: &[&str], id: &str| world.run(&[command, &[id, "--source", &source]].concat());
    let id = "ses_44e90f601ffeHj8PvwdQsVnTrd";
    for command in [
        &["sessions", "show"][..],
        &["stats"],
        &["lineage"],
        &["export"],
    ] {
        let output = of(command, &id[..16]);
        assert_eq!(output.code, Some(0), "{command:?}: {output:?}");
        assert!(
            output.stdout.contains(id) || command == ["stats"],
            "{command:?}: {output:?}"
        );
        assert_eq!(of(command, "@latest").code, Some(0), "{command:?}");
        let ambiguous = of(command, "ses_");
        assert_eq!(ambiguous.code, Some(2), "{command:?}: {ambiguous:?}");
        assert!(
            ambiguous.stderr.contains("14 sessions begin with"),
            "{ambiguous:?}"
        );
    }
    let found = world.run(&[
        "search",
        "limiter",
        "--session",
        &id[..16],
        "--source",
        &source,
    ]);
    assert!(found.stdout.contains(id), "{found:?}");
}

#[test]
fn shells_complete_ids() {
    let world = filled();
    let script = world.path("completions.bash");
    fs::write(&script, world.ok(&["completions", "bash"])).unwrap();
    let completed = |words: &[&str]| {
        let ask = r#"
            filrouge() { "$PROGRAM" "$@"; }
            source "$1"; shift
            COMP_WORDS=(filrouge "$@"); COMP_CWORD=$#
            _filrouge_with_ids filrouge "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}"
        "#;
        let mut command = Command::new("bash");
        for (name, value) in world.command(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("PROGRAM", env!("CARGO_BIN_EXE_filrouge"));
        command.args(["-c", ask, "bash"]).arg(&script).args(words);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for words in [
        &["sessions", "show", "al"][..],
        &["export", "al"],
        &["doctor", "session", "al"],
    ] {
        let mut ids = completed(words);
        ids.retain(|id| id.starts_with("al"));
        ids.sort();
        assert_eq!(ids, ["alpha-1", "alpha-2"], "{words:?}");
    }
    assert!(!completed(&["keys", "al"]).contains(&"alpha-1".to_owned()));
    let zsh = world.ok(&["completions", "zsh"]);
    assert!(zsh.starts_with("#compdef filrouge\n"), "{}", &zsh[..60]);
    assert!(
        zsh.matches("The session:_filrouge_ids").count() >= 4,
        "{zsh}"
    );
    let fish = world.ok(&["completions", "fish"]);
    assert!(
        fish.contains("(filrouge sessions ids 2>/dev/null)"),
        "{fish}"
    );
}
