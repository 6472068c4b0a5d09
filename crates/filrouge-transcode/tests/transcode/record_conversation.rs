//! Tests of streams that are recorded with `record = conversation`. For every content and end of a
//! stream, the record contains the answer, or the shown text and its end (DESIGN §7).

use filrouge_engine::{FinalizeTurn, RecordPolicies, Settings};
use filrouge_store::hot::ItemRetention;
use filrouge_transcode::StreamFormat;
use filrouge_types::{Channel, Item, JsonText, Turn, TurnStatus};

use crate::record::{ENDS, End, all_streams, cuts, open_turn, record_stream};
use crate::streams::Stream;
use crate::test_session::TestSession;

/// A session with this policy, whose turn `r` waits for an answer.
fn conversation_session() -> TestSession {
    let record = RecordPolicies {
        default: ItemRetention::Conversation,
        ..RecordPolicies::default()
    };
    let test = TestSession::paused_with(Settings {
        record,
        ..Settings::default()
    });
    test.start("r", "Which way?");
    test
}

/// Checks that only items of the conversation and empty notes of filrouge are kept.
fn check_kept(name: &str, items: &[Item]) {
    for item in items {
        let is_empty_note =
            item.body.channel == Channel::SystemNote && item.body.parts.as_str() == "[]";
        let is_kept = ItemRetention::Conversation.keeps(&item.body.channel);
        let has_call = item.body.parts.as_str().contains(r#""type":"tool_call"#);
        assert!(is_kept && !has_call || is_empty_note, "{name}: {item:?}");
    }
}

/// Checks that no draft remains.
fn check_drafts(test: &TestSession, name: &str) {
    let (ledger, scope) = (test.engine.ledger(), test.scope());
    let drafts = ledger.drafts(&scope, &test.session, Default::default());
    assert_eq!(test.runtime.block_on(drafts), Ok(Vec::new()), "{name}");
}

/// The items of a turn that the policy `conversation` keeps.
fn conversation_items(test: &TestSession) -> Vec<(Channel, String)> {
    let items = test.items().into_iter();
    items
        .filter(|i| ItemRetention::Conversation.keeps(&i.body.channel))
        .map(|i| (i.body.channel, i.body.parts.as_str().to_owned()))
        .collect()
}

fn record(
    test: &TestSession,
    format: StreamFormat,
    chunks: &[&[u8]],
    end: End,
    name: &str,
) -> Turn {
    let turn = test
        .runtime
        .block_on(record_stream(test, format, chunks, end));
    turn.unwrap_or_else(|e| panic!("{name}: {e:?}"))
}

#[test]
fn streams_cut_anywhere_with_any_end_have_the_same_outcome() {
    for (format, Stream { name, bytes, .. }) in all_streams() {
        for (index, cut) in cuts(bytes.len(), 12).into_iter().enumerate() {
            let end = ENDS[index % ENDS.len()];
            let name = format!("{format} {name} cut at {cut} {end:?}");
            let (head, tail) = bytes[..cut].split_at(cut / 2);
            let (filtered, complete) = (conversation_session(), open_turn());
            let turn = record(&filtered, format, &[head, tail], end, &name);
            let expected = record(&complete, format, &[head, tail], end, &name);
            assert_eq!(turn.status, expected.status, "{name}");
            assert_eq!(turn.answer_neutral, expected.answer_neutral, "{name}");
            let items = filtered.items();
            check_kept(&name, &items);
            if turn.status == TurnStatus::Finalized {
                assert_eq!(
                    conversation_items(&filtered),
                    conversation_items(&complete),
                    "{name}"
                );
            }
            check_drafts(&filtered, &name);
            filtered.assert_intact();
        }
    }
}

/// The usage of a response is kept even if its calls are not.
#[test]
fn tokens_of_omitted_calls_are_counted() {
    for (format, Stream { name, bytes, .. }) in all_streams() {
        let name = format!("{format} {name}");
        let (filtered, complete) = (conversation_session(), open_turn());
        record(&filtered, format, &[&bytes], End::Clean, &name);
        record(&complete, format, &[&bytes], End::Clean, &name);
        let usage = |test: &TestSession| -> Vec<_> {
            test.items()
                .into_iter()
                .filter_map(|i| i.body.usage)
                .collect()
        };
        assert_eq!(usage(&filtered), usage(&complete), "{name}");
    }
}

/// A stream with calls that have no results leaves the turn open. The caller then ends the turn.
#[test]
fn a_turn_with_only_calls_can_be_finalized() {
    let mut open_turns = 0;
    for (format, Stream { name, bytes, .. }) in all_streams() {
        let name = format!("{format} {name}");
        let test = conversation_session();
        if record(&test, format, &[&bytes], End::Clean, &name).status != TurnStatus::Open {
            continue;
        }
        open_turns += 1;
        let end = FinalizeTurn {
            answer_neutral: Some(JsonText::from_plain("To the right.")),
            ..FinalizeTurn::default()
        };
        let ended =
            test.engine
                .turns
                .finalize(&test.caller, test.session.clone(), test.turn_id("r"), end);
        let turn = test.runtime.block_on(ended).unwrap();
        assert_eq!(turn.status, TurnStatus::Finalized, "{name}");
        check_kept(&name, &test.items());
        assert!(
            !test.engine.upkeep.counters().items.all().is_empty(),
            "{name}"
        );
    }
    assert!(open_turns > 2, "only {open_turns} streams wait for answers");
}

/// A second answer is an observation. The policy does not keep it, but the recording ends.
#[test]
fn a_second_answer_ends_its_recording() {
    let test = conversation_session();
    let parts = filrouge_types::RawJson::from_checked(r#"[{"type":"text","text":"Right."}]"#);
    let answer =
        filrouge_types::ItemBody::new(filrouge_types::Role::Assistant, Channel::Final, parts);
    test.try_append("r", vec![answer]).unwrap();
    let bytes = br#"data: {"choices":[{"index":0,"delta":{"content":"Left."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}

data: [DONE]

"#;
    let turn = record(
        &test,
        StreamFormat::OpenaiChat,
        &[bytes],
        End::Clean,
        "second",
    );
    assert_eq!(turn.status, TurnStatus::Open);
    check_drafts(&test, "second");
    let channels: Vec<_> = test
        .items()
        .iter()
        .map(|i| i.body.channel.as_str().to_owned())
        .collect();
    assert_eq!(channels, ["question", "final", "system_note"]);
    assert!(test.items()[2].body.usage.is_some());
    let end = FinalizeTurn::default();
    let ended =
        test.engine
            .turns
            .finalize(&test.caller, test.session.clone(), test.turn_id("r"), end);
    assert_eq!(
        test.runtime.block_on(ended).unwrap().status,
        TurnStatus::Finalized
    );
}

/// The end of a turn records the text of its draft. The draft has no calls, and drops the text before a call.
#[test]
fn drafts_contain_only_text_that_may_be_the_answer() {
    let text = br#"data: {"choices":[{"index":0,"delta":{"content":"Let me look."}}]}

"#;
    let call = br#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{\"a\":"}}]}}]}

"#;
    let chunks: [(&[&[u8]], &[&str]); 3] = [
        (&[text], &["question", "partial", "interrupted"]),
        (&[text, call], &["question", "interrupted"]),
        (
            &[&[text.as_slice(), call].concat()],
            &["question", "interrupted"],
        ),
    ];
    for (chunks, expected) in chunks {
        let test = conversation_session();
        let turn = record(
            &test,
            StreamFormat::OpenaiChat,
            chunks,
            End::Interrupted,
            "draft",
        );
        assert_eq!(turn.status, TurnStatus::Interrupted);
        let items = test.items();
        let channels: Vec<_> = items.iter().map(|i| i.body.channel.as_str()).collect();
        assert_eq!(channels, expected, "{} chunks", chunks.len());
    }
}
