//! The durable history of an identity.

use filrouge_types::{ErrorCode, Failure, JsonText, Timestamp, Turn, TurnStatus};

use super::world::{
    HistoryWorld, anonymous_answer, anonymous_question, as_user, id, identity, json, tenant, text,
};
use crate::{Caller, FinalizeTurn, ListTurns, RedactTurn};

/// A turn of the identity `ada` as another store recorded it.
fn turn_of_another_store(
    world: &HistoryWorld,
    session: &str,
    name: &str,
    answer: Option<&str>,
) -> Turn {
    let request_id = name.parse().unwrap();
    let keyring = world.engine.ledger().keyring();
    let started_at = Timestamp::from_micros(1_600_000_000_000_000);
    let finalized_at = Timestamp::from_micros(1_600_000_001_000_000);
    Turn {
        turn_id: keyring.turn_id(&tenant(), &id(session), &request_id),
        session_id: id(session),
        request_id,
        ordinal: 1,
        status: answer.map_or(TurnStatus::Open, |_| TurnStatus::Finalized),
        identity_id: identity("ada"),
        question_neutral: Some(JsonText::from_plain(&format!("question {name}"))),
        question_translated: None,
        answer_neutral: answer.map(JsonText::from_plain),
        answer_translated: None,
        answer_translated_is_fallback: false,
        application: filrouge_types::Application {
            pipeline_name: Some("rag".into()),
            ..Default::default()
        },
        metadata: json(r#"{"channel":"web"}"#).unwrap(),
        first_seq: 1,
        last_seq: 1,
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: started_at,
        finalized_at: answer.map(|_| finalized_at),
        deleted_at: None,
        replayed: false,
        differs: false,
    }
}

async fn finalize(
    world: &HistoryWorld,
    turn: &Turn,
    user: &str,
    answer: &str,
) -> Result<(), Failure> {
    let request = FinalizeTurn {
        answer_neutral: text(answer),
        ..FinalizeTurn::default()
    };
    let (identity, session) = (identity(user).unwrap(), turn.session_id.clone());
    let history = world.history();
    history
        .upsert_turn_final(identity, session, turn.turn_id, request)
        .await
}

async fn list_turns(world: &HistoryWorld, session: &str) -> Vec<Turn> {
    let query = ListTurns {
        include_redacted: true,
        limit: 100,
        ..ListTurns::default()
    };
    let operator = Caller::operator(tenant());
    let turns = &world.engine.turns;
    let id = id(session);
    let turns = turns.list(&operator, &id, query);
    turns.await.unwrap().0
}

pub(super) async fn linking_is_an_upsert(world: &HistoryWorld) {
    let history = world.history();
    world.exchange("anonymous", "r", ("q", "a")).await;
    for session in ["new", "anonymous"] {
        for _ in 0..2 {
            let link = history.upsert_session_link(identity("ada").unwrap(), id(session));
            link.await.unwrap();
        }
        let ada = world.session(session, "ada").await;
        assert_eq!(ada.unwrap().identity_id, identity("ada"));
    }
    assert_eq!(list_turns(world, "anonymous").await.len(), 1);
}

pub(super) async fn a_link_to_another_identity_is_refused(world: &HistoryWorld) {
    let history = world.history();
    let link = async |user| {
        history
            .upsert_session_link(identity(user).unwrap(), id("s"))
            .await
    };
    link("ada").await.unwrap();
    assert_eq!(
        link("bob").await.unwrap_err().code,
        ErrorCode::SessionLinked
    );
    link("ada").await.unwrap();
}

pub(super) async fn inserting_again_changes_nothing(world: &HistoryWorld) {
    let history = world.history();
    let open = turn_of_another_store(world, "s", "r1", None);
    let finalized = turn_of_another_store(world, "s", "r2", Some("a2"));
    for turn in [&open, &finalized] {
        history.insert_turn(turn.clone()).await.unwrap();
    }
    let before = list_turns(world, "s").await;
    for turn in [&finalized, &open, &finalized] {
        history.insert_turn(turn.clone()).await.unwrap();
    }
    assert_eq!(list_turns(world, "s").await, before);
    let stored: Vec<_> = before.iter().map(|t| (t.turn_id, t.status)).collect();
    assert_eq!(
        stored,
        [
            (open.turn_id, open.status),
            (finalized.turn_id, finalized.status)
        ]
    );
    assert_eq!(before[1].metadata, finalized.metadata);
    assert_eq!(
        before[1].application.pipeline_name,
        finalized.application.pipeline_name
    );
    assert_eq!(before[1].identity_id, identity("ada"));
}

pub(super) async fn an_open_turn_gets_its_answer(world: &HistoryWorld) {
    let history = world.history();
    history
        .insert_turn(turn_of_another_store(world, "s", "r", None))
        .await
        .unwrap();
    let mut finalized = turn_of_another_store(world, "s", "r", Some("a"));
    finalized.answer_translated = Some(JsonText::from_plain("o"));
    history.insert_turn(finalized.clone()).await.unwrap();
    let turn = &list_turns(world, "s").await[0];
    assert_eq!(turn.status, TurnStatus::Finalized);
    assert_eq!(turn.answer_neutral, finalized.answer_neutral);
    assert_eq!(turn.answer_translated, finalized.answer_translated);
    history.insert_turn(finalized).await.unwrap();
}

pub(super) async fn inserted_turns_keep_their_times_and_order(world: &HistoryWorld) {
    let history = world.history();
    let mut copied = turn_of_another_store(world, "s", "r2", Some("a2"));
    copied.application.translate_chat = true;
    copied.answer_translated = copied.answer_neutral.clone();
    copied.answer_translated_is_fallback = true;
    let mut translated = turn_of_another_store(world, "s", "r3", Some("a3"));
    translated.question_translated = Some(JsonText::from_plain("pytanie"));
    translated.answer_translated = Some(JsonText::from_plain("o3"));
    let turns = [
        turn_of_another_store(world, "s", "r1", Some("a1")),
        copied,
        translated,
    ];
    for turn in &turns {
        history.insert_turn(turn.clone()).await.unwrap();
    }
    let stored = list_turns(world, "s").await;
    for ((turn, inserted), ordinal) in stored.iter().zip(&turns).zip(1..) {
        assert_eq!((turn.turn_id, turn.ordinal), (inserted.turn_id, ordinal));
        assert_eq!(turn.question_neutral, inserted.question_neutral);
        assert_eq!(turn.question_translated, inserted.question_translated);
        assert_eq!(turn.answer_neutral, inserted.answer_neutral);
        assert_eq!(turn.answer_translated, inserted.answer_translated);
        let flags = |t: &Turn| {
            (
                t.application.translate_chat,
                t.answer_translated_is_fallback,
            )
        };
        assert_eq!(flags(turn), flags(inserted));
    }
    let (scope, id) = (as_user("ada"), id("s"));
    let items = world.engine.turns.items(&scope, &id, 0, 100);
    for item in items.await.unwrap().0 {
        let inserted = &turns[0];
        let at = match item.body.channel.as_str() {
            "question" => Some(inserted.created_at),
            _ => inserted.finalized_at,
        };
        assert_eq!(item.body.occurred_at, at, "{}", item.body.channel);
    }
}

pub(super) async fn turns_that_violate_a_rule_are_not_inserted(world: &HistoryWorld) {
    let history = world.history();
    let valid = turn_of_another_store(world, "s", "r", Some("a"));
    let anonymous = Turn {
        identity_id: None,
        ..valid.clone()
    };
    let of_another_session = Turn {
        session_id: id("t"),
        ..valid.clone()
    };
    let failed = Turn {
        status: TurnStatus::Failed,
        ..valid.clone()
    };
    let without_answer = Turn {
        answer_neutral: None,
        ..valid.clone()
    };
    let redacted = Turn {
        deleted_at: Some(valid.created_at),
        ..valid.clone()
    };
    for (turn, code) in [
        (anonymous, ErrorCode::Invalid),
        (of_another_session, ErrorCode::TurnMismatch),
        (failed, ErrorCode::Invalid),
        (without_answer, ErrorCode::AnswerMissing),
        (redacted, ErrorCode::TurnRedacted),
    ] {
        assert_eq!(history.insert_turn(turn).await.unwrap_err().code, code);
    }
    history.insert_turn(valid.clone()).await.unwrap();
    let of_bob = Turn {
        identity_id: identity("bob"),
        ..valid.clone()
    };
    let code = history.insert_turn(of_bob).await.unwrap_err().code;
    assert_eq!(code, ErrorCode::SessionConflict);
    // A redacted turn is not restored by inserting it.
    let reason = RedactTurn {
        reason: "on request".into(),
    };
    let scope = as_user("ada");
    let redact = world
        .engine
        .erasure
        .redact_turn(&scope, id("s"), valid.turn_id, reason);
    redact.await.unwrap();
    history.insert_turn(valid).await.unwrap();
    let stored = &list_turns(world, "s").await[0];
    assert!(stored.deleted_at.is_some() && stored.question_neutral.is_none());
}

pub(super) async fn finalizing_creates_no_turn(world: &HistoryWorld) {
    let history = world.history();
    let missing = turn_of_another_store(world, "s", "r", None);
    let refused = finalize(world, &missing, "ada", "a").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SessionNotFound);
    history
        .insert_turn(turn_of_another_store(world, "s", "r0", Some("a0")))
        .await
        .unwrap();
    let refused = finalize(world, &missing, "ada", "a").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::TurnNotFound);
    assert_eq!(list_turns(world, "s").await.len(), 1, "no turn was created");
}

pub(super) async fn only_the_owner_finalizes(world: &HistoryWorld) {
    let history = world.history();
    let turn = turn_of_another_store(world, "s", "r", None);
    history.insert_turn(turn.clone()).await.unwrap();
    let refused = finalize(world, &turn, "bob", "forged").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SessionNotFound);
    finalize(world, &turn, "ada", "a").await.unwrap();
    assert_eq!(
        list_turns(world, "s").await[0]
            .answer_neutral
            .as_ref()
            .unwrap()
            .to_plain(),
        "a"
    );
}

pub(super) async fn the_stores_clock_sets_the_time(world: &HistoryWorld) {
    let history = world.history();
    let turn = turn_of_another_store(world, "s", "r", None);
    history.insert_turn(turn.clone()).await.unwrap();
    world.clock.advance(5_000_000);
    finalize(world, &turn, "ada", "a").await.unwrap();
    let stored = list_turns(world, "s").await.remove(0);
    let now = filrouge_types::Clock::now(&*world.clock);
    assert_eq!(stored.finalized_at, Some(now));
    // A retry at another time is still a retry.
    world.clock.advance(5_000_000);
    finalize(world, &turn, "ada", "a").await.unwrap();
    assert_eq!(list_turns(world, "s").await, [stored]);
    // A retry through the calls of the session scope is a retry, too.
    let mut repeated = anonymous_question("s", "r", "question r");
    repeated.identity_id = identity("ada");
    assert_eq!(history.start(repeated).await.unwrap(), turn.turn_id);
    let mut repeated = anonymous_answer("s", "r", turn.turn_id, "a");
    repeated.identity_id = identity("ada");
    history.finalize(repeated).await.unwrap();
}
