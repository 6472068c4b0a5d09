//! Durable history of an identity.

use filrouge_types::{ErrorCode, Failure, JsonText, Timestamp, Turn, TurnStatus};

use super::world::{World, as_user, finish, id, json, start, tenant, text, who};
use crate::{Caller, FinalizeTurn, ListTurns, RedactTurn};

/// A turn of ada's as another store has kept it.
fn told(world: &World, session: &str, name: &str, answer: Option<&str>) -> Turn {
    let request_id = name.parse().unwrap();
    let keyring = world.engine.ledger().keyring();
    let asked = Timestamp::from_micros(1_600_000_000_000_000);
    let answered = Timestamp::from_micros(1_600_000_001_000_000);
    Turn {
        turn_id: keyring.turn_id(&tenant(), &id(session), &request_id),
        session_id: id(session),
        request_id,
        ordinal: 1,
        status: answer.map_or(TurnStatus::Open, |_| TurnStatus::Finalized),
        identity_id: who("ada"),
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
        created_at: asked,
        finalized_at: answer.map(|_| answered),
        deleted_at: None,
        replayed: false,
        differs: false,
    }
}

async fn end(world: &World, turn: &Turn, user: &str, answer: &str) -> Result<(), Failure> {
    let request = FinalizeTurn {
        answer_neutral: text(answer),
        ..FinalizeTurn::default()
    };
    let (identity, session) = (who(user).unwrap(), turn.session_id.clone());
    let history = world.history();
    history
        .upsert_turn_final(identity, session, turn.turn_id, request)
        .await
}

async fn all(world: &World, session: &str) -> Vec<Turn> {
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

pub(super) async fn linking_is_an_upsert(world: &World) {
    let users = world.history();
    world.exchange("anonymous", "r", ("q", "a")).await;
    for session in ["new", "anonymous"] {
        for _ in 0..2 {
            let link = users.upsert_session_link(who("ada").unwrap(), id(session));
            link.await.unwrap();
        }
        let ada = world.session(session, "ada").await;
        assert_eq!(ada.unwrap().identity_id, who("ada"));
    }
    assert_eq!(all(world, "anonymous").await.len(), 1);
}

pub(super) async fn a_link_to_another_identity_is_refused(world: &World) {
    let users = world.history();
    let link = async |user| users.upsert_session_link(who(user).unwrap(), id("s")).await;
    link("ada").await.unwrap();
    assert_eq!(
        link("bob").await.unwrap_err().code,
        ErrorCode::SessionLinked
    );
    link("ada").await.unwrap();
}

pub(super) async fn inserting_again_changes_nothing(world: &World) {
    let users = world.history();
    let open = told(world, "s", "r1", None);
    let done = told(world, "s", "r2", Some("a2"));
    for turn in [&open, &done] {
        users.insert_turn(turn.clone()).await.unwrap();
    }
    let before = all(world, "s").await;
    for turn in [&done, &open, &done] {
        users.insert_turn(turn.clone()).await.unwrap();
    }
    assert_eq!(all(world, "s").await, before);
    let found: Vec<_> = before.iter().map(|t| (t.turn_id, t.status)).collect();
    assert_eq!(
        found,
        [(open.turn_id, open.status), (done.turn_id, done.status)]
    );
    assert_eq!(before[1].metadata, done.metadata);
    assert_eq!(
        before[1].application.pipeline_name,
        done.application.pipeline_name
    );
    assert_eq!(before[1].identity_id, who("ada"));
}

pub(super) async fn an_open_turn_gets_its_answer(world: &World) {
    let users = world.history();
    users
        .insert_turn(told(world, "s", "r", None))
        .await
        .unwrap();
    let mut done = told(world, "s", "r", Some("a"));
    done.answer_translated = Some(JsonText::from_plain("o"));
    users.insert_turn(done.clone()).await.unwrap();
    let turn = &all(world, "s").await[0];
    assert_eq!(turn.status, TurnStatus::Finalized);
    assert_eq!(turn.answer_neutral, done.answer_neutral);
    assert_eq!(turn.answer_translated, done.answer_translated);
    users.insert_turn(done).await.unwrap();
}

pub(super) async fn told_turns_keep_their_times_and_order(world: &World) {
    let users = world.history();
    let mut copied = told(world, "s", "r2", Some("a2"));
    copied.application.translate_chat = true;
    copied.answer_translated = copied.answer_neutral.clone();
    copied.answer_translated_is_fallback = true;
    let mut translated = told(world, "s", "r3", Some("a3"));
    translated.question_translated = Some(JsonText::from_plain("pytanie"));
    translated.answer_translated = Some(JsonText::from_plain("o3"));
    let turns = [told(world, "s", "r1", Some("a1")), copied, translated];
    for turn in &turns {
        users.insert_turn(turn.clone()).await.unwrap();
    }
    let there = all(world, "s").await;
    for ((turn, told), ordinal) in there.iter().zip(&turns).zip(1..) {
        assert_eq!((turn.turn_id, turn.ordinal), (told.turn_id, ordinal));
        assert_eq!(turn.question_neutral, told.question_neutral);
        assert_eq!(turn.question_translated, told.question_translated);
        assert_eq!(turn.answer_neutral, told.answer_neutral);
        assert_eq!(turn.answer_translated, told.answer_translated);
        let flags = |t: &Turn| {
            (
                t.application.translate_chat,
                t.answer_translated_is_fallback,
            )
        };
        assert_eq!(flags(turn), flags(told));
    }
    let (scope, id) = (as_user("ada"), id("s"));
    let items = world.engine.turns.items(&scope, &id, 0, 100);
    for item in items.await.unwrap().0 {
        let told = &turns[0];
        let at = match item.body.channel.as_str() {
            "question" => Some(told.created_at),
            _ => told.finalized_at,
        };
        assert_eq!(item.body.occurred_at, at, "{}", item.body.channel);
    }
}

pub(super) async fn what_is_not_inserted(world: &World) {
    let users = world.history();
    let good = told(world, "s", "r", Some("a"));
    let nobody = Turn {
        identity_id: None,
        ..good.clone()
    };
    let elsewhere = Turn {
        session_id: id("t"),
        ..good.clone()
    };
    let failed = Turn {
        status: TurnStatus::Failed,
        ..good.clone()
    };
    let empty = Turn {
        answer_neutral: None,
        ..good.clone()
    };
    let redacted = Turn {
        deleted_at: Some(good.created_at),
        ..good.clone()
    };
    for (turn, code) in [
        (nobody, ErrorCode::Invalid),
        (elsewhere, ErrorCode::TurnMismatch),
        (failed, ErrorCode::Invalid),
        (empty, ErrorCode::AnswerMissing),
        (redacted, ErrorCode::TurnRedacted),
    ] {
        assert_eq!(users.insert_turn(turn).await.unwrap_err().code, code);
    }
    users.insert_turn(good.clone()).await.unwrap();
    let bobs = Turn {
        identity_id: who("bob"),
        ..good.clone()
    };
    let code = users.insert_turn(bobs).await.unwrap_err().code;
    assert_eq!(code, ErrorCode::SessionConflict);
    // What was taken out does not come in again.
    let reason = RedactTurn {
        reason: "asked for".into(),
    };
    let scope = as_user("ada");
    let redact = world
        .engine
        .erasure
        .redact_turn(&scope, id("s"), good.turn_id, reason);
    redact.await.unwrap();
    users.insert_turn(good).await.unwrap();
    let there = &all(world, "s").await[0];
    assert!(there.deleted_at.is_some() && there.question_neutral.is_none());
}

pub(super) async fn finalizing_makes_no_turn(world: &World) {
    let users = world.history();
    let missing = told(world, "s", "r", None);
    let refused = end(world, &missing, "ada", "a").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SessionNotFound);
    users
        .insert_turn(told(world, "s", "r0", Some("a0")))
        .await
        .unwrap();
    let refused = end(world, &missing, "ada", "a").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::TurnNotFound);
    assert_eq!(all(world, "s").await.len(), 1, "no ghost");
}

pub(super) async fn finalizing_is_for_the_owner(world: &World) {
    let users = world.history();
    let turn = told(world, "s", "r", None);
    users.insert_turn(turn.clone()).await.unwrap();
    let refused = end(world, &turn, "bob", "forged").await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::SessionNotFound);
    end(world, &turn, "ada", "a").await.unwrap();
    assert_eq!(
        all(world, "s").await[0]
            .answer_neutral
            .as_ref()
            .unwrap()
            .to_plain(),
        "a"
    );
}

pub(super) async fn the_stores_time_counts(world: &World) {
    let users = world.history();
    let turn = told(world, "s", "r", None);
    users.insert_turn(turn.clone()).await.unwrap();
    world.clock.advance(5_000_000);
    end(world, &turn, "ada", "a").await.unwrap();
    let there = all(world, "s").await.remove(0);
    let now = filrouge_types::Clock::now(&*world.clock);
    assert_eq!(there.finalized_at, Some(now));
    // A retry at another time is a retry all the same.
    world.clock.advance(5_000_000);
    end(world, &turn, "ada", "a").await.unwrap();
    assert_eq!(all(world, "s").await, [there]);
    // So is one by the calls of the other scope.
    let mut again = start("s", "r", "question r");
    again.who = who("ada");
    assert_eq!(users.start(again).await.unwrap(), turn.turn_id);
    let mut again = finish("s", "r", turn.turn_id, "a");
    again.who = who("ada");
    users.finish(again).await.unwrap();
}
