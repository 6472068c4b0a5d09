//! Tests of statistics.

use std::sync::Arc;

use super::*;
use crate::library::facts::samples::*;
use crate::library::list::ListRequest;
use crate::{Header, Message, Part, PartKind, Role, ToolStatus};

fn stats_of(source: &Arc<MemorySource>, id: &str) -> SessionStats {
    session(&library(source), id).unwrap()
}

/// A question and three answers. The first answer started the session `sub`.
fn dialogue(at: i64) -> Vec<Message> {
    let first = starts(answer("m2", at + 10), "c1", "sub");
    vec![
        question("m1", at),
        first,
        answer("m3", at + 20),
        answer("m4", at + 30),
    ]
}

/// A session with a child, and a fork of the session with another turn.
fn family() -> Arc<MemorySource> {
    let mut fork = copies(&dialogue(100), "f-");
    fork.extend([question("m5", 1_010), answer("m6", 1_020)]);
    source_of(vec![
        (header("origin", 99), dialogue(100)),
        (
            child("sub", 111, "origin"),
            vec![question("s1", 112), answer("s2", 113)],
        ),
        (header("fork", 1_000), fork),
        (child("fork-sub", 1_021, "fork"), vec![answer("s3", 1_022)]),
    ])
}

#[test]
fn copies_and_descendants_are_distinguished() {
    let source = family();
    let origin = stats_of(&source, "origin");
    assert_eq!(origin.message_count, 4);
    assert_eq!(origin.own.cost, 0.75);
    assert_eq!(origin.with_descendants.cost, 1.0);
    assert_eq!(origin.with_descendants.sessions, 2);
    assert_eq!(origin.without_copied, origin.with_descendants);
    assert_eq!(origin.duration, 1000);
    assert_eq!(origin.agents, ["build"]);
    assert_eq!(origin.own.models["acme/m1"].messages, 3);

    let fork = stats_of(&source, "fork");
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
    let result = overview(&library, &ListRequest::default()).unwrap();
    assert_eq!(result.all.sessions, 4);
    assert_eq!(result.all.message_count, 13);
    assert_eq!(result.all.cost, 2.25);
    assert_eq!(result.without_copied.message_count, 9);
    assert_eq!(result.without_copied.cost, 1.5);
    assert_eq!(result.by_source["opencode"], result.all);
    assert_eq!(
        result.by_project,
        [("phare".to_owned(), result.all.clone())]
    );
    let days = result.days.iter().map(|d| (&*d.date, d.messages, d.cost));
    assert_eq!(days.collect::<Vec<_>>(), [("1970-01-01", 9, 1.5)]);
    // A copied message is recognized as a copy even if its origin is excluded.
    let late = ListRequest {
        since: Some(2_000),
        ..ListRequest::default()
    };
    let late = overview(&library, &late).unwrap();
    assert_eq!(
        (late.all.message_count, late.without_copied.message_count),
        (7, 3)
    );
}

#[test]
fn messages_removed_from_the_origin_count_in_the_fork() {
    let source = family();
    let library = library(&source);
    assert_eq!(
        session(&library, "fork")
            .unwrap()
            .without_copied
            .message_count,
        3
    );
    // The user reverted the last two answers of the origin and continued.
    let mut shortened = dialogue(100);
    shortened.truncate(2);
    shortened.push(question("m7", 5_000));
    put(&source, header("origin", 99), shortened);
    let fork = session(&library, "fork").unwrap();
    let reads = source.read_count();
    assert_eq!(session(&library, "fork").unwrap(), fork);
    assert_eq!(source.read_count(), reads);
    assert_eq!(fork.without_copied.message_count, 5);
    assert_eq!(fork.without_copied.cost, 1.0);
    assert_eq!(fork.own.message_count, 6);
    let result = overview(&library, &ListRequest::default()).unwrap();
    assert_eq!(result.without_copied.message_count, 10);
    assert_eq!(result.days[0].messages, result.without_copied.message_count);
}

#[test]
fn if_the_origin_is_missing_the_first_fork_counts_as_original() {
    let source = source_of(vec![
        (header("one", 1_000), copies(&dialogue(100), "a-")),
        (header("two", 2_000), copies(&dialogue(100), "b-")),
    ]);
    let result = overview(&library(&source), &ListRequest::default()).unwrap();
    assert_eq!(result.all.message_count, 8);
    assert_eq!(result.without_copied.message_count, 4);
    assert_eq!(stats_of(&source, "one").without_copied.message_count, 4);
    assert_eq!(stats_of(&source, "two").without_copied.message_count, 0);
}

#[test]
fn messages_marked_as_copied_need_no_original() {
    let mut messages = copies(&dialogue(2_000), "r-");
    messages.iter_mut().take(2).for_each(|m| m.copied = true);
    let source = source_of(vec![(header("resumed", 1_000), messages)]);
    let stats = stats_of(&source, "resumed");
    assert_eq!(stats.own.message_count, 4);
    assert_eq!(stats.without_copied.message_count, 2);
}

#[test]
fn a_fork_by_a_newer_version_is_recognized() {
    let with_reasoning = |input, output| {
        let mut message = answer("m1", 10);
        let tokens = message.tokens.as_mut().unwrap();
        (tokens.input, tokens.output, tokens.reasoning) = (input, output, 96);
        message
    };
    // The same usage, converted by two rules: one subtracts the 96 reasoning tokens from the output, the other does
    // not.
    let source = source_of(vec![
        (header("origin", 5), vec![with_reasoning(5210, 144)]),
        (header("fork", 1_000), vec![with_reasoning(5210, 240)]),
    ]);
    assert_eq!(stats_of(&source, "fork").without_copied.message_count, 0);
}

#[test]
fn concurrent_work_counts_once() {
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
    let question = Message {
        completed: Some(9_000),
        ..question("m0", 90)
    };
    let source = source_of(vec![
        (
            header("root", 80),
            vec![question, parent, answer("m2", 200)],
        ),
        (
            child("sub", 110, "root"),
            vec![answer("s1", 158), answer("s2", 300)],
        ),
    ]);
    let root = stats_of(&source, "root");
    assert_eq!(root.own.active, 60 + 5);
    assert_eq!(root.with_descendants.active, 63 + 5 + 5);
    assert_eq!(stats_of(&source, "sub").own.active, 10);
}

#[test]
fn changes_are_taken_from_the_summary_or_from_calls() {
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
    let with_summary = |changes| Header {
        changes: Some(changes),
        ..header("s", 5)
    };
    let changes = |additions, deletions, files| Changes {
        additions,
        deletions,
        files,
    };
    let source = source_of(vec![(
        with_summary(changes(0, 0, 0)),
        vec![message.clone()],
    )]);
    let stats = stats_of(&source, "s");
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

    put(
        &source,
        with_summary(changes(40, 2, 1)),
        vec![message.clone()],
    );
    let stats = stats_of(&source, "s");
    assert_eq!(
        (stats.changes, stats.own.changes),
        (changes(40, 2, 1), changes(40, 2, 1))
    );
    assert_eq!(stats.changes_from, ChangesFrom::Summary);
    assert_eq!(stats.without_copied.changes, changes(40, 2, 1));

    // A fork's summary covers the copied messages too.
    let fork = Header {
        changes: Some(changes(40, 2, 1)),
        ..header("fork", 1_000)
    };
    put(&source, fork, copies(&[message], "f-"));
    let stats = stats_of(&source, "fork");
    assert_eq!(stats.own.changes, changes(40, 2, 1));
    assert_eq!(stats.without_copied.changes, changes(0, 0, 0));
}

#[test]
fn sessions_without_an_answer_report_the_agent_of_their_header() {
    let header = Header {
        agent: Some("plan".into()),
        ..header("empty", 5)
    };
    let source = source_of(vec![(header, vec![])]);
    let stats = stats_of(&source, "empty");
    assert_eq!(stats.agents, ["plan"]);
    assert_eq!(stats.own.sessions, 1);
    assert_eq!(stats.own.active, 0);
    let result = overview(&library(&source), &ListRequest::default()).unwrap();
    assert!(result.days.is_empty());
}

#[test]
fn unchanged_sessions_are_not_read_again() {
    let source = family();
    let library = library(&source);
    let first = overview(&library, &ListRequest::default()).unwrap();
    assert_eq!(source.read_count(), 4);
    assert_eq!(overview(&library, &ListRequest::default()).unwrap(), first);
    session(&library, "fork").unwrap();
    assert_eq!(source.read_count(), 4);
    put(
        &source,
        header("fork", 1_000),
        vec![message("m9", Role::User, 1_001)],
    );
    let after = overview(&library, &ListRequest::default()).unwrap();
    assert_eq!(source.read_count(), 5);
    assert_eq!(after.all.message_count, 13 - 6 + 1);
}

#[test]
fn a_callers_own_source_is_never_cached() {
    let source = family();
    let own = source_of(vec![(header("mine", 7), dialogue(8))]);
    let library = library(&source).with(own.clone());
    for reads in 1..=2 {
        assert_eq!(session(&library, "mine").unwrap().message_count, 4);
        assert_eq!(own.read_count(), reads);
    }
    let other = source_of(vec![(header("mine", 7), vec![])]);
    let library = library.with(other);
    assert_eq!(session(&library, "mine").unwrap().message_count, 4);
    // A source without fingerprints is not cached either.
    let without_fingerprints = Arc::new(MemorySource {
        without_fingerprints: true,
        ..MemorySource::default()
    });
    put(&without_fingerprints, header("s", 7), dialogue(8));
    let library = Library::new(vec![without_fingerprints.clone()], 1 << 20);
    (0..2).for_each(|_| assert_eq!(session(&library, "s").unwrap().message_count, 4));
    assert_eq!(without_fingerprints.read_count(), 2);
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
    let source = source_of(vec![(header, vec![named("m1", key), named("m2", other)])]);
    let library = library(&source);
    let masked = session(&library, "s").unwrap();
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains(&key[..8]), "{text}");
    // Names that are equal after masking are counted as one.
    assert_eq!(masked.own.models.len(), 1);
    assert_eq!(masked.own.models.values().next().unwrap().messages, 2);
    assert_eq!(masked.own.tools.values().next().unwrap().calls, 2);
    assert_eq!(masked.own.agents.values().next(), Some(&2));
    for (mask, count) in [(true, 0), (false, 1)] {
        let request = ListRequest {
            mask,
            ..ListRequest::default()
        };
        let result = overview(&library, &request).unwrap();
        assert_eq!(
            result
                .by_project
                .iter()
                .filter(|p| p.0.contains(key))
                .count(),
            count
        );
        assert_eq!(usize::from(result.all.tools.contains_key(key)), count);
        assert_eq!(result.all.tools.values().map(|t| t.calls).sum::<u64>(), 2);
    }
}
