//! Compares statistics of genuine histories with what the programs themselves calculate.

use std::collections::BTreeMap;
use std::fs;

use filrouge_sources::library::list::ListRequest;
use filrouge_sources::library::stats::{self, ChangesFrom, Overview, SessionStats, Sums};
use filrouge_sources::{Changes, Library, TokenRule, Tokens, claude_code, codex};
use rusqlite::Connection;

use crate::library_lineage::{names, opencode_library};
use crate::{copy_of, fixture};

fn overview(library: &Library) -> Overview {
    stats::overview(library, &ListRequest::default()).unwrap()
}

fn session(library: &Library, id: &str) -> SessionStats {
    stats::session(library, id).unwrap()
}

/// The output of `opencode stats`: the numbers by their labels, and the calls of each tool.
struct Oracle {
    lines: BTreeMap<String, String>,
    tools: BTreeMap<String, u64>,
}

fn oracle(fixture_name: &str) -> Oracle {
    let path = fixture(fixture_name).join("oracle/stats-all.txt");
    let text = fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter_map(|row| row.strip_prefix('│')?.strip_suffix('│'));
    let mut oracle = Oracle {
        lines: BTreeMap::new(),
        tools: BTreeMap::new(),
    };
    for row in rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        match words.as_slice() {
            [tool, bar, calls, ..] if bar.starts_with('█') => {
                oracle
                    .tools
                    .insert((*tool).to_owned(), calls.parse().unwrap());
            }
            [name @ .., value] => {
                oracle.lines.insert(name.join(" "), (*value).to_owned());
            }
            [] => {}
        }
    }
    assert_eq!(oracle.tools.len(), 8);
    oracle
}

/// A number in the format of `opencode stats`.
fn format_count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{:.1}K", number as f64 / 1_000.0),
    }
}

impl Oracle {
    /// Compares everything but `Output`, whose meaning depends on the version.
    fn assert_equals(&self, sums: &Sums) {
        let line = |name: &str| self.lines[name].as_str();
        assert_eq!(line("Sessions"), sums.sessions.to_string());
        assert_eq!(line("Messages"), sums.message_count.to_string());
        assert_eq!(line("Total Cost"), format!("${:.2}", sums.cost));
        assert_eq!(line("Input"), format_count(sums.tokens.input));
        assert_eq!(line("Cache Read"), format_count(sums.tokens.cache_read));
        assert_eq!(line("Cache Write"), format_count(sums.tokens.cache_write));
        let tools = sums
            .tools
            .iter()
            .map(|(name, usage)| (name.clone(), usage.calls));
        assert_eq!(self.tools, tools.collect());
    }
}

/// OpenCode counts forks twice, so its numbers are compared with the sums that include copies.
#[test]
fn statistics_equal_those_of_opencode_before_1_16() {
    for (fixture, oracle_fixture) in [
        ("opencode-sqlite-first", "opencode-sqlite-first"),
        ("opencode-sqlite-migrated", "opencode-json-whole"),
    ] {
        let (_dir, library) = opencode_library(fixture);
        let totals = overview(&library);
        let oracle = oracle(oracle_fixture);
        oracle.assert_equals(&totals.all);
        // OpenCode's `Output` includes reasoning, which filrouge counts separately.
        let Tokens {
            output, reasoning, ..
        } = totals.all.tokens;
        assert_eq!(oracle.lines["Output"], format_count(output + reasoning));
        assert_eq!(reasoning, 408);
        assert_eq!(
            totals.token_rules,
            [TokenRule::OpencodeOutputHoldsReasoning]
        );
        // The difference is the copies in a complete fork and in a shorter one.
        assert_eq!(
            totals.without_copied.message_count,
            170 - 12 - 8,
            "{fixture}"
        );
        assert_eq!(totals.all.part_count, 417);
    }
}

#[test]
fn statistics_equal_those_of_opencode_1_18_except_for_newer_sessions() {
    let (_dir, library) = opencode_library("opencode-sqlite");
    let id = names("opencode-sqlite");
    let totals = overview(&library);
    let oracle = oracle("opencode-sqlite");
    // OpenCode lists sessions of the newer kind, but counts nothing in them.
    let newer = [id("v2-secret"), id("v2-impl")].map(|id| session(&library, &id).own);
    assert!(newer.iter().all(|sums| sums.message_count > 0));
    let mut old = totals.all.clone();
    for sums in &newer {
        old.message_count -= sums.message_count;
        old.tokens.input -= sums.tokens.input;
        old.tokens.output -= sums.tokens.output;
        old.tokens.reasoning -= sums.tokens.reasoning;
        old.tokens.cache_read -= sums.tokens.cache_read;
        old.cost -= sums.cost;
        for (name, usage) in &sums.tools {
            old.tools.get_mut(name).unwrap().calls -= usage.calls;
        }
        old.tools.retain(|_, usage| usage.calls > 0);
    }
    oracle.assert_equals(&old);
    assert_eq!(oracle.lines["Output"], format_count(old.tokens.output));
    assert_eq!(old.tokens.reasoning, 408);
    assert_eq!(totals.token_rules, [TokenRule::OpencodeApart]);
}

/// The sums that OpenCode 1.18 keeps in its session rows are those of a session's own messages, including copies.
#[test]
fn own_sums_equal_the_columns_of_the_session() {
    let (dir, library) = opencode_library("opencode-sqlite");
    let newer = [
        names("opencode-sqlite")("v2-secret"),
        names("opencode-sqlite")("v2-impl"),
    ];
    let database = Connection::open(dir.path().join("opencode.db")).unwrap();
    let columns = "cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write";
    let mut rows = database
        .prepare(&format!("SELECT id, {columns} FROM session"))
        .unwrap();
    let rows = rows.query_map([], |row| {
        let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let tokens = Tokens {
            input: count(2)?,
            output: count(3)?,
            reasoning: count(4)?,
            cache_read: count(5)?,
            cache_write: count(6)?,
        };
        Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?, tokens))
    });
    let mut compared = 0;
    for row in rows.unwrap() {
        let (id, cost, tokens) = row.unwrap();
        if newer.contains(&id) {
            continue;
        }
        let own = session(&library, &id).own;
        assert_eq!(own.tokens, tokens, "{id}");
        assert!(
            (own.cost - cost).abs() < 1e-9,
            "{id}: {} and {cost}",
            own.cost
        );
        compared += 1;
    }
    assert_eq!(compared, 23);
}

#[test]
fn forks_and_subagents_are_counted_separately() {
    let (_dir, library) = opencode_library("opencode-sqlite");
    let id = names("opencode-sqlite");
    let stats_of = |name: &str| session(&library, &id(name));
    let (origin, fork, short_fork) = (stats_of("impl"), stats_of("fork"), stats_of("fork2"));
    assert_eq!(
        (fork.own.message_count, fork.without_copied.message_count),
        (14, 2)
    );
    assert_eq!(
        (
            short_fork.own.message_count,
            short_fork.without_copied.message_count
        ),
        (8, 0)
    );
    assert_eq!(
        (
            short_fork.without_copied.cost,
            short_fork.without_copied.sessions
        ),
        (0.0, 1)
    );
    assert!((fork.without_copied.cost - 0.0039).abs() < 1e-9);
    assert_eq!(fork.without_copied.tokens.cache_read, 7_000);
    assert!(fork.without_copied.active < fork.own.active);
    assert_eq!(origin.without_copied, origin.own);
    let totals = overview(&library);
    let copied_cost = totals.all.cost - totals.without_copied.cost;
    assert!((copied_cost - origin.own.cost - short_fork.own.cost).abs() < 1e-9);

    // The cost of the parent and of its two generations of descendants. The costs are those in the `cost` column of the
    // three sessions' rows.
    let review = stats_of("review");
    assert!((review.own.cost - 0.01752).abs() < 1e-9);
    assert!((review.with_descendants.cost - (0.01752 + 0.00861 + 0.00402)).abs() < 1e-9);
    assert_eq!(review.with_descendants.sessions, 3);
    assert_eq!(review.with_descendants.message_count, 3 + 4 + 3);
    let agents = review
        .with_descendants
        .agents
        .iter()
        .map(|(name, n)| (&**name, *n));
    assert_eq!(
        agents.collect::<Vec<_>>(),
        [("general", 2), ("quality", 2), ("tester", 3)]
    );
    // The answers of the review took 1683 and 340 ms; its subagents worked during the first answer.
    assert_eq!(review.own.active, 1_683 + 340);
    assert_eq!(review.with_descendants.active, review.own.active);
    assert_eq!(review.duration, 1_720);
}

#[test]
fn tools_errors_and_changes_are_reported() {
    let (_dir, library) = opencode_library("opencode-json-whole");
    let id = names("opencode-json-whole");
    let parser = session(&library, &id("parser"));
    let errors: u64 = parser.own.tools.values().map(|usage| usage.errors).sum();
    assert_eq!(errors, 2);
    let flaky = session(&library, &id("flaky"));
    assert_eq!(flaky.own.errors, 1);
    let empty = session(&library, &id("empty"));
    assert_eq!((empty.message_count, empty.part_count), (0, 0));
    assert_eq!(empty.own.active, 0);
    let plan = session(&library, &id("plan"));
    assert_eq!(plan.changes_from, ChangesFrom::ToolCalls);
    assert_eq!(plan.changes, plan.own.changes);
    assert!(plan.with_descendants.cost > plan.own.cost);

    let (_dir, library) = opencode_library("opencode-sqlite");
    let home = session(&library, &names("opencode-sqlite")("accueil"));
    assert_eq!(home.changes_from, ChangesFrom::Summary);
    let expected = Changes {
        additions: 1,
        deletions: 0,
        files: 1,
    };
    assert_eq!(home.changes, expected);
    // Its row says 0, although files were written.
    let written = session(&library, &names("opencode-sqlite")("impl"));
    assert_eq!(written.changes_from, ChangesFrom::ToolCalls);
    assert!(written.changes.files > 0 && written.changes.additions > 0);
}

#[test]
fn the_sums_of_an_overview_add_up_to_its_totals() {
    for storage in [
        "opencode-json-whole",
        "opencode-sqlite",
        "opencode-json-legacy-whole",
    ] {
        let (_dir, library) = opencode_library(storage);
        let totals = overview(&library);
        let projects = totals.by_project.iter().map(|(_, sums)| sums);
        let messages: u64 = projects.clone().map(|sums| sums.message_count).sum();
        assert_eq!(messages, totals.all.message_count, "{storage}");
        assert_eq!(
            projects.map(|sums| sums.sessions).sum::<u64>(),
            totals.all.sessions
        );
        assert_eq!(totals.by_source.len(), 1);
        assert_eq!(totals.by_source["opencode"].tokens, totals.all.tokens);
        assert_eq!(totals.by_source["opencode"].active, totals.all.active);
        let mut days = Sums::default();
        for day in &totals.days {
            days.message_count += day.messages;
            days.tokens.add(&day.tokens);
        }
        assert_eq!(days.message_count, totals.without_copied.message_count);
        assert_eq!(days.tokens, totals.without_copied.tokens);
        assert!(totals.days.is_sorted_by(|a, b| a.date < b.date));
        let parts: u64 = totals.all.parts_by_type.values().sum();
        assert_eq!(parts, totals.all.part_count);
    }
    let (_dir, library) = opencode_library("opencode-sqlite");
    let days = overview(&library).days;
    // The last day is that of the session whose message ids (a truncated time) started again from 0.
    assert_eq!(days.first().unwrap().date, "2026-01-12");
    assert_eq!(days.last().unwrap().date, "2026-08-14");
}

#[test]
fn messages_of_claude_code_are_counted_once() {
    let dir = copy_of("claude-code");
    let library = Library::new(claude_code::open(dir.path()).unwrap(), 8 << 20);
    let parent = session(&library, "1f9f6b92-f7fe-4d48-a077-9082ea2f9a8f");
    let token_counts = |sums: &Sums| {
        (
            sums.tokens.input,
            sums.tokens.output,
            sums.tokens.cache_read,
        )
    };
    // Each response is split over several records that repeat its usage.
    assert_eq!(token_counts(&parent.own), (4_900, 90, 3_000));
    assert_eq!(
        token_counts(&parent.with_descendants),
        (4_900 + 1_460, 90 + 35, 3_000 + 700)
    );
    assert_eq!(parent.with_descendants, parent.without_copied);
    assert_eq!(parent.token_rules, [TokenRule::ClaudeCodeMessageOnce]);
    let totals = overview(&library);
    assert_eq!(token_counts(&totals.all), (21_460, 412, 15_400));
    assert_eq!(
        token_counts(&totals.without_copied),
        token_counts(&totals.all)
    );
}

#[test]
fn a_session_that_cannot_be_read_is_reported() {
    let (dir, library) = opencode_library("opencode-json-whole");
    let before = overview(&library);
    assert!(before.notices.is_empty(), "{:?}", before.notices);
    let id = names("opencode-json-whole")("parser");
    let messages = dir.path().join("storage/message").join(&id);
    let torn = fs::read_dir(messages)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(torn, "").unwrap();
    let after = overview(&Library::new(library.sources().to_vec(), 0));
    // The message and its parts are not counted; the message and the folder of its parts are reported.
    assert_eq!(after.all.message_count, before.all.message_count - 1);
    assert_eq!(
        after.notices,
        ["2 records cannot be read and are not counted"]
    );
    let notices = session(&library, &id).notices;
    assert_eq!(notices, ["2 records cannot be read and are not counted"]);
}

#[test]
fn the_responses_of_codex_add_up_to_its_totals() {
    let dir = copy_of("codex");
    let library = Library::new(codex::open(dir.path()).unwrap(), 8 << 20);
    let totals = overview(&library);
    // The last `token_count` of the rollouts: 14,900 with 12,100 cached in one, 1,850 with 900 cached in the other.
    let expected = Tokens {
        input: 14_900 - 12_100 + 1_850 - 900,
        output: 242 - 30 + 45,
        reasoning: 30,
        cache_read: 13_000,
        cache_write: 0,
    };
    assert_eq!(totals.all.tokens, expected);
    assert_eq!(totals.without_copied, totals.all);
    assert_eq!(totals.token_rules, [TokenRule::CodexPerResponse]);
}
