use std::sync::Arc;

use super::*;
use crate::library::facts::made::*;
use crate::library::list::Ask;
use crate::{Header, Message, Part, PartKind, Role, ToolStatus};

fn of(source: &Arc<Made>, id: &str) -> SessionStats {
    session(&library(source), id).unwrap()
}

/// A question and three answers; the first has started `sub`.
fn talk(at: i64) -> Vec<Message> {
    let first = starts(answer("m2", at + 10), "c1", "sub");
    vec![
        question("m1", at),
        first,
        answer("m3", at + 20),
        answer("m4", at + 30),
    ]
}

/// A session with a child, and a fork of it with one more turn.
fn family() -> Arc<Made> {
    let mut fork = copies(&talk(100), "f-");
    fork.extend([question("m5", 1_010), answer("m6", 1_020)]);
    made_of(vec![
        (header("origin", 99), talk(100)),
        (
            child("sub", 111, "origin"),
            vec![question("s1", 112), answer("s2", 113)],
        ),
        (header("fork", 1_000), fork),
        (child("fork-sub", 1_021, "fork"), vec![answer("s3", 1_022)]),
    ])
}

#[test]
fn copies_and_descendants_are_told_apart() {
    let source = family();
    let origin = of(&source, "origin");
    assert_eq!(origin.message_count, 4);
    assert_eq!(origin.own.cost, 0.75);
    assert_eq!(origin.with_descendants.cost, 1.0);
    assert_eq!(origin.with_descendants.sessions, 2);
    assert_eq!(origin.without_copied, origin.with_descendants);
    assert_eq!(origin.duration, 1000);
    assert_eq!(origin.agents, ["build"]);
    assert_eq!(origin.own.models["acme/m1"].messages, 3);

    let fork = of(&source, "fork");
    assert_eq!(fork.own.message_count, 6);
    assert_eq!(fork.own.cost, 1.0);
    assert_eq!(fork.with_descendants.cost, 1.25);
    let originals = &fork.without_copied;
    assert_eq!((originals.message_count, originals.user_messages), (3, 1));
    assert_eq!((originals.cost, originals.tokens.input), (0.5, 200));
    assert!(originals.tools.is_empty() && fork.own.tools["task"].calls == 1);
}

#[test]
fn the_overview_counts_each_message_once() {
    let source = family();
    let library = library(&source);
    let whole = overview(&library, &Ask::default()).unwrap();
    assert_eq!(whole.all.sessions, 4);
    assert_eq!(whole.all.message_count, 13);
    assert_eq!(whole.all.cost, 2.25);
    assert_eq!(whole.without_copied.message_count, 9);
    assert_eq!(whole.without_copied.cost, 1.5);
    assert_eq!(whole.by_source["opencode"], whole.all);
    assert_eq!(whole.by_project, [("phare".to_owned(), whole.all.clone())]);
    let days = whole.days.iter().map(|d| (&*d.date, d.messages, d.cost));
    assert_eq!(days.collect::<Vec<_>>(), [("1970-01-01", 9, 1.5)]);
    // A copy stays one when its origin is not asked for.
    let late = Ask {
        since: Some(2_000),
        ..Ask::default()
    };
    let late = overview(&library, &late).unwrap();
    assert_eq!(
        (late.all.message_count, late.without_copied.message_count),
        (7, 3)
    );
}

#[test]
fn what_an_origin_has_lost_counts_in_the_fork() {
    let source = family();
    let library = library(&source);
    assert_eq!(
        session(&library, "fork")
            .unwrap()
            .without_copied
            .message_count,
        3
    );
    // The user has taken the last two answers back and gone on.
    let mut left = talk(100);
    left.truncate(2);
    left.push(question("m7", 5_000));
    put(&source, header("origin", 99), left);
    let fork = session(&library, "fork").unwrap();
    let reads = source.read_count();
    assert_eq!(session(&library, "fork").unwrap(), fork);
    assert_eq!(source.read_count(), reads);
    assert_eq!(fork.without_copied.message_count, 5);
    assert_eq!(fork.without_copied.cost, 1.0);
    assert_eq!(fork.own.message_count, 6);
    let whole = overview(&library, &Ask::default()).unwrap();
    assert_eq!(whole.without_copied.message_count, 10);
    assert_eq!(whole.days[0].messages, whole.without_copied.message_count);
}

#[test]
fn of_forks_without_their_origin_one_holds_the_originals() {
    let source = made_of(vec![
        (header("one", 1_000), copies(&talk(100), "a-")),
        (header("two", 2_000), copies(&talk(100), "b-")),
    ]);
    let whole = overview(&library(&source), &Ask::default()).unwrap();
    assert_eq!(whole.all.message_count, 8);
    assert_eq!(whole.without_copied.message_count, 4);
    assert_eq!(of(&source, "one").without_copied.message_count, 4);
    assert_eq!(of(&source, "two").without_copied.message_count, 0);
}

#[test]
fn recorded_copies_are_copies_whatever_is_there() {
    let mut messages = copies(&talk(2_000), "r-");
    messages.iter_mut().take(2).for_each(|m| m.copied = true);
    let source = made_of(vec![(header("resumed", 1_000), messages)]);
    let stats = of(&source, "resumed");
    assert_eq!(stats.own.message_count, 4);
    assert_eq!(stats.without_copied.message_count, 2);
}

#[test]
fn a_fork_by_a_newer_version_is_still_known() {
    let with_reasoning = |input, output| {
        let mut message = answer("m1", 10);
        let tokens = message.tokens.as_mut().unwrap();
        (tokens.input, tokens.output, tokens.reasoning) = (input, output, 96);
        message
    };
    // The same numbers, read by two rules.
    let source = made_of(vec![
        (header("origin", 5), vec![with_reasoning(5210, 144)]),
        (header("fork", 1_000), vec![with_reasoning(5210, 240)]),
    ]);
    assert_eq!(of(&source, "fork").without_copied.message_count, 0);
}

#[test]
fn work_at_the_same_time_counts_once() {
    let running = with(
        Message {
            completed: None,
            ..answer("m1", 100)
        },
        PartKind::Text {
            text: "so far".into(),
            synthetic: false,
        },
    );
    let part = Part {
        start: Some(120),
        end: Some(160),
        ..running.parts[0].clone()
    };
    let parent = Message {
        parts: vec![part],
        ..running
    };
    let asked = Message {
        completed: Some(9_000),
        ..question("m0", 90)
    };
    let source = made_of(vec![
        (header("root", 80), vec![asked, parent, answer("m2", 200)]),
        (
            child("sub", 110, "root"),
            vec![answer("s1", 158), answer("s2", 300)],
        ),
    ]);
    let root = of(&source, "root");
    assert_eq!(root.own.active, 60 + 5);
    assert_eq!(root.with_descendants.active, 63 + 5 + 5);
    assert_eq!(of(&source, "sub").own.active, 10);
}

#[test]
fn changes_come_from_the_summary_or_else_from_calls() {
    let edit = |additions, file: &str, status| {
        let mut tool = call("c", "edit");
        tool.status = status;
        tool.changes = Some(Changes {
            additions,
            deletions: 1,
            files: 1,
        });
        tool.files = vec![file.into()];
        PartKind::Tool(Box::new(tool))
    };
    let message = with(answer("m1", 10), edit(3, "/a", ToolStatus::Completed));
    let message = with(message, edit(4, "/a", ToolStatus::Completed));
    let message = with(message, edit(50, "/z", ToolStatus::Error));
    let files = vec!["/a".into(), "/b".into()];
    let message = with(message, PartKind::Patch { files });
    let told = |changes| Header {
        changes: Some(changes),
        ..header("s", 5)
    };
    let changes = |additions, deletions, files| Changes {
        additions,
        deletions,
        files,
    };
    let source = made_of(vec![(told(changes(0, 0, 0)), vec![message.clone()])]);
    let stats = of(&source, "s");
    assert_eq!(stats.changes, changes(7, 2, 2));
    assert_eq!(stats.changes_from, ChangesFrom::ToolCalls);
    assert_eq!(
        stats.own.tools["edit"],
        ToolUse {
            calls: 3,
            errors: 1
        }
    );
    assert_eq!(stats.own.parts_by_type["tool"], 3);

    put(&source, told(changes(40, 2, 1)), vec![message.clone()]);
    let stats = of(&source, "s");
    assert_eq!(
        (stats.changes, stats.own.changes),
        (changes(40, 2, 1), changes(40, 2, 1))
    );
    assert_eq!(stats.changes_from, ChangesFrom::Summary);
    assert_eq!(stats.without_copied.changes, changes(40, 2, 1));

    // A fork's summary is of the copied messages, too.
    let fork = Header {
        changes: Some(changes(40, 2, 1)),
        ..header("fork", 1_000)
    };
    put(&source, fork, copies(&[message], "f-"));
    let stats = of(&source, "fork");
    assert_eq!(stats.own.changes, changes(40, 2, 1));
    assert_eq!(stats.without_copied.changes, changes(0, 0, 0));
}

#[test]
fn sessions_without_an_answer_have_the_agent_that_was_asked() {
    let asked = Header {
        agent: Some("plan".into()),
        ..header("empty", 5)
    };
    let source = made_of(vec![(asked, vec![])]);
    let stats = of(&source, "empty");
    assert_eq!(stats.agents, ["plan"]);
    assert_eq!(stats.own.sessions, 1);
    assert_eq!(stats.own.active, 0);
    let whole = overview(&library(&source), &Ask::default()).unwrap();
    assert!(whole.days.is_empty());
}

#[test]
fn what_has_not_changed_is_not_read_again() {
    let source = family();
    let library = library(&source);
    let first = overview(&library, &Ask::default()).unwrap();
    assert_eq!(source.read_count(), 4);
    assert_eq!(overview(&library, &Ask::default()).unwrap(), first);
    session(&library, "fork").unwrap();
    assert_eq!(source.read_count(), 4);
    put(
        &source,
        header("fork", 1_000),
        vec![message("m9", Role::User, 1_001)],
    );
    let after = overview(&library, &Ask::default()).unwrap();
    assert_eq!(source.read_count(), 5);
    assert_eq!(after.all.message_count, 13 - 6 + 1);
}

#[test]
fn one_callers_source_is_never_kept() {
    let source = family();
    let own = made_of(vec![(header("mine", 7), talk(8))]);
    let library = library(&source).with(own.clone());
    for reads in 1..=2 {
        assert_eq!(session(&library, "mine").unwrap().message_count, 4);
        assert_eq!(own.read_count(), reads);
    }
    let other = made_of(vec![(header("mine", 7), vec![])]);
    let library = library.with(other);
    assert_eq!(session(&library, "mine").unwrap().message_count, 4);
    // Nor is a source that tells no state.
    let unmarked = Arc::new(Made {
        unmarked: true,
        ..Made::default()
    });
    put(&unmarked, header("s", 7), talk(8));
    let library = Library::new(vec![unmarked.clone()], 1 << 20);
    (0..2).for_each(|_| assert_eq!(session(&library, "s").unwrap().message_count, 4));
    assert_eq!(unmarked.read_count(), 2);
}

#[test]
fn names_are_counted_without_credentials() {
    let key = concat!("AKIA", "Q7RT5VWX2YZ3ABCD");
    let other = concat!("AKIA", "Q7RT5VWX2YZ3ABCE");
    let named = |id: &str, key: &str| {
        let mut tool = call("c", "edit");
        tool.name = key.into();
        let answer = Message {
            agent: Some(key.into()),
            model: Some(key.into()),
            ..answer(id, 10)
        };
        with(answer, PartKind::Tool(Box::new(tool)))
    };
    let header = Header {
        worktree: Some(format!("/w/{key}").into()),
        ..header("s", 5)
    };
    let source = made_of(vec![(header, vec![named("m1", key), named("m2", other)])]);
    let library = library(&source);
    let masked = session(&library, "s").unwrap();
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains(&key[..8]), "{text}");
    // Two names that are shown alike are one.
    assert_eq!(masked.own.models.len(), 1);
    assert_eq!(masked.own.models.values().next().unwrap().messages, 2);
    assert_eq!(masked.own.tools.values().next().unwrap().calls, 2);
    assert_eq!(masked.own.agents.values().next(), Some(&2));
    for (mask, count) in [(true, 0), (false, 1)] {
        let ask = Ask {
            mask,
            ..Ask::default()
        };
        let whole = overview(&library, &ask).unwrap();
        assert_eq!(
            whole
                .by_project
                .iter()
                .filter(|p| p.0.contains(key))
                .count(),
            count
        );
        assert_eq!(usize::from(whole.all.tools.contains_key(key)), count);
        assert_eq!(whole.all.tools.values().map(|t| t.calls).sum::<u64>(), 2);
    }
}
