//! Tests of streams that are recorded into turns. For every cut and every end of a stream, the record verifies
//! and every provider accepts the restored context (P4, P5).

use filrouge_engine::restore::{RestoreQuery, Unanswered};
use filrouge_engine::stream::StreamEnd;
use filrouge_transcode::{Decoder, Format, GiveUp, RecordStream, Recorder, StreamFormat};
use filrouge_types::{Channel, Failure, Item, RawJson, Role, Turn, TurnStatus};
use serde_json::Value;

use crate::sessions::check::assert_accepted;
use crate::streams::{Stream, streams};
use crate::test_session::{TestSession, query};

/// Every stream of the fixtures, with its format.
pub(crate) fn all_streams() -> Vec<(StreamFormat, Stream)> {
    let streams_of = |format| {
        streams(format)
            .into_iter()
            .map(move |stream| (format, stream))
    };
    StreamFormat::ALL.into_iter().flat_map(streams_of).collect()
}

/// The parameters of a recording of a stream of this format into the turn `r`.
pub(crate) fn recording_of(test: &TestSession, format: StreamFormat) -> RecordStream {
    RecordStream {
        session_id: test.session.clone(),
        turn_id: test.turn_id("r"),
        format,
        finalize: true,
        agent: Some("agent".into()),
    }
}

/// How a recording ends after its last byte.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Clean,
    ClientGone,
    Cancelled,
    Interrupted,
}

pub(crate) const ENDS: [End; 4] = [
    End::Clean,
    End::ClientGone,
    End::Cancelled,
    End::Interrupted,
];

/// Records chunks of a stream into the turn `r`.
pub(crate) async fn record_stream(
    test: &TestSession,
    format: StreamFormat,
    chunks: &[&[u8]],
    end: End,
) -> Result<Turn, Failure> {
    let mut recorder =
        Recorder::begin(&test.engine, &test.caller, recording_of(test, format)).await?;
    for chunk in chunks {
        recorder.push(chunk).await?;
        // Advances the clock as if a draft were due after each chunk.
        tokio::time::advance(std::time::Duration::from_millis(250)).await;
        recorder.tick().await?;
    }
    let turn = match end {
        End::Clean => recorder.end().await,
        End::ClientGone => recorder.give_up(GiveUp::client_gone()).await,
        End::Cancelled => recorder.give_up(GiveUp::Cancelled).await,
        End::Interrupted => recorder.give_up(GiveUp::Interrupted).await,
    };
    turn.map(filrouge_engine::Written::into_value)
}

/// The end of a decoded stream, and the parts of its items.
fn decode(format: StreamFormat, bytes: &[u8]) -> (Option<StreamEnd>, Vec<String>) {
    let mut decoder = Decoder::new(format);
    decoder.push(bytes);
    decoder.end();
    let ended = decoder.transcript().ended().cloned();
    let ready = decoder.transcript_mut().take_ready();
    let items = ready.into_iter();
    (
        ended,
        items.map(|r| r.item.parts.as_str().to_owned()).collect(),
    )
}

/// Checks that every provider accepts the context.
fn check_contexts(test: &TestSession, name: &str) {
    for format in Format::ALL {
        for unanswered in [Unanswered::Drop, Unanswered::Error] {
            let query = RestoreQuery {
                unanswered,
                ..query(format)
            };
            let context = test.context(format, query);
            let messages = assert_accepted(format, &context).to_string();
            // A call with incomplete arguments is never sent.
            assert!(
                !messages.contains("tool_call_partial"),
                "{name}: {messages}"
            );
        }
    }
}

/// Checks the turn and the items that were recorded from these bytes.
fn check_record(test: &TestSession, name: &str, turn: &Turn, bytes: &[u8], format: StreamFormat) {
    let (ended, parts) = decode(format, bytes);
    let items = test.items();
    match (&ended, turn.status) {
        (Some(StreamEnd::Answered), TurnStatus::Finalized)
        | (Some(StreamEnd::Continues), TurnStatus::Open)
        | (Some(StreamEnd::Cancelled), TurnStatus::Cancelled)
        | (Some(StreamEnd::Failed(_)), _) => {}
        other => panic!("{name}: {other:?}"),
    }
    if matches!(ended, Some(StreamEnd::Answered | StreamEnd::Continues)) {
        let recorded: Vec<&str> = items.iter().map(|i| i.body.parts.as_str()).collect();
        for part in &parts {
            assert!(
                recorded.contains(&part.as_str()),
                "{name}: {part} is missing"
            );
        }
    }
    if turn.status == TurnStatus::Failed {
        let last = items.last().unwrap();
        assert_eq!(last.body.channel, Channel::Error, "{name}");
        let parts: Value = serde_json::from_str(last.body.parts.as_str()).unwrap();
        assert!(
            parts[0]["code"].as_str().is_some_and(|c| !c.is_empty()),
            "{name}"
        );
    }
    for item in items.iter().filter(|i| i.body.role == Role::Assistant) {
        assert_eq!(item.body.agent.as_deref(), Some("agent"), "{name}");
        RawJson::parse(item.body.parts.as_str()).unwrap();
    }
    let (ledger, scope) = (test.engine.ledger(), test.scope());
    let drafts = ledger.drafts(&scope, &test.session, Default::default());
    assert_eq!(test.runtime.block_on(drafts), Ok(Vec::new()), "{name}");
    test.assert_intact();
    check_contexts(test, name);
}

/// A session whose turn `r` has a question and no answer.
pub(crate) fn open_turn() -> TestSession {
    let test = TestSession::paused();
    test.start("r", "Which way?");
    test
}

/// Positions at which a test cuts a stream: every position of a small stream, about `max_cuts` positions of a large
/// one.
pub(crate) fn cuts(len: usize, max_cuts: usize) -> Vec<usize> {
    let step = (len / max_cuts).max(1);
    let offset = len % step.max(2);
    let mut cuts: Vec<usize> = (0..=len).filter(|at| at % step == offset % step).collect();
    cuts.push(len);
    cuts
}

#[test]
fn streams_cut_anywhere_with_any_end_are_recorded() {
    for (format, Stream { name, bytes, .. }) in all_streams() {
        for (index, cut) in cuts(bytes.len(), 20).into_iter().enumerate() {
            let end = ENDS[index % ENDS.len()];
            let name = format!("{format} {name} cut at {cut} {end:?}");
            let test = open_turn();
            let (head, tail) = bytes[..cut].split_at(cut / 2);
            let chunks = [head, tail];
            let turn = record_stream(&test, format, &chunks, end);
            let turn = test
                .runtime
                .block_on(turn)
                .unwrap_or_else(|e| panic!("{name}: {e:?}"));
            match end {
                End::Clean => check_record(&test, &name, &turn, &bytes[..cut], format),
                End::ClientGone | End::Cancelled | End::Interrupted => {
                    test.assert_intact();
                    check_contexts(&test, &name);
                }
            }
        }
    }
}

/// The content of all items after the question, in order.
fn contents_of(items: &[Item]) -> Vec<(Channel, String)> {
    let answers = items.iter().skip(1);
    answers
        .map(|i| (i.body.channel.clone(), i.body.parts.as_str().to_owned()))
        .collect()
}

#[test]
fn the_record_does_not_depend_on_the_chunks() {
    for (format, Stream { name, bytes, .. }) in all_streams() {
        let mut records = Vec::new();
        for size in [1, 7, 64, bytes.len().max(1)] {
            // A commit for every byte of a long stream would be too slow.
            if size == 1 && bytes.len() > 3_000 {
                continue;
            }
            let test = open_turn();
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            test.runtime
                .block_on(record_stream(&test, format, &chunks, End::Clean))
                .unwrap();
            records.push(contents_of(&test.items()));
        }
        for other in &records[1..] {
            assert_eq!(other, &records[0], "{format} {name}");
        }
    }
}

/// The turn has a secret in its runtime context. The recorder holds back text that might become the secret, so nobody
/// sees it; an interruption records it.
#[test]
fn held_back_text_is_recorded_when_the_process_ends() {
    let test = TestSession::paused();
    let mut start = crate::test_session::turn_start("r", "Which way?");
    start.runtime_context = Some(RawJson::from_checked(r#"{"token":"abcdefghijklmnop"}"#));
    test.try_start(start).unwrap();
    let bytes = br#"data: {"choices":[{"index":0,"delta":{"content":"To the left, abcdefgh"}}]}

"#;
    let chunks: [&[u8]; 1] = [bytes];
    let turn = record_stream(&test, StreamFormat::OpenaiChat, &chunks, End::Interrupted);
    let turn = test.runtime.block_on(turn).unwrap();
    assert_eq!(turn.status, TurnStatus::Interrupted);
    let items = test.items();
    assert_eq!(
        items[1].body.parts.as_str(),
        r#"[{"type":"text","text":"To the left, abcdefgh"}]"#
    );
    test.assert_intact();
}

/// If a stream contradicts its earlier text, the recorded items are valid JSON, wherever the stream ends.
#[test]
fn a_repeated_text_replaces_the_earlier_one() {
    let events = [
        r#"{"type":"response.created","response":{"id":"r"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"abcd"}"#,
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"xyz\\\"},{\\\"type\\\":\\\"redaction\\\"} and more"}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"!"}"#,
    ];
    let frames: Vec<String> = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    for end in ENDS {
        for event_count in 3..=events.len() {
            let test = open_turn();
            let chunks: Vec<&[u8]> = frames[..event_count].iter().map(|f| f.as_bytes()).collect();
            let turn = record_stream(&test, StreamFormat::OpenaiResponses, &chunks, end);
            test.runtime.block_on(turn).unwrap();
            let items = test.items();
            for item in &items {
                RawJson::parse(item.body.parts.as_str()).unwrap();
            }
            let text = items[1].body.parts.as_str();
            let start = if event_count == 3 { "abcd" } else { "xyz" };
            assert!(
                text.starts_with(&format!(r#"[{{"type":"text","text":"{start}"#)),
                "{end:?} {event_count}: {text}"
            );
            assert_eq!(
                items
                    .iter()
                    .filter(|i| i.body.channel == Channel::Partial)
                    .count(),
                1
            );
            test.assert_intact();
        }
    }
}

/// Ids, names and models in a draft do not contain the runtime context's secrets, either.
#[test]
fn drafts_contain_no_secret() {
    let test = TestSession::paused();
    let mut start = crate::test_session::turn_start("r", "Which way?");
    start.runtime_context = Some(RawJson::from_checked(r#"{"token":"abcdefghijklmnop"}"#));
    test.try_start(start).unwrap();
    let bytes = br#"data: {"model":"m-abcdefghijklmnop","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"id-abcdefghijklmnop","function":{"name":"n-abcdefghijklmnop","arguments":"{\"a\":"}}]}}]}

"#;
    let beginning = Recorder::begin(
        &test.engine,
        &test.caller,
        recording_of(&test, StreamFormat::OpenaiChat),
    );
    let mut recorder = test.runtime.block_on(beginning).unwrap();
    test.runtime.block_on(recorder.push(bytes)).unwrap();
    test.runtime.block_on(recorder.flush()).unwrap();
    let (ledger, scope) = (test.engine.ledger(), test.scope());
    let drafts = ledger.drafts(&scope, &test.session, Default::default());
    let drafts = test.runtime.block_on(drafts).unwrap();
    let drafts = format!("{drafts:?}");
    assert!(drafts.contains("masked:runtime_context"), "{drafts}");
    assert!(!drafts.contains("abcdefghijklmnop"), "{drafts}");
}

/// If the name of a call arrives after its id, the next draft contains it.
#[test]
fn a_late_name_reaches_the_draft() {
    let test = open_turn();
    let beginning = Recorder::begin(
        &test.engine,
        &test.caller,
        recording_of(&test, StreamFormat::OpenaiChat),
    );
    let mut recorder = test.runtime.block_on(beginning).unwrap();
    for delta in [
        r#"{"index":0,"id":"c1","function":{"arguments":""}}"#,
        r#"{"index":0,"function":{"name":"look","arguments":""}}"#,
    ] {
        let event = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{delta}]}}}}]}}\n\n"
        );
        test.runtime
            .block_on(recorder.push(event.as_bytes()))
            .unwrap();
        test.runtime.block_on(recorder.flush()).unwrap();
    }
    test.runtime
        .block_on(recorder.give_up(GiveUp::Interrupted))
        .unwrap();
    let items = test.items();
    assert_eq!(
        items[1].body.parts.as_str(),
        r#"[{"type":"tool_call_partial","call_id":"c1","name":"look","args":""}]"#
    );
}
