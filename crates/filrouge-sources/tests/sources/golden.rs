//! Compares genuine histories with manual counts.

use std::collections::BTreeMap;
use std::fs;

use filrouge_sources::{ForeignTurn, LoadedSession};
use filrouge_types::{Channel, TurnStatus};

use crate::{copy_of, count, fixture, items, json, only_source, read_all};

/// The expected counts of a session: id, agent, turns, questions, notes, thoughts, observations + finals, tool calls,
/// tool results, other items (summary, error), input + output tokens.
type Row = (&'static str, &'static str, [usize; 8], u64);

#[rustfmt::skip]
const STORAGE: [Row; 14] = [
    ("ses_44e90f601ffeHj8PvwdQsVnTrd", "roadmap", [2, 2, 10, 1, 4, 3, 3, 0],  8315),
    ("ses_44e90f368ffe14oamXJ6uXrFsM", "general", [1, 1,  6, 1, 1, 2, 2, 0],  2955),
    ("ses_41fc9dacbffenl45ixpQMNoe5J", "build",   [3, 1, 10, 0, 3, 2, 2, 1], 23420),
    ("ses_41fc9d944ffe1ZMHkbjpiOkFvn", "",        [0, 0,  0, 0, 0, 0, 0, 0],     0),
    ("ses_3e791ca15ffe41SD7bmX22zlsu", "build",   [1, 1,  8, 0, 2, 4, 4, 0],  3830),
    ("ses_3e791c821ffeurXHCJO6nMw0qx", "build",   [1, 1,  0, 0, 0, 0, 0, 0],     0),
    ("ses_3e791c799ffeN2DFpHdPKO5zny", "build",   [1, 2,  4, 0, 1, 0, 0, 0],  2450),
    ("ses_3e791c788ffevrNUITwvEDTu8u", "build",   [2, 2,  2, 0, 1, 0, 0, 1],  1230),
    ("ses_3e791beeaffeAvam4v0GZWyh8w", "build",   [4, 1,  9, 0, 2, 2, 2, 0],  3260),
    ("ses_3e791be47ffeI7JspQs0H6mjmV", "general", [1, 1,  4, 0, 1, 1, 1, 0],  1032),
    ("ses_3a355860affe2sOwsBl6BIi4TQ", "build",   [2, 2,  9, 1, 3, 2, 2, 0],  3385),
    ("ses_3a3558451ffeBxXxpkfGJ25a8K", "build",   [1, 1,  4, 0, 1, 1, 1, 0],   832),
    ("ses_3a35582f1ffel3EW5ghv0KZTMp", "build",   [1, 1,  2, 0, 1, 0, 0, 0],   930),
    ("ses_3a3558270ffeMDigYpz1C0wDTZ", "build",   [1, 1,  4, 0, 2, 1, 1, 0],  1810),
];

#[rustfmt::skip]
const LEGACY: [Row; 2] = [
    ("ses_7275c812affeOtNcDfEOuho1q9", "build", [1, 1,  4, 1, 2, 1, 1, 0],  4490),
    ("ses_72235f00affefvPj3zTqjv3F2b", "build", [2, 2, 22, 2, 4, 9, 9, 0], 13985),
];

/// Compares the sessions of a fixture with their expected counts.
fn check(name: &str, rows: &[Row]) {
    let (loaded, _) = read_all(&fixture(name));
    assert_eq!(loaded.len(), rows.len());
    for (session, (id, agent, counts, tokens)) in loaded.iter().zip(rows) {
        assert_eq!(&*session.session.id, *id);
        assert_eq!(
            session.session.agent.as_deref().unwrap_or_default(),
            *agent,
            "{id}"
        );
        let texts = count(session, &Channel::Observation) + count(session, &Channel::Final);
        let other = count(session, &Channel::Summary) + count(session, &Channel::Error);
        let actual = [
            session.turns.len(),
            count(session, &Channel::Question),
            count(session, &Channel::SystemNote),
            count(session, &Channel::Thought),
            texts,
            count(session, &Channel::ToolCall),
            count(session, &Channel::ToolResult),
            other,
        ];
        assert_eq!(actual, *counts, "{id}");
        assert_eq!(
            items(session).len(),
            counts[1..].iter().sum::<usize>(),
            "{id}"
        );
        let usage = items(session)
            .into_iter()
            .filter_map(|item| item.usage.as_ref());
        let sum = |u: &filrouge_types::RawJson| {
            let tokens = &json(u.as_str())["tokens"];
            tokens["input"].as_u64().unwrap() + tokens["output"].as_u64().unwrap()
        };
        assert_eq!(usage.map(sum).sum::<u64>(), *tokens, "{id}");
    }
}

#[test]
fn the_storage_tree_has_the_expected_counts() {
    check("opencode-json", &STORAGE);
}

#[test]
fn the_legacy_tree_has_the_expected_counts() {
    check("opencode-json-legacy", &LEGACY);
}

#[test]
fn usage_is_read_from_each_message() {
    for (name, messages) in [
        ("opencode-json", "storage/message"),
        (
            "opencode-json-legacy",
            "project/tmp-demo-atelier-api/storage/session/message",
        ),
    ] {
        let (loaded, _) = read_all(&fixture(name));
        let mut expected = Vec::new();
        for session in &loaded {
            let dir = fixture(name).join(messages).join(&*session.session.id);
            for file in fs::read_dir(dir).into_iter().flatten().flatten() {
                let message = json(&fs::read_to_string(file.path()).unwrap());
                if message["role"] == "assistant" && message["time"]["completed"].is_number() {
                    expected.push(
                        serde_json::json!({"tokens": message["tokens"], "cost": message["cost"]})
                            .to_string(),
                    );
                }
            }
        }
        let usages = loaded
            .iter()
            .flat_map(items)
            .filter_map(|item| item.usage.as_ref());
        let mut actual: Vec<String> = usages.map(|u| json(u.as_str()).to_string()).collect();
        expected.sort();
        actual.sort();
        assert_eq!(actual, expected);
    }
}

#[test]
fn headers_are_reported_in_order() {
    let list = only_source(&fixture("opencode-json")).list().unwrap();
    assert_eq!(list.headers.len(), 14);
    assert_eq!(list.skipped, []);
    let headers = list.headers.clone();
    assert!(
        headers
            .windows(2)
            .all(|two| (two[0].created, &two[0].id) < (two[1].created, &two[1].id))
    );
    let plan = &headers[0];
    assert_eq!(
        plan.title.as_deref(),
        Some("Plan 07: rate limiter for the atelier API")
    );
    assert_eq!(plan.worktree.as_deref(), Some("/tmp/demo/atelier-api"));
    assert_eq!(plan.version.as_deref(), Some("1.1.65"));
    assert_eq!(plan.created, 1_768_208_402_942);
    assert_eq!(plan.agent.as_deref(), Some("roadmap"));
    assert_eq!(headers[1].parent_id.as_ref(), Some(&plan.id));
    let hotfix = &headers[12];
    assert_eq!(hotfix.directory.as_deref(), Some("/tmp/demo/carnet-hotfix"));
    assert_eq!(hotfix.worktree.as_deref(), Some("/tmp/demo/carnet"));
    assert!(headers[13].archived.is_some());
    assert_eq!(
        headers
            .iter()
            .filter(|header| header.archived.is_some())
            .count(),
        1
    );
    assert_eq!(headers[11].project_id.as_deref(), Some("global"));
}

#[test]
fn data_stored_outside_a_session_is_kept() {
    let (loaded, _) = read_all(&fixture("opencode-json"));
    let metadata = |index: usize| json(loaded[index].metadata.as_str())["opencode"].clone();
    assert_eq!(metadata(0)["todo"].as_array().unwrap().len(), 4);
    assert_eq!(metadata(0)["session"]["slug"], "nimble-falcon");
    assert_eq!(
        metadata(5)["session"]["permission"][0]["permission"],
        "question"
    );
    let accueil = metadata(10);
    assert_eq!(
        accueil["session"]["revert"]["messageID"],
        "msg_c5caa7bce0013y6ZI8NM6d0CYp"
    );
    assert_eq!(accueil["session_diff"].as_array().unwrap().len(), 1);
}

#[test]
fn turns_have_the_expected_outcomes() {
    let (loaded, skipped) = read_all(&fixture("opencode-json"));
    let mut outcomes: BTreeMap<&str, Vec<&TurnStatus>> = BTreeMap::new();
    for session in &loaded {
        let list = session.turns.iter().map(|turn| &turn.outcome).collect();
        outcomes.insert(&session.session.id[..16], list);
    }
    assert_eq!(outcomes["ses_3e791c821ffe"], [&TurnStatus::Interrupted]);
    let ended = [&TurnStatus::Finalized, &TurnStatus::Failed];
    assert_eq!(outcomes["ses_3e791c788ffe"], ended);
    let errors = loaded.iter().flat_map(items);
    let errors = errors.filter(|item| item.channel == Channel::Error);
    let errors: Vec<_> = errors.map(|item| json(item.parts.as_str())).collect();
    let is_expected = |error: &serde_json::Value| {
        error[0]["code"] == "APIError"
            && error[0]["message"] == "context_field 'temperature' is not supported by this model"
            && error[0]["retryable"] == false
    };
    assert!(errors.iter().any(is_expected), "{errors:?}");
    let all: Vec<_> = outcomes.values().flatten().collect();
    assert_eq!(all.len(), 21);
    assert_eq!(
        all.iter()
            .filter(|outcome| ***outcome == &TurnStatus::Finalized)
            .count(),
        19
    );
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].reason.as_str(), "incomplete");
    // Turns without an answer: a summary, the tools before it, a subtask and a user's command.
    let without_answer = loaded
        .iter()
        .flat_map(|session| &session.turns)
        .filter(|turn| turn.outcome == TurnStatus::Finalized && turn.answer().is_none());
    assert_eq!(without_answer.count(), 4);
}

fn without_reports(session: &LoadedSession) -> Vec<ForeignTurn> {
    let mut turns = session.turns.clone();
    let unfinished = turns.iter_mut().filter_map(|turn| turn.unfinished.as_mut());
    unfinished.for_each(|unfinished| unfinished.omitted.clear());
    turns
}

#[test]
fn repeated_reads_and_reads_of_a_copy_are_equal() {
    for name in ["opencode-json", "opencode-json-legacy"] {
        let copy = copy_of(name);
        let (first, again) = (read_all(copy.path()), read_all(copy.path()));
        assert!(first == again);
        // Only reports contain paths.
        let (original, _) = read_all(&fixture(name));
        assert_eq!(original.len(), first.0.len());
        for (original, copied) in original.iter().zip(&first.0) {
            // The time of a damaged session's last change is that of its files.
            assert!(original.session == copied.session || original.session.damaged);
            assert!(without_reports(original) == without_reports(copied));
        }
    }
}
