//! Contents are returned byte for byte as given (DESIGN §3).

use std::sync::Arc;

use filrouge_types::{Channel, ItemBody, ItemId, JsonText, RawJson, Role, Timestamp, Variant};

use super::fixture::{Fixture, anyone, body, close, start_with};
use crate::command::{Ending, Write};

const STRANGE: [&str; 9] = [
    r#"{"b":1,"a":2,"b":3}"#,
    r#"{"n":9007199254740993,"m":1.0,"k":1,"h":1e400,"z":-0.0}"#,
    r#"{"u":"\u0000","v":"\ud800","w":"\uD83D\uDE00","x":"é"}"#,
    "{ \"spaces\" :\t[ 1 ,\n 2 ] }",
    r#"{}"#,
    r#"{"":""}"#,
    r#"{"deep":[[[[[[[[[[{"a":[{}]}]]]]]]]]]]}"#,
    r#"{"slash":"\/","solidus":"/","tab":"\t"}"#,
    r#"{"emoji":"🧵","combining":"é","han":"红线"}"#,
];

pub async fn every_byte_is_returned_unchanged(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let mut sent = Vec::new();
    for (n, strange) in STRANGE.into_iter().enumerate() {
        let json = RawJson::parse(strange).unwrap();
        sent.push(ItemBody {
            item_id: Some(ItemId::new(format!("ключ {n} 🧵")).unwrap()),
            role: Role::Tool,
            channel: Channel::from_word("my own channel"),
            variant: Variant::Translated,
            parts: RawJson::parse(&format!("[ {strange} ,{strange}]")).unwrap(),
            agent: Some("agent\n".into()),
            model: Some("".into()),
            usage: Some(json.clone()),
            metadata: Some(json),
            occurred_at: Some(Timestamp::from_micros(-62_000_000_000_000_000)),
        });
    }
    f.append(&who, &turn, sent.clone()).await.unwrap();
    assert!(
        f.append(&who, &turn, sent.clone()).await.unwrap().2,
        "and is compared byte for byte"
    );
    let got = f.items(&who, "s", 100).await;
    for (sent, got) in sent.into_iter().zip(&got[1..]) {
        assert_eq!(got.body.parts, sent.parts);
        assert_eq!(
            (&got.body.usage, &got.body.metadata),
            (&sent.usage, &sent.metadata)
        );
        assert_eq!(
            (&got.body.agent, &got.body.model, &got.body.item_id),
            (&sent.agent, &sent.model, &sent.item_id)
        );
        assert_eq!(
            (got.body.role, &got.body.channel, got.body.variant),
            (sent.role, &sent.channel, sent.variant)
        );
        assert_eq!(
            (got.body.occurred_at, got.redacted),
            (sent.occurred_at, false)
        );
    }
    f.assert_intact().await;
}

pub async fn texts_keep_their_escapes(f: &Fixture) {
    let who = anyone();
    for (n, token) in [
        r#""""#,
        r#""\u0000 \ud800""#,
        r#""caf\u00e9 \/ é""#,
        "\"\u{2028}\"",
    ]
    .into_iter()
    .enumerate()
    {
        let token: JsonText = serde_json::from_str(token).unwrap();
        let parts = RawJson::parse(&format!(
            r#"[{{"type":"text","text":{}}}]"#,
            token.as_token()
        ))
        .unwrap();
        let command = start_with(&who, "s", &format!("r{n}"), "q", None, |_, items| {
            items[0].parts = parts.clone();
        });
        let turn = f.try_start(&who, command).await.unwrap();
        assert_eq!(turn.question_neutral.as_ref(), Some(&token));
        let ending = Ending::Finalize {
            neutral: Some(token.clone()),
            translated: Some(token.clone()),
            fallback: None,
        };
        let ending = Write::Close(Arc::new(close("s", turn.turn_id, ending, body("x"))));
        let turn = f.write_turn(&who, ending).await.unwrap();
        assert_eq!(turn.answer_neutral.as_ref(), Some(&token));
        assert_eq!(turn.answer_translated.as_ref(), Some(&token));
    }
}

pub async fn metadata_is_merged_without_rewriting_values(f: &Fixture) {
    let who = anyone();
    let json = |text: &str| RawJson::parse(text).unwrap();
    let command = start_with(&who, "s", "r", "q", None, |event, _| {
        event.metadata = Some(json(r#"{"a":1.0, "b":[1,  2]}"#));
        event.application.pipeline_name = Some("pipe".into());
    });
    let turn = f.try_start(&who, command).await.unwrap();
    assert_eq!(turn.metadata.as_str(), r#"{"a":1.0, "b":[1,  2]}"#);
    let mut ending = close(
        "s",
        turn.turn_id,
        super::fixture::answer(Some("a")),
        body("x"),
    );
    ending.metadata = Some(json(r#"{"a":9007199254740993,"c":"\u0000"}"#));
    let turn = f
        .write_turn(&who, Write::Close(Arc::new(ending)))
        .await
        .unwrap();
    assert_eq!(
        turn.metadata.as_str(),
        r#"{"a":9007199254740993,"b":[1,  2],"c":"\u0000"}"#
    );
    assert_eq!(turn.application.pipeline_name.as_deref(), Some("pipe"));
}

pub async fn large_items_are_returned_unchanged(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let mut noise = 1_u64;
    let mut word = move || {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (noise >> 60) as u8)
    };
    let sent: Vec<ItemBody> = [1 << 20, 200 << 10, 10, 128 << 10, 3 << 20]
        .into_iter()
        .map(|n| super::fixture::item(Channel::Plan, &(0..n).map(|_| word()).collect::<String>()))
        .collect();
    f.append(&who, &turn, sent.clone()).await.unwrap();
    let got = f.items(&who, "s", 2).await;
    assert!(
        sent.iter()
            .zip(&got[1..])
            .all(|(s, g)| s.parts == g.body.parts)
    );
    f.assert_intact().await;
}
