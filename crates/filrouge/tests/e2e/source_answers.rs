//! Output of the command line about histories: lineage, statistics, and the ledger as a source.

use serde_json::Value;

use crate::source_cli::{PLAN, home, json, ok};
use crate::world::{World, copy_tree, fixture};

#[test]
fn lineage_is_a_tree_and_lists_forks_separately() {
    let world = World::new();
    copy_tree(&fixture("opencode-sqlite"), &world.path("db"));
    let source = format!("opencode:{}", world.path("db").display());
    let tree = |id: &str| ok(&world, &["lineage", id, "--source", &source]);
    let review = tree("ses_44d7e2498ffeZiLHSX5VGd5h4c");
    let lines: Vec<_> = review.lines().collect();
    assert!(
        lines[0].starts_with("  ses_44d7e256bffeMrEzO0kYZqUDmM"),
        "{review}"
    );
    assert!(
        lines[1].starts_with("  * ses_44d7e2498ffeZiLHSX5VGd5h4c  [tester]"),
        "{review}"
    );
    assert!(
        lines[2].starts_with("      ses_44d7e22f0ffe1geuGPwwQjraE3"),
        "{review}"
    );
    assert!(lines[2].contains("  by call_"), "{review}");
    let fork = tree("ses_44d7e2990ffe5WPQFo0rjBoLz8");
    let from = fork.split("forked from:\n").nth(1).unwrap();
    assert!(from.contains("(inferred, "), "{fork}");
    let answer = json(
        &world,
        &[
            "lineage",
            "ses_44d7e2990ffe5WPQFo0rjBoLz8",
            "--source",
            &source,
        ],
    );
    assert_eq!(answer["forked_from"][0]["evidence"], "inferred");
}

#[test]
fn statistics_of_one_session_and_of_all_are_shown() {
    let world = home();
    let own = json(&world, &["stats", PLAN, "--source", "opencode"]);
    let text = ok(&world, &["stats", PLAN, "--source", "opencode"]);
    let row = text
        .lines()
        .find(|l| l.trim_start().starts_with("messages"))
        .unwrap();
    let counts: Vec<_> = row.split_whitespace().skip(1).collect();
    for (column, sums) in ["own", "with_descendants", "without_copied"]
        .iter()
        .enumerate()
    {
        assert_eq!(
            counts[column],
            own[sums]["message_count"].to_string(),
            "{text}"
        );
    }
    let all = [
        "stats",
        "--source",
        "opencode",
        "--source",
        "codex",
        "--source",
        "claude-code",
    ];
    let answer = json(&world, &all);
    assert_eq!(answer["all"]["sessions"], 20, "{answer}");
    let text = ok(&world, &all);
    let days = text.lines().filter(|line| line.contains('█')).count();
    assert_eq!(
        Some(days),
        answer["days"].as_array().map(Vec::len),
        "{text}"
    );
    assert!(
        text.contains("CLAUDE-CODE") && text.contains("tools: "),
        "{text}"
    );
    let some = json(
        &world,
        &["stats", "--source", "opencode", "--project", "carnet"],
    );
    assert_eq!(some["all"]["sessions"], 3);
    let none = json(
        &world,
        &[
            "stats",
            "--source",
            "opencode",
            "--until",
            "2020-01-01T00:00:00Z",
        ],
    );
    assert_eq!(none["all"]["sessions"], 0);
}

#[test]
fn the_ledger_is_a_source_like_others() {
    let world = home();
    ok(&world, &["import", "opencode"]);
    let default_source = ok(&world, &["sessions", "list", "--json"]);
    assert_eq!(
        default_source,
        ok(
            &world,
            &["sessions", "list", "--json", "--source", "ledger"]
        )
    );
    let both = json(
        &world,
        &[
            "sessions", "list", "--source", "ledger", "--source", "codex",
        ],
    );
    assert_eq!(both["total"], 16);
    // The ledger and the program's own files give the same output.
    let texts_of = |source: &[&str]| {
        let call = [&["sessions", "show", PLAN, "--json"], source].concat();
        let mut answer: Value = serde_json::from_str(&ok(&world, &call)).unwrap();
        let messages = answer["messages"].as_array_mut().unwrap();
        let texts = messages.iter().flat_map(|m| m["parts"].as_array().unwrap());
        let texts = texts.filter(|p| p["type"] == "text" || p["type"] == "tool");
        texts
            .map(|p| [p["text"].clone(), p["output"].clone()])
            .collect::<Vec<_>>()
    };
    copy_tree(&fixture("codex"), &world.path("other"));
    let other = format!("codex:{}", world.path("other").display());
    let texts = texts_of(&["--source", "ledger", "--source", &other]);
    assert!(texts.len() > 5, "{texts:?}");
    assert_eq!(texts, texts_of(&["--source", "opencode"]));
}
