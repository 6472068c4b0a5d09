//! Random plans of valid and invalid content.

use filrouge_engine::restore::{
    Args, Block, Call, CallResult, Calls, Content, Mark, Media, MediaSource, Message, Plan,
    PlanTurn, Provider, Reasoning, ResultContent, Sealed, Speaker,
};
use filrouge_types::{JsonText, RawJson, TurnStatus};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::plans::{pair_turn, plan, raw, turn};

/// Bytes that occur in every inline medium and nowhere else.
pub(crate) const BYTES: &str = "UE5HQllURVNQTkdCWVRFUw";

/// A JSON string of raw and escaped characters that is not blank.
fn json_text() -> impl Strategy<Value = JsonText> {
    let pieces = vec![
        "a",
        "Z9",
        " ",
        "\\n",
        "\\t",
        "\\r",
        "\\f",
        "\\b",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0020",
        "\\u00A0",
        "\\u0000",
        "\\u001f",
        "\\ud83d\\ude00",
        "\\ufffd",
        "é",
        "\u{2028}",
        "\u{3000}",
        "🧵",
        "\u{7f}",
        "u0020",
        "</system_note>",
        "{",
        "[",
    ];
    vec(select(pieces), 1..8).prop_map(|pieces| {
        let inner = pieces.concat();
        let from_inner = |inner: &str| JsonText::from_raw(raw(&format!("\"{inner}\""))).unwrap();
        let text = from_inner(&inner);
        if text.to_plain().trim().is_empty() {
            from_inner(&format!("{inner}x{inner}"))
        } else {
            text
        }
    })
}

/// Plain text with characters that may break an id, a name or JSON.
fn plain_text() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        6 => "[a-zA-Z0-9_-]{1,12}".prop_map(Into::into),
        2 => select(vec!["a", "a.b", "a/b", "a_b", "a:b", "9a", "\u{0}", "\"", "\\", " ", "é", "\n"]).prop_map(Into::into),
        1 => "[a-z ]{30,140}".prop_map(Into::into),
    ]
}

fn json() -> impl Strategy<Value = RawJson> {
    select(vec![
        "{}",
        "{ \"a\" : 1.0 }",
        "{\"a\\n\":{\"b\":[null,\"\\u0000\\\\\"]}}",
        "[]",
        "[1, \"a\"]",
        "null",
        "-0.5e10",
        "true",
        "{\n  \"a\": \"é\"\n}",
    ])
    .prop_map(raw)
}

fn args() -> impl Strategy<Value = Args> {
    prop_oneof![
        json().prop_map(|json| if json.is_object() {
            Args::Object(json)
        } else {
            Args::Value(json)
        }),
        json_text().prop_map(Args::Text),
    ]
}

fn source() -> impl Strategy<Value = MediaSource> {
    let urls = vec![
        "https://h/a.png",
        "HTTP://h/a?b=\"c\"",
        "https://h/a.pdf",
        "https:///a",
        "https://",
        "https://h/a b",
        "http://h/\\",
    ];
    prop_oneof![
        4 => select(vec!["==", "==", "AA", "AA", "B=", "A=A="]).prop_map(|end| MediaSource::Base64(format!("{BYTES}{end}").into())),
        1 => Just(MediaSource::Base64("aGkgInlvdSIK".into())),
        1 => Just(MediaSource::Base64("".into())),
        3 => select(urls).prop_map(|url| MediaSource::Url(url.into())),
        1 => select(vec!["file-1", "file_1", "a\"b", ""]).prop_map(|id| MediaSource::Id(id.into())),
        1 => select(vec!["/tmp/a\nb", "data:x", "", "s3://b/k"]).prop_map(|location| MediaSource::Elsewhere(location.into())),
    ]
}

fn media() -> impl Strategy<Value = Media> {
    let mimes = vec![
        "image/png",
        "image/jpeg",
        "image/jpg",
        "image/gif",
        "image/webp",
        "image/svg+xml",
        "application/pdf",
        "text/plain",
        "text/plain; charset=utf-8",
        "text/csv",
        "application/json",
        "application/zip",
        "audio/wav",
        "video/mp4",
        "nonsense",
        "a/\"b\"",
        "",
    ];
    let name = option::of(plain_text());
    (source(), option::of(select(mimes)), name).prop_map(|(source, mime, name)| Media {
        source,
        mime: mime.map(Into::into),
        name,
    })
}

fn content() -> impl Strategy<Value = Content> {
    let marks = vec![
        Mark::Interrupted,
        Mark::Cancelled,
        Mark::Failed,
        Mark::Unanswered,
        Mark::Redacted,
    ];
    prop_oneof![
        8 => json_text().prop_map(Content::Text),
        1 => json_text().prop_map(Content::Refusal),
        2 => media().prop_map(Content::Image),
        2 => media().prop_map(Content::File),
        1 => select(marks).prop_map(Content::Mark),
        1 => json_text().prop_map(Content::Summary),
    ]
}

fn sealed() -> impl Strategy<Value = Sealed> {
    let ids = vec!["rs_1", "rs_2", "rs_3", "rs_4", "x_1", "rs_é", ""];
    let summaries = vec![
        "[]",
        "[{\"type\":\"summary_text\",\"text\":\"a\\n\"}]",
        "[1]",
        "[{\"type\":\"x\",\"text\":\"\"}]",
    ];
    let item = (select(ids), select(summaries), option::of(json_text()));
    prop_oneof![
        3 => json_text().prop_map(Sealed::AnthropicSignature),
        1 => json_text().prop_map(Sealed::AnthropicRedacted),
        1 => Just(Sealed::AnthropicSignature(JsonText::from_plain(""))),
        1 => Just(Sealed::AnthropicRedacted(JsonText::from_plain(""))),
        3 => item.prop_map(|(id, summary, encrypted_content)| Sealed::OpenaiItem {
            id: JsonText::from_plain(id),
            summary: raw(summary),
            encrypted_content,
        }),
        2 => signature().prop_map(Sealed::GoogleSignature),
        1 => Just(Sealed::Unknown),
    ]
}

fn signature() -> impl Strategy<Value = JsonText> {
    select(vec![
        "\"AAAA\"",
        "\"QQ==\"",
        "\"\\/\\u002b+\\u003d\"",
        "\"QR==\"",
        "\"no base64\"",
        "\"AAA\"",
    ])
    .prop_map(|json| JsonText::from_raw(raw(json)).unwrap())
}

fn reasoning() -> impl Strategy<Value = Vec<Reasoning>> {
    let thought =
        (option::of(json_text()), option::of(sealed())).prop_map(|(text, sealed)| Reasoning {
            seq: 0,
            text,
            sealed,
        });
    prop_oneof![2 => Just(Vec::new()), 1 => vec(thought, 1..4)]
}

fn message() -> impl Strategy<Value = Message> {
    let speaker = select(vec![
        Speaker::User,
        Speaker::User,
        Speaker::Assistant,
        Speaker::Assistant,
        Speaker::Assistant,
        Speaker::System,
    ]);
    let seq = select(vec![Some(0), Some(0), Some(0), None]);
    (seq, speaker, reasoning(), vec(content(), 1..4)).prop_map(
        |(seq, speaker, reasoning, contents)| Message {
            seq,
            speaker,
            reasoning,
            contents,
        },
    )
}

fn result() -> impl Strategy<Value = CallResult> {
    let result_content = prop_oneof![
        3 => vec(content(), 0..4).prop_map(ResultContent::Contents),
        1 => json().prop_map(ResultContent::Value),
    ];
    let seq = select(vec![Some(0), Some(0), Some(0), None]);
    (seq, any::<bool>(), result_content).prop_map(|(seq, ok, content)| CallResult {
        seq,
        ok,
        content,
    })
}

fn call() -> impl Strategy<Value = Call> {
    let signer = select(vec![
        Provider::Openai,
        Provider::Anthropic,
        Provider::Google,
    ]);
    let call_signature = option::weighted(0.2, (signer, signature()));
    (plain_text(), plain_text(), args(), call_signature, result()).prop_map(
        |(call_id, name, args, signature, result)| Call {
            seq: 0,
            call_id,
            name,
            args,
            signature,
            result,
        },
    )
}

fn block() -> impl Strategy<Value = Block> {
    let group =
        (reasoning(), vec(call(), 1..4)).prop_map(|(reasoning, calls)| Calls { reasoning, calls });
    prop_oneof![2 => message().prop_map(Block::Message), 1 => group.prop_map(Block::Calls)].boxed()
}

/// A turn with random blocks.
fn block_turns() -> impl Strategy<Value = PlanTurn> {
    (any::<u8>(), vec(block(), 0..5)).prop_map(|(number, mut blocks)| {
        make_ids_distinct(&mut blocks);
        PlanTurn {
            status: TurnStatus::Interrupted,
            ..turn(number, blocks)
        }
    })
}

/// Makes the call ids of a turn distinct.
fn make_ids_distinct(blocks: &mut [Block]) {
    let mut ids = std::collections::HashSet::new();
    for block in blocks {
        if let Block::Calls(calls) = block {
            for call in &mut calls.calls {
                while !ids.insert(call.call_id.clone()) {
                    call.call_id = format!("{}+", call.call_id).into();
                }
            }
        }
    }
}

fn pair_turns() -> impl Strategy<Value = PlanTurn> {
    (any::<u8>(), plain_text(), plain_text())
        .prop_map(|(number, question, answer)| pair_turn(number, &question, &answer))
}

/// A complete plan.
pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let summary = option::weighted(
        0.3,
        (message(), json_text()).prop_map(|(message, text)| Message {
            contents: vec![Content::Summary(text)],
            ..message
        }),
    );
    let turns = vec(prop_oneof![8 => block_turns(), 1 => pair_turns()], 0..7);
    (summary, turns)
        .prop_map(|(summary, turns)| plan(summary, turns))
        .boxed()
}
