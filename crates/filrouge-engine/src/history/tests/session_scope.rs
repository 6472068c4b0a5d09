//! History by session id.

use filrouge_types::{ErrorCode, TurnStatus};

use super::world::{HistoryWorld, anonymous_answer, anonymous_question, identity, json, text};

pub(super) async fn a_request_has_one_turn(world: &HistoryWorld) {
    let turn = world.exchange("s", "r", ("q", "a")).await;
    let recent = world.recent("s", "", 10).await;
    assert_eq!(recent.len(), 1);
    assert_eq!((recent[0].turn_id, recent[0].ordinal), (turn, 1));
    assert_eq!(recent[0].request_id.as_str(), "r");
    assert_eq!(
        HistoryWorld::texts(&recent),
        [("q".to_owned(), "a".to_owned())]
    );
    assert!(recent[0].finalized_at.is_some());
}

pub(super) async fn a_request_id_is_scoped_to_its_session(world: &HistoryWorld) {
    let first = world.exchange("s", "r", ("q", "a")).await;
    let second = world.exchange("t", "r", ("q2", "a2")).await;
    assert_ne!(first, second);
    assert_eq!(world.recent("s", "", 10).await.len(), 1);
    assert_eq!(world.recent("t", "", 10).await.len(), 1);
}

pub(super) async fn a_repeated_start_returns_the_same_turn(world: &HistoryWorld) {
    let store = world.history();
    let first = store
        .start(anonymous_question("s", "r", "q"))
        .await
        .unwrap();
    let mut repeated = anonymous_question("s", "r", "another question");
    repeated.request.metadata = json(r#"{"retry":true}"#);
    repeated.request.application.translate_chat = true;
    assert_eq!(store.start(repeated.clone()).await.unwrap(), first);
    let answer = anonymous_answer("s", "r", first, "a");
    store.finalize(answer).await.unwrap();
    assert_eq!(store.start(repeated).await.unwrap(), first);
    let recent = world.recent("s", "", 10).await;
    assert_eq!(
        HistoryWorld::texts(&recent),
        [("q".to_owned(), "a".to_owned())]
    );
    assert_eq!(recent[0].metadata.as_str(), "{}");
}

pub(super) async fn concurrent_starts_are_one_turn(world: &HistoryWorld) {
    let store = world.history();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = store.clone();
        starts.spawn(async move {
            store
                .start(anonymous_question("s", "r", "q"))
                .await
                .unwrap()
        });
    }
    let ids = starts.join_all().await;
    assert!(ids.iter().all(|id| *id == ids[0]));
    store
        .finalize(anonymous_answer("s", "r", ids[0], "a"))
        .await
        .unwrap();
    assert_eq!(world.recent("s", "", 10).await.len(), 1);
}

pub(super) async fn concurrent_turns_are_all_kept(world: &HistoryWorld) {
    let store = world.history();
    let mut turns = tokio::task::JoinSet::new();
    for n in 0..16 {
        let store = store.clone();
        turns.spawn(async move {
            let name = format!("r{n}");
            let turn = store
                .start(anonymous_question("s", &name, &name))
                .await
                .unwrap();
            store
                .finalize(anonymous_answer("s", &name, turn, &name))
                .await
                .unwrap();
        });
    }
    turns.join_all().await;
    let recent = world.recent("s", "", 100).await;
    let ordinals: Vec<_> = recent.iter().map(|t| t.ordinal).collect();
    assert_eq!(ordinals, (1..=16).collect::<Vec<_>>());
    assert!(HistoryWorld::texts(&recent).iter().all(|(q, a)| q == a));
}

pub(super) async fn finalizing_again_changes_nothing(world: &HistoryWorld) {
    let turn = world.exchange("s", "r", ("q", "a")).await;
    let store = world.history();
    let before = world.turn("s", "", turn).await;
    world.clock.advance(60_000_000);
    store
        .finalize(anonymous_answer("s", "r", turn, "a"))
        .await
        .unwrap();
    assert_eq!(world.turn("s", "", turn).await, before);
    let second_answer = store.finalize(anonymous_answer("s", "r", turn, "b")).await;
    assert_eq!(
        second_answer.unwrap_err().code,
        ErrorCode::IdempotencyMismatch
    );
    assert_eq!(world.turn("s", "", turn).await, before);
}

pub(super) async fn finalizing_another_turn_is_refused(world: &HistoryWorld) {
    let store = world.history();
    let turn = store
        .start(anonymous_question("s", "r", "q"))
        .await
        .unwrap();
    store
        .start(anonymous_question("s", "r2", "q2"))
        .await
        .unwrap();
    world.exchange("t", "r", ("q", "a")).await;
    let code = async |session: &str, request: &str| {
        let answer = store
            .finalize(anonymous_answer(session, request, turn, "a"))
            .await;
        answer.unwrap_err().code
    };
    // A store that sees only one session at a time cannot find turns of other sessions.
    let code_of_other_session = code("t", "r").await;
    let refused = matches!(
        code_of_other_session,
        ErrorCode::TurnMismatch | ErrorCode::TurnNotFound
    );
    assert!(refused, "another session's turn: {code_of_other_session}");
    assert_eq!(
        code("s", "r2").await,
        ErrorCode::TurnMismatch,
        "another request's turn"
    );
    let open = world.turn("s", "", turn).await;
    assert_eq!((open.status, open.answer_neutral), (TurnStatus::Open, None));
    assert_eq!(
        world.recent("t", "", 10).await.len(),
        1,
        "no turn was added to the other session"
    );
}

pub(super) async fn translations_are_optional(world: &HistoryWorld) {
    let plain = world.exchange("s", "r", ("q", "a")).await;
    let plain = world.turn("s", "", plain).await;
    assert_eq!(
        (plain.question_translated, plain.answer_translated),
        (None, None)
    );
    assert!(!plain.application.translate_chat && !plain.answer_translated_is_fallback);
    let store = world.history();
    let mut question = anonymous_question("s", "r2", "question");
    question.request.question_translated = text("pytanie");
    question.request.application.translate_chat = true;
    let turn = store.start(question).await.unwrap();
    let mut answer = anonymous_answer("s", "r2", turn, "answer");
    answer.request.answer_translated = text("odpowiedź");
    store.finalize(answer).await.unwrap();
    let translated = world.turn("s", "", turn).await;
    let plain = |text: &Option<filrouge_types::JsonText>| text.as_ref().unwrap().to_plain();
    assert_eq!(plain(&translated.question_neutral), "question");
    assert_eq!(plain(&translated.question_translated), "pytanie");
    assert_eq!(plain(&translated.answer_neutral), "answer");
    assert_eq!(plain(&translated.answer_translated), "odpowiedź");
    assert!(translated.application.translate_chat && !translated.answer_translated_is_fallback);
}

pub(super) async fn metadata_is_kept_unchanged(world: &HistoryWorld) {
    let store = world.history();
    let mut question = anonymous_question("s", "r", "q");
    question.request.metadata = json(r#"{"channel":"web","cost":1.0,"big":9007199254740993}"#);
    let turn = store.start(question).await.unwrap();
    let mut answer = anonymous_answer("s", "r", turn, "a");
    answer.request.metadata = json(r#"{"cost":2.50,"new":[]}"#);
    store.finalize(answer).await.unwrap();
    assert_eq!(
        world.turn("s", "", turn).await.metadata.as_str(),
        r#"{"channel":"web","cost":2.50,"big":9007199254740993,"new":[]}"#
    );
}

pub(super) async fn the_history_of_another_identity_looks_absent(world: &HistoryWorld) {
    let store = world.history();
    let mut question = anonymous_question("s", "r", "q");
    question.identity_id = identity("ada");
    let turn = store.start(question).await.unwrap();
    let mut answer = anonymous_answer("s", "r", turn, "a");
    answer.identity_id = identity("ada");
    store.finalize(answer).await.unwrap();
    assert_eq!(world.recent("s", "ada", 10).await.len(), 1);
    for user in ["", "bob"] {
        assert!(world.recent("s", user, 10).await.is_empty(), "{user:?}");
        let mut answer = anonymous_answer("s", "r", turn, "b");
        answer.identity_id = identity(user);
        let code = store.finalize(answer).await.unwrap_err().code;
        assert_eq!(code, ErrorCode::SessionNotFound, "{user:?}");
        let mut question = anonymous_question("s", "r9", "q");
        question.identity_id = identity(user);
        let code = store.start(question).await.unwrap_err().code;
        assert_eq!(code, ErrorCode::SessionConflict, "{user:?}");
    }
    assert!(world.recent("absent", "", 10).await.is_empty());
}
