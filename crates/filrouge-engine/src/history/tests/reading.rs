//! Reading history: the newest turns, and pairs for prompts.

use std::collections::BTreeSet;

use filrouge_types::{JsonText, TurnId};

use super::world::{HistoryWorld, anonymous_answer, anonymous_question, as_user, id, request};
use crate::history::QuestionAnswer;
use crate::{RedactTurn, StartTurn};

async fn redact(world: &HistoryWorld, turn: TurnId) {
    let reason = RedactTurn {
        reason: "on request".into(),
    };
    let scope = as_user("");
    let redacted = world
        .engine
        .erasure
        .redact_turn(&scope, id("s"), turn, reason);
    redacted.await.unwrap();
}

async fn pairs(world: &HistoryWorld, limit: usize) -> Vec<(String, String)> {
    let history = world.history();
    let session = id("s");
    let pairs = history.load_conversation_history(None, &session, limit);
    let pairs = pairs.await.unwrap();
    let pair = |p: QuestionAnswer| (p.question_neutral, p.answer_neutral);
    pairs.into_iter().map(pair).collect()
}

fn text_pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let to_owned_pair = |(q, a): &(&str, &str)| ((*q).to_owned(), (*a).to_owned());
    pairs.iter().map(to_owned_pair).collect()
}

pub(super) async fn the_newest_turns_are_listed_in_order(world: &HistoryWorld) {
    for n in 1..=5 {
        let texts = (&*format!("q{n}"), &*format!("a{n}"));
        world.exchange("s", &format!("r{n}"), texts).await;
    }
    let store = world.history();
    store
        .start(anonymous_question("s", "open", "q6"))
        .await
        .unwrap();
    let newest = world.recent("s", "", 3).await;
    assert_eq!(
        HistoryWorld::texts(&newest),
        text_pairs(&[("q3", "a3"), ("q4", "a4"), ("q5", "a5")])
    );
    assert_eq!(
        world.recent("s", "", 100).await.len(),
        5,
        "an open turn is not finalized"
    );
    assert!(world.recent("s", "", 0).await.is_empty());
}

pub(super) async fn redacted_turns_are_tombstones(world: &HistoryWorld) {
    let turn = world.exchange("s", "r1", ("secret", "answer")).await;
    world.exchange("s", "r2", ("q2", "a2")).await;
    let before = world.turn("s", "", turn).await;
    redact(world, turn).await;
    assert_eq!(
        HistoryWorld::texts(&world.recent("s", "", 10).await),
        text_pairs(&[("q2", "a2")])
    );
    assert_eq!(pairs(world, 10).await, text_pairs(&[("q2", "a2")]));
    let tombstone = world.turn("s", "", turn).await;
    assert!(tombstone.deleted_at.is_some());
    let texts = [
        &tombstone.question_neutral,
        &tombstone.question_translated,
        &tombstone.answer_neutral,
        &tombstone.answer_translated,
    ];
    assert!(texts.iter().all(|text| text.is_none()));
    assert_eq!(tombstone.turn_id, before.turn_id);
    assert_eq!(tombstone.request_id, before.request_id);
    assert_eq!(
        (tombstone.created_at, tombstone.finalized_at),
        (before.created_at, before.finalized_at)
    );
    // Neither a retry nor another answer restores the redacted text.
    let store = world.history();
    assert_eq!(
        store
            .start(anonymous_question("s", "r1", "secret"))
            .await
            .unwrap(),
        turn
    );
    let _ = store
        .finalize(anonymous_answer("s", "r1", turn, "answer"))
        .await;
    assert_eq!(world.recent("s", "", 10).await.len(), 1);
}

pub(super) async fn a_replacement_keeps_the_position_of_the_turn(world: &HistoryWorld) {
    let replaced = world.exchange("s", "r1", ("q1", "wrong")).await;
    world.exchange("s", "r2", ("q2", "a2")).await;
    let correction = StartTurn {
        question_neutral: Some(JsonText::from_plain("q1")),
        answer_neutral: Some(JsonText::from_plain("right")),
        ..StartTurn::new(request("r1-corrected"))
    };
    let scope = as_user("");
    let new = world
        .engine
        .turns
        .replace(&scope, id("s"), replaced, correction);
    let new = new.await.unwrap();
    assert_eq!((new.record_version, new.ordinal), (2, 1));
    let stored = world.turn("s", "", replaced).await;
    assert_eq!(stored.replaced_by_turn_id, Some(new.turn_id));
    assert_eq!(
        stored.answer_neutral.unwrap().to_plain(),
        "wrong",
        "the replaced turn is not edited"
    );
    let expected = text_pairs(&[("q1", "right"), ("q2", "a2")]);
    assert_eq!(
        HistoryWorld::texts(&world.recent("s", "", 10).await),
        expected
    );
    assert_eq!(pairs(world, 10).await, expected);
    redact(world, replaced).await;
    assert_eq!(
        pairs(world, 10).await,
        text_pairs(&[("q2", "a2")]),
        "a redaction covers every version"
    );
}

pub(super) async fn equal_questions_are_separate_pairs(world: &HistoryWorld) {
    for (n, answer) in ["one", "two", "three"].iter().enumerate() {
        world
            .exchange("s", &format!("r{n}"), ("and now?", answer))
            .await;
    }
    let expected = [
        ("and now?", "one"),
        ("and now?", "two"),
        ("and now?", "three"),
    ];
    assert_eq!(pairs(world, 10).await, text_pairs(&expected));
    assert_eq!(pairs(world, 2).await, text_pairs(&expected[1..]));
}

pub(super) async fn turns_have_every_field(world: &HistoryWorld) {
    world.exchange("s", "r", ("q", "a")).await;
    let turn = serde_json::to_value(&world.recent("s", "", 1).await[0]).unwrap();
    let fields: BTreeSet<&str> = turn
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for field in [
        "turn_id",
        "session_id",
        "identity_id",
        "request_id",
        "created_at",
        "finalized_at",
        "pipeline_name",
        "consultant",
        "repository",
        "translate_chat",
        "question_neutral",
        "answer_neutral",
        "question_translated",
        "answer_translated",
        "answer_translated_is_fallback",
        "metadata",
        "record_version",
        "replaced_by_turn_id",
        "deleted_at",
    ] {
        assert!(fields.contains(field), "{field}");
    }
    let parsed: filrouge_types::Turn = serde_json::from_value(turn).unwrap();
    assert_eq!(parsed, world.recent("s", "", 1).await[0]);
}
