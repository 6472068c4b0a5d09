//! The two calls that a server makes for every request: when it has started, and when it is finalized.

use filrouge_types::{ErrorCode, TurnStatus};

use super::world::{HistoryWorld, answer_call, question_call, tenant, text};

pub(super) async fn the_question_is_stored_before_the_answer(world: &HistoryWorld) {
    let service = world.history();
    let mut call = question_call("s", "r", "", "q");
    call.request.application.pipeline_name = Some("rag".into());
    call.request.application.consultant = Some("ada".into());
    call.request.application.repository = Some("docs".into());
    let turn = service.request_started(call.clone()).await.unwrap();
    let open = world.turn("s", "", turn).await;
    assert_eq!(open.question_neutral.unwrap().to_plain(), "q");
    assert_eq!(open.status, TurnStatus::Open);
    let labels = [
        open.application.pipeline_name,
        open.application.consultant,
        open.application.repository,
    ];
    assert_eq!(
        labels.map(Option::unwrap).map(String::from),
        ["rag", "ada", "docs"]
    );
    assert_eq!(service.request_started(call.clone()).await.unwrap(), turn);
    let answer = answer_call(&call, Some(turn), "a");
    service.request_finalized(answer.clone()).await.unwrap();
    let closed = world.turn("s", "", turn).await;
    assert_eq!(closed.answer_neutral.as_ref().unwrap().to_plain(), "a");
    service.request_finalized(answer).await.unwrap();
    assert_eq!(world.turn("s", "", turn).await, closed);
}

pub(super) async fn a_missing_neutral_question_is_a_flagged_copy(world: &HistoryWorld) {
    let mut call = question_call("s", "r", "", "");
    call.request.question_neutral = None;
    call.request.question_translated = text("pytanie");
    let turn = world.history().request_started(call).await.unwrap();
    let turn = world.turn("s", "", turn).await;
    assert_eq!(turn.question_neutral.unwrap().to_plain(), "pytanie");
    assert_eq!(turn.question_translated.unwrap().to_plain(), "pytanie");
    assert_eq!(
        turn.metadata.as_str(),
        r#"{"question_neutral_is_fallback":true}"#
    );
}

pub(super) async fn a_turn_needs_a_question(world: &HistoryWorld) {
    let mut call = question_call("s", "r", "", "");
    call.request.question_neutral = None;
    let refused = world.history().request_started(call).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(world.recent("s", "", 10).await.is_empty());
}

pub(super) async fn a_missing_translation_is_a_flagged_copy(world: &HistoryWorld) {
    let service = world.history();
    let mut call = question_call("s", "r", "", "q");
    call.request.application.translate_chat = true;
    let turn = service.request_started(call.clone()).await.unwrap();
    let answer = answer_call(&call, Some(turn), "a");
    service.request_finalized(answer).await.unwrap();
    let turn = world.turn("s", "", turn).await;
    assert_eq!(turn.answer_translated.unwrap().to_plain(), "a");
    assert!(turn.answer_translated_is_fallback);
}

pub(super) async fn a_translation_keeps_its_flag(world: &HistoryWorld) {
    let service = world.history();
    let mut call = question_call("s", "r", "", "q");
    call.request.application.translate_chat = true;
    let turn = service.request_started(call.clone()).await.unwrap();
    let mut answer = answer_call(&call, Some(turn), "a");
    answer.request.answer_translated = text("o");
    answer.request.answer_translated_is_fallback = Some(true);
    service.request_finalized(answer).await.unwrap();
    let turn = world.turn("s", "", turn).await;
    assert_eq!(turn.answer_translated.unwrap().to_plain(), "o");
    assert!(turn.answer_translated_is_fallback);
}

pub(super) async fn finalizing_needs_a_start(world: &HistoryWorld) {
    let service = world.history();
    let call = question_call("s", "r", "", "q");
    let mut answer = answer_call(&call, None, "a");
    answer.start = Some(call.request.clone());
    let refused = service.request_finalized(answer).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid);
    assert!(refused.detail.contains("turn_id"));
    // A turn that was never started, in an existing session.
    world.exchange("s", "other", ("q", "a")).await;
    let keyring = world.engine.ledger().keyring();
    let unknown = keyring.turn_id(&tenant(), &call.session, &call.request.request_id);
    let answer = answer_call(&call, Some(unknown), "a");
    let refused = service.request_finalized(answer).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::TurnNotFound);
    assert_eq!(
        world.recent("s", "", 10).await.len(),
        1,
        "no turn was created"
    );
}

pub(super) async fn best_effort_is_only_for_development(world: &HistoryWorld) {
    let service = world.history().with_best_effort_finalize();
    let call = question_call("s", "r", "", "q");
    let mut answer = answer_call(&call, None, "a");
    let refused = service.request_finalized(answer.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Invalid, "the call has no start");
    answer.start = Some(call.request);
    service.request_finalized(answer.clone()).await.unwrap();
    service.request_finalized(answer).await.unwrap();
    let recent = world.recent("s", "", 10).await;
    assert_eq!(
        HistoryWorld::texts(&recent),
        [("q".to_owned(), "a".to_owned())]
    );
}

pub(super) async fn a_start_links_the_session(world: &HistoryWorld) {
    let service = world.history();
    let before = question_call("s", "r1", "", "q1");
    let turn = service.request_started(before.clone()).await.unwrap();
    let answer = answer_call(&before, Some(turn), "a1");
    service.request_finalized(answer).await.unwrap();
    let after = question_call("s", "r2", "ada", "q2");
    let turn = service.request_started(after.clone()).await.unwrap();
    let answer = answer_call(&after, Some(turn), "a2");
    service.request_finalized(answer).await.unwrap();
    let session = world.session("s", "ada").await;
    assert_eq!(session.unwrap().identity_id.unwrap().as_str(), "ada");
    let recent = world.recent("s", "ada", 10).await;
    let texts = [
        ("q1".to_owned(), "a1".to_owned()),
        ("q2".to_owned(), "a2".to_owned()),
    ];
    assert_eq!(
        HistoryWorld::texts(&recent),
        texts,
        "the anonymous turns are adopted"
    );
    assert_eq!(recent[1].identity_id.as_ref().unwrap().as_str(), "ada");
    // A session that starts with an identity belongs to it from its first item.
    let new = question_call("t", "r", "ada", "q");
    service.request_started(new).await.unwrap();
    let session = world.session("t", "ada").await;
    assert_eq!(session.unwrap().identity_id.unwrap().as_str(), "ada");
}

pub(super) async fn a_second_identity_is_refused(world: &HistoryWorld) {
    let service = world.history();
    let by_ada = question_call("s", "r1", "ada", "q1");
    service.request_started(by_ada).await.unwrap();
    let by_bob = question_call("s", "r2", "bob", "q2");
    let refused = service.request_started(by_bob).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionLinked);
    let session = world.session("s", "ada").await;
    let session = session.unwrap();
    assert_eq!(
        (session.turn_count, session.identity_id.unwrap().as_str()),
        (1, "ada")
    );
}

pub(super) async fn one_of_several_logins_wins(world: &HistoryWorld) {
    let service = world.history();
    for round in 0..8 {
        let name = format!("s{round}");
        let anonymous = question_call(&name, "r0", "", "q");
        service.request_started(anonymous).await.unwrap();
        let mut logins = tokio::task::JoinSet::new();
        for user in ["ada", "bob", "eve"] {
            let service = service.clone();
            let call = question_call(&name, user, user, "q");
            logins.spawn(async move { (user, service.request_started(call).await) });
        }
        let (winners, losers): (Vec<_>, Vec<_>) = logins
            .join_all()
            .await
            .into_iter()
            .partition(|(_, login)| login.is_ok());
        assert_eq!(winners.len(), 1, "{losers:?}");
        for (user, login) in losers {
            assert_eq!(login.unwrap_err().code, ErrorCode::SessionLinked, "{user}");
        }
        let session = world.session(&name, winners[0].0).await;
        assert_eq!(
            session.unwrap().turn_count,
            2,
            "the refused calls have written nothing"
        );
    }
}

pub(super) async fn after_a_login_the_session_is_closed_to_others(world: &HistoryWorld) {
    let service = world.history();
    world.exchange("s", "r1", ("q1", "a1")).await;
    service
        .request_started(question_call("s", "r2", "ada", "q2"))
        .await
        .unwrap();
    for user in ["", "bob"] {
        assert!(world.recent("s", user, 10).await.is_empty(), "{user:?}");
        let session = world.session("s", user).await;
        assert_eq!(session.unwrap_err().code, ErrorCode::SessionNotFound);
    }
    assert_eq!(world.recent("s", "ada", 10).await.len(), 1);
}
