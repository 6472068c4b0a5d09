//! Answers: promotion, translations, fallback copies (DESIGN §4.3, §7).

use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, ItemBody, JsonText, RawJson, Role, Turn};

use super::fixture::{
    Fixture, answer, anyone, body, close, code, finalize, item, start_with, translated,
};
use crate::command::{Ending, Write};

fn plain(text: Option<&JsonText>) -> Option<String> {
    text.map(JsonText::to_plain)
}

fn answers(turn: &Turn) -> (Option<String>, Option<String>, bool) {
    let (a, t) = (
        plain(turn.answer_neutral.as_ref()),
        plain(turn.answer_translated.as_ref()),
    );
    (a, t, turn.answer_translated_is_fallback)
}

fn some(words: &str) -> Option<String> {
    Some(words.to_owned())
}

async fn start_translating(f: &Fixture, request: &str) -> Turn {
    let who = anyone();
    let command = start_with(&who, "s", request, "q", None, |event, _| {
        event.application.translate_chat = true;
    });
    f.try_start(&who, command).await.unwrap()
}

fn ending(
    turn: &Turn,
    neutral: Option<&str>,
    translated: Option<&str>,
    fallback: Option<bool>,
) -> Write {
    let ending = Ending::Finalize {
        neutral: neutral.map(JsonText::from_plain),
        translated: translated.map(JsonText::from_plain),
        fallback,
    };
    let fingerprint = body(&format!("{neutral:?}{translated:?}{fallback:?}"));
    Write::Close(Arc::new(close("s", turn.turn_id, ending, fingerprint)))
}

pub async fn a_final_item_is_promoted(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, vec![item(Channel::Final, "the answer")])
        .await
        .unwrap();
    let open = f
        .ledger
        .turn(&who, &turn.session_id, turn.turn_id)
        .await
        .unwrap();
    assert_eq!(open.answer_neutral, None, "an open turn has no answer yet");
    let turn = f
        .write_turn(&who, finalize("s", turn.turn_id, None))
        .await
        .unwrap();
    assert_eq!(answers(&turn), (some("the answer"), None, false));
    let same = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("the answer")))
        .await
        .unwrap();
    assert!(same.replayed);
    let finals = f
        .items(&who, "s", 10)
        .await
        .iter()
        .filter(|i| i.body.channel == Channel::Final)
        .count();
    assert_eq!(finals, 1);
    let turn = f.start(&who, "s", "r2").await;
    f.append(&who, &turn, vec![item(Channel::Final, "kept")])
        .await
        .unwrap();
    let other = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("other")))
        .await;
    assert_eq!(code(other), ErrorCode::IdempotencyMismatch);
    let same = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("kept")))
        .await
        .unwrap();
    assert_eq!(answers(&same), (some("kept"), None, false));
    f.assert_intact().await;
}

pub async fn finalizing_without_an_answer_is_refused(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, vec![item(Channel::Partial, "not an answer")])
        .await
        .unwrap();
    assert_eq!(
        code(f.write_turn(&who, finalize("s", turn.turn_id, None)).await),
        ErrorCode::AnswerMissing
    );
}

pub async fn a_missing_translation_falls_back_to_the_neutral_answer(f: &Fixture) {
    let who = anyone();
    let turn = start_translating(f, "both").await;
    let done = f
        .write_turn(&who, ending(&turn, Some("n"), Some("t"), None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("n"), some("t"), false));
    let turn = start_translating(f, "copy").await;
    let write = ending(&turn, Some("n"), None, None);
    let done = f.write_turn(&who, write.clone()).await.unwrap();
    assert_eq!(answers(&done), (some("n"), some("n"), true));
    assert!(f.write_turn(&who, write).await.unwrap().replayed);
    let turn = start_translating(f, "promoted").await;
    f.append(&who, &turn, vec![item(Channel::Final, "n")])
        .await
        .unwrap();
    let done = f
        .write_turn(&who, ending(&turn, None, None, None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("n"), some("n"), true));
    let turn = f.start(&who, "s", "plain").await;
    let done = f
        .write_turn(&who, ending(&turn, Some("n"), None, Some(true)))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("n"), some("n"), true));
    f.assert_intact().await;
}

pub async fn a_supplied_translation_keeps_its_flag(f: &Fixture) {
    let who = anyone();
    let turn = start_translating(f, "r").await;
    let write = ending(&turn, Some("n"), Some("t"), Some(true));
    let done = f.write_turn(&who, write.clone()).await.unwrap();
    assert_eq!(answers(&done), (some("n"), some("t"), true));
    assert!(f.write_turn(&who, write).await.unwrap().replayed);
    for (request, flag) in [
        ("equal", None),
        ("flagged", Some(true)),
        ("meant", Some(false)),
    ] {
        let turn = start_translating(f, request).await;
        let write = ending(&turn, Some("n"), Some("n"), flag);
        let done = f.write_turn(&who, write).await.unwrap();
        let flagged = flag.unwrap_or(true);
        assert_eq!(answers(&done), (some("n"), some("n"), flagged), "{request}");
    }
    let turn = start_translating(f, "appended").await;
    let batch = vec![
        item(Channel::Final, "n"),
        translated(item(Channel::Final, "t")),
    ];
    f.append(&who, &turn, batch).await.unwrap();
    let done = f
        .write_turn(&who, ending(&turn, None, None, None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("n"), some("t"), false));
    let other = f
        .write_turn(&who, ending(&turn, None, Some("x"), None))
        .await;
    assert_eq!(code(other), ErrorCode::IdempotencyMismatch);
}

pub async fn a_missing_neutral_answer_is_copied(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let done = f
        .write_turn(&who, ending(&turn, None, Some("t"), None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("t"), some("t"), false));
    assert!(
        done.metadata
            .as_str()
            .contains(r#""answer_neutral_is_fallback":true"#)
    );
    f.assert_intact().await;
}

pub async fn each_variant_has_one_final_item(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let both = vec![item(Channel::Final, "n"), item(Channel::Final, "again")];
    assert_eq!(
        code(f.append(&who, &turn, both).await),
        ErrorCode::FinalExists
    );
    f.append(&who, &turn, vec![item(Channel::Final, "n")])
        .await
        .unwrap();
    let again = vec![item(Channel::Final, "again")];
    assert_eq!(
        code(f.append(&who, &turn, again).await),
        ErrorCode::FinalExists
    );
    let other = vec![translated(item(Channel::Final, "t"))];
    f.append(&who, &turn, other).await.unwrap();
    let command = start_with(&who, "s", "w", "q", Some("a"), |_, items| {
        items.push(item(Channel::Final, "b"));
    });
    assert_eq!(
        code(f.try_start(&who, command).await),
        ErrorCode::FinalExists
    );
    let done = f
        .write_turn(&who, finalize("s", turn.turn_id, None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("n"), some("t"), false));
    f.assert_intact().await;
}

pub async fn a_final_without_text_is_promoted(f: &Fixture) {
    let who = anyone();
    let turn = start_translating(f, "r").await;
    let image = RawJson::parse(r#"[{"type":"image_url","url":"x"}]"#).unwrap();
    f.append(
        &who,
        &turn,
        vec![ItemBody::new(Role::Assistant, Channel::Final, image)],
    )
    .await
    .unwrap();
    let write = close("s", turn.turn_id, answer(None), body("x"));
    let done = f
        .write_turn(&who, Write::Close(Arc::new(write)))
        .await
        .unwrap();
    assert_eq!(answers(&done), (None, None, false));
    let many =
        RawJson::parse(r#"[{"type":"text","text":"a"},{"type":"x"},{"type":"text","text":"b"}]"#);
    let turn = f.start(&who, "s", "many").await;
    let item = ItemBody::new(Role::Assistant, Channel::Final, many.unwrap());
    f.append(&who, &turn, vec![item]).await.unwrap();
    let done = f
        .write_turn(&who, finalize("s", turn.turn_id, None))
        .await
        .unwrap();
    assert_eq!(answers(&done), (some("a\nb"), None, false));
    f.assert_intact().await;
}
