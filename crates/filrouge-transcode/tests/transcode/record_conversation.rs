//! Streams recorded under `record = conversation`: whatever a stream contains and however it ends, the record holds the answer,
//! or the text that was shown and how it ended (DESIGN §7).

use filrouge_engine::{FinalizeTurn, RecordPolicies, Settings};
use filrouge_store::hot::ItemRetention;
use filrouge_transcode::StreamFormat;
use filrouge_types::{Channel, Item, JsonText, Turn, TurnStatus};

use crate::journal::TestSession;
use crate::record::{ENDS, End, all, cuts, journal, recorded};
use crate::streams::Stream;

fn conversation() -> TestSession {
    let record = RecordPolicies {
        default: ItemRetention::Conversation,
        ..RecordPolicies::default()
    };
    let j = TestSession::paused_with(Settings {
        record,
        ..Settings::default()
    });
    j.start("r", "Which way?");
    j
}

/// Checks that only items of the conversation are kept, and filrouge's own notes, which have no text.
fn check_kept(name: &str, items: &[Item]) {
    for item in items {
        let note = item.body.channel == Channel::SystemNote && item.body.parts.as_str() == "[]";
        let kept = ItemRetention::Conversation.keeps(&item.body.channel);
        let call = item.body.parts.as_str().contains(r#""type":"tool_call"#);
        assert!(kept && !call || note, "{name}: {item:?}");
    }
}

fn check_drafts(j: &TestSession, name: &str) {
    let (ledger, scope) = (j.engine.ledger(), j.scope());
    let drafts = ledger.drafts(&scope, &j.session, Default::default());
    assert_eq!(j.runtime.block_on(drafts), Ok(Vec::new()), "{name}");
}

/// The part of a completely recorded turn that this policy keeps.
fn kept_of_all(j: &TestSession) -> Vec<(Channel, String)> {
    let items = j.items().into_iter();
    items
        .filter(|i| ItemRetention::Conversation.keeps(&i.body.channel))
        .map(|i| (i.body.channel, i.body.parts.as_str().to_owned()))
        .collect()
}

fn record(j: &TestSession, format: StreamFormat, chunks: &[&[u8]], end: End, name: &str) -> Turn {
    let turn = j.runtime.block_on(recorded(j, format, chunks, end));
    turn.unwrap_or_else(|e| panic!("{name}: {e:?}"))
}

#[test]
fn streams_cut_anywhere_and_ended_in_any_way_have_the_same_outcome() {
    for (format, Stream { name, bytes, .. }) in all() {
        for (n, cut) in cuts(bytes.len(), 12).into_iter().enumerate() {
            let end = ENDS[n % ENDS.len()];
            let name = format!("{format} {name} cut at {cut} {end:?}");
            let (head, tail) = bytes[..cut].split_at(cut / 2);
            let (filtered, complete) = (conversation(), journal());
            let turn = record(&filtered, format, &[head, tail], end, &name);
            let other = record(&complete, format, &[head, tail], end, &name);
            assert_eq!(turn.status, other.status, "{name}");
            assert_eq!(turn.answer_neutral, other.answer_neutral, "{name}");
            let items = filtered.items();
            check_kept(&name, &items);
            if turn.status == TurnStatus::Finalized {
                assert_eq!(kept_of_all(&filtered), kept_of_all(&complete), "{name}");
            }
            check_drafts(&filtered, &name);
            filtered.intact();
        }
    }
}

/// The usage at a response's end is kept even if its calls are not.
#[test]
fn tokens_of_omitted_calls_are_counted() {
    for (format, Stream { name, bytes, .. }) in all() {
        let name = format!("{format} {name}");
        let (filtered, complete) = (conversation(), journal());
        record(&filtered, format, &[&bytes], End::Clean, &name);
        record(&complete, format, &[&bytes], End::Clean, &name);
        let usage = |j: &TestSession| -> Vec<_> {
            j.items().into_iter().filter_map(|i| i.body.usage).collect()
        };
        assert_eq!(usage(&filtered), usage(&complete), "{name}");
    }
}

/// A stream that waits for answers to its calls leaves the turn open for the caller, who ends it.
#[test]
fn a_turn_of_calls_can_be_ended() {
    let mut waited = 0;
    for (format, Stream { name, bytes, .. }) in all() {
        let name = format!("{format} {name}");
        let j = conversation();
        if record(&j, format, &[&bytes], End::Clean, &name).status != TurnStatus::Open {
            continue;
        }
        waited += 1;
        let end = FinalizeTurn {
            answer_neutral: Some(JsonText::from_plain("To the right.")),
            ..FinalizeTurn::default()
        };
        let ended = j
            .engine
            .turns
            .finalize(&j.caller, j.session.clone(), j.turn("r"), end);
        let turn = j.runtime.block_on(ended).unwrap();
        assert_eq!(turn.status, TurnStatus::Finalized, "{name}");
        check_kept(&name, &j.items());
        assert!(!j.engine.upkeep.counters().items.all().is_empty(), "{name}");
    }
    assert!(waited > 2, "{waited}");
}

/// A second answer is an observation, which is not kept; the recording still ends.
#[test]
fn a_second_answer_ends_its_recording() {
    let j = conversation();
    let parts = filrouge_types::RawJson::from_checked(r#"[{"type":"text","text":"Right."}]"#);
    let answer =
        filrouge_types::ItemBody::new(filrouge_types::Role::Assistant, Channel::Final, parts);
    j.try_append("r", vec![answer]).unwrap();
    let bytes = br#"data: {"choices":[{"index":0,"delta":{"content":"Left."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}

data: [DONE]

"#;
    let turn = record(&j, StreamFormat::OpenaiChat, &[bytes], End::Clean, "second");
    assert_eq!(turn.status, TurnStatus::Open);
    check_drafts(&j, "second");
    let words: Vec<_> = j
        .items()
        .iter()
        .map(|i| i.body.channel.as_str().to_owned())
        .collect();
    assert_eq!(words, ["question", "final", "system_note"]);
    assert!(j.items()[2].body.usage.is_some());
    let end = FinalizeTurn::default();
    let ended = j
        .engine
        .turns
        .finalize(&j.caller, j.session.clone(), j.turn("r"), end);
    assert_eq!(
        j.runtime.block_on(ended).unwrap().status,
        TurnStatus::Finalized
    );
}

/// The end of a turn records the text of its draft: the draft has no calls, and drops the text before them.
#[test]
fn drafts_hold_what_may_be_the_answer() {
    let said = br#"data: {"choices":[{"index":0,"delta":{"content":"Let me look."}}]}

"#;
    let called = br#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{\"a\":"}}]}}]}

"#;
    let chunks: [(&[&[u8]], &[&str]); 3] = [
        (&[said], &["question", "partial", "interrupted"]),
        (&[said, called], &["question", "interrupted"]),
        (
            &[&[said.as_slice(), called].concat()],
            &["question", "interrupted"],
        ),
    ];
    for (chunks, expected) in chunks {
        let j = conversation();
        let turn = record(
            &j,
            StreamFormat::OpenaiChat,
            chunks,
            End::Interrupted,
            "draft",
        );
        assert_eq!(turn.status, TurnStatus::Interrupted);
        let items = j.items();
        let words: Vec<_> = items.iter().map(|i| i.body.channel.as_str()).collect();
        assert_eq!(words, expected, "{} chunks", chunks.len());
    }
}
