//! Policies that leave members of metadata out of the record.

use super::*;

#[tokio::test]
async fn members_that_are_not_listed_do_not_reach_the_ledger() {
    let engine = engine_with_members(&["channel"]);
    let caller = anonymous("t");
    let mut request = start("r");
    request.metadata = json(r#"{"channel":"web","prompt":"all of it","prompt":1,"a b":2}"#);
    let turn = start_turn(&engine, &caller, request.clone()).await;
    assert_eq!(turn.metadata.as_str(), r#"{"channel":"web"}"#);
    let retried = start_turn(&engine, &caller, request).await;
    assert!(
        retried.replayed && !retried.differs,
        "a retry is recognized by the request before its members are left out"
    );
    let end = |metadata| FinalizeTurn {
        answer_neutral: Some(JsonText::from_plain("a")),
        metadata: json(metadata),
        ..FinalizeTurn::default()
    };
    let finalize = async |metadata| {
        let end = engine
            .turns
            .finalize(&caller, session(), turn.turn_id, end(metadata))
            .await;
        end.unwrap().into_value()
    };
    let closed = finalize(r#"{"channel":"app","chunks":[]}"#).await;
    assert_eq!(closed.metadata.as_str(), r#"{"channel":"app"}"#);
    assert!(finalize(r#"{"channel":"app","chunks":[]}"#).await.replayed);
    let correction = StartTurn {
        answer_neutral: Some(JsonText::from_plain("b")),
        metadata: json(r#"{"channel":"web","trace":{}}"#),
        ..start("r2")
    };
    let new = engine
        .turns
        .replace(&caller, session(), turn.turn_id, correction)
        .await
        .unwrap();
    assert_eq!(new.metadata.as_str(), r#"{"channel":"web"}"#);
    let dropped = [("chunks", 1), ("other", 1), ("prompt", 1), ("trace", 1)];
    assert_eq!(engine.upkeep.counters().members.all(), counts(&dropped));
}

#[tokio::test]
async fn members_that_filrouge_adds_are_kept() {
    let engine = engine_with_members(&[]);
    let caller = anonymous("t");
    let mut request = start("r");
    request.question_translated = request.question_neutral.take();
    request.metadata = json(r#"{"channel":"web"}"#);
    let turn = start_turn(&engine, &caller, request).await;
    let flag = r#"{"question_neutral_is_fallback":true}"#;
    assert_eq!(turn.metadata.as_str(), flag);
    let mut request = start("r2");
    request.metadata = json(flag);
    assert_eq!(
        start_turn(&engine, &caller, request)
            .await
            .metadata
            .as_str(),
        flag
    );
}

#[tokio::test]
async fn no_address_is_stored() {
    let engine = engine(Settings {
        runtime_context_allow: vec!["ip".to_owned(), "ip_hash".to_owned()],
        ..Settings::default()
    });
    let caller = anonymous("t");
    let mut request = start("r");
    request.metadata = json(r#"{"client_ip":"192.0.2.1","channel":"web"}"#);
    request.runtime_context = json(r#"{"ip":"192.0.2.1"}"#);
    let turn = start_turn(&engine, &caller, request.clone()).await;
    let hash = engine
        .ledger()
        .keyring()
        .address_hash(caller.tenant(), "192.0.2.1");
    let hash = hex::encode(hash);
    let expected = format!(r#"{{"channel":"web","ip_hash":"{hash}"}}"#);
    assert_eq!(turn.metadata.as_str(), expected);
    let end = FinalizeTurn {
        answer_neutral: Some(JsonText::from_plain("a")),
        metadata: json(r#"{"X-Real-IP":"198.51.100.7"}"#),
        ..FinalizeTurn::default()
    };
    let turn = engine
        .turns
        .finalize(&caller, session(), turn.turn_id, end)
        .await
        .unwrap();
    let other = engine
        .ledger()
        .keyring()
        .address_hash(caller.tenant(), "198.51.100.7");
    assert!(turn.metadata.as_str().contains(&hex::encode(other)));
    let question = stored_items(&engine, &caller).await.remove(0);
    let context = question.body.metadata.unwrap();
    assert_eq!(context.as_str(), format!(r#"{{"ip_hash":"{hash}"}}"#));
    assert!(start_turn(&engine, &caller, request).await.replayed);
    let all: Vec<_> = stored_items(&engine, &caller).await;
    let all = format!("{all:?} {:?}", turn.value);
    assert!(
        !all.contains("192.0.2.1") && !all.contains("198.51.100.7"),
        "{all}"
    );
}
