//! Streams recorded into turns: cut at any position and ended in any way, the record verifies, and every provider accepts the
//! restored context (P4, P5).

use filrouge_engine::restore::{RestoreQuery, Unanswered};
use filrouge_engine::stream::Ended;
use filrouge_transcode::{Decoder, Format, GiveUp, RecordStream, Recorder, StreamFormat};
use filrouge_types::{Channel, Failure, Item, RawJson, Role, Turn, TurnStatus};
use serde_json::Value;

use crate::journal::{TestSession, query};
use crate::journals::check::accepted;
use crate::streams::{Stream, streams};

/// Every stream of the fixtures, with its format.
pub(crate) fn all() -> Vec<(StreamFormat, Stream)> {
    let of = |format| {
        streams(format)
            .into_iter()
            .map(move |stream| (format, stream))
    };
    StreamFormat::ALL.into_iter().flat_map(of).collect()
}

pub(crate) fn what(j: &TestSession, format: StreamFormat) -> RecordStream {
    RecordStream {
        session_id: j.session.clone(),
        turn_id: j.turn("r"),
        format,
        finalize: true,
        agent: Some("agent".into()),
    }
}

/// The end of a recording after its last byte.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Clean,
    Gone,
    Cancelled,
    Interrupted,
}

pub(crate) const ENDS: [End; 4] = [End::Clean, End::Gone, End::Cancelled, End::Interrupted];

pub(crate) async fn recorded(
    j: &TestSession,
    format: StreamFormat,
    chunks: &[&[u8]],
    end: End,
) -> Result<Turn, Failure> {
    let mut recorder = Recorder::begin(&j.engine, &j.caller, what(j, format)).await?;
    for chunk in chunks {
        recorder.push(chunk).await?;
        // Advances the clock as if a draft were due after each chunk.
        tokio::time::advance(std::time::Duration::from_millis(250)).await;
        recorder.tick().await?;
    }
    let turn = match end {
        End::Clean => recorder.end().await,
        End::Gone => recorder.give_up(GiveUp::client_gone()).await,
        End::Cancelled => recorder.give_up(GiveUp::Cancelled).await,
        End::Interrupted => recorder.give_up(GiveUp::Interrupted).await,
    };
    turn.map(filrouge_engine::Written::into_value)
}

/// The end of a complete stream, and its items without the members that differ between two recordings.
fn whole(format: StreamFormat, bytes: &[u8]) -> (Option<Ended>, Vec<String>) {
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

fn check_contexts(j: &TestSession, name: &str) {
    for format in Format::ALL {
        for unanswered in [Unanswered::Drop, Unanswered::Error] {
            let asked = RestoreQuery {
                unanswered,
                ..query(format)
            };
            let context = j.context(format, asked);
            let shown = accepted(format, &context).to_string();
            // A call that was cut off within its arguments is never sent.
            assert!(!shown.contains("tool_call_partial"), "{name}: {shown}");
        }
    }
}

fn check(j: &TestSession, name: &str, turn: &Turn, bytes: &[u8], format: StreamFormat) {
    let (ended, parts) = whole(format, bytes);
    let items = j.items();
    match (&ended, turn.status) {
        (Some(Ended::Answered), TurnStatus::Finalized)
        | (Some(Ended::Continues), TurnStatus::Open)
        | (Some(Ended::Cancelled), TurnStatus::Cancelled)
        | (Some(Ended::Failed(_)), _) => {}
        other => panic!("{name}: {other:?}"),
    }
    if matches!(ended, Some(Ended::Answered | Ended::Continues)) {
        let journal = items.iter().map(|i| i.body.parts.as_str());
        let kept: Vec<&str> = journal.collect();
        for part in &parts {
            assert!(kept.contains(&part.as_str()), "{name}: {part} is missing");
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
    let (ledger, scope) = (j.engine.ledger(), j.scope());
    let drafts = ledger.drafts(&scope, &j.session, Default::default());
    assert_eq!(j.runtime.block_on(drafts), Ok(Vec::new()), "{name}");
    j.intact();
    check_contexts(j, name);
}

/// A session whose turn waits for an answer.
pub(crate) fn journal() -> TestSession {
    let j = TestSession::paused();
    j.start("r", "Which way?");
    j
}

/// Positions to cut at: all of a small stream, some of a large one.
pub(crate) fn cuts(len: usize, most: usize) -> Vec<usize> {
    let step = (len / most).max(1);
    let offset = len % step.max(2);
    let mut cuts: Vec<usize> = (0..=len).filter(|at| at % step == offset % step).collect();
    cuts.push(len);
    cuts
}

#[test]
fn streams_cut_anywhere_and_ended_in_any_way_are_recorded() {
    for (format, Stream { name, bytes, .. }) in all() {
        for (n, cut) in cuts(bytes.len(), 20).into_iter().enumerate() {
            let end = ENDS[n % ENDS.len()];
            let name = format!("{format} {name} cut at {cut} {end:?}");
            let j = journal();
            let (head, tail) = bytes[..cut].split_at(cut / 2);
            let chunks = [head, tail];
            let turn = recorded(&j, format, &chunks, end);
            let turn = j
                .runtime
                .block_on(turn)
                .unwrap_or_else(|e| panic!("{name}: {e:?}"));
            match end {
                End::Clean => check(&j, &name, &turn, &bytes[..cut], format),
                End::Gone | End::Cancelled | End::Interrupted => {
                    j.intact();
                    check_contexts(&j, &name);
                }
            }
        }
    }
}

/// The content of all items after the question, in order.
fn contents_of(items: &[Item]) -> Vec<(Channel, String)> {
    let kept = items.iter().skip(1);
    kept.map(|i| (i.body.channel.clone(), i.body.parts.as_str().to_owned()))
        .collect()
}

#[test]
fn chunking_makes_no_difference_to_the_record() {
    for (format, Stream { name, bytes, .. }) in all() {
        let mut journals = Vec::new();
        for size in [1, 7, 64, bytes.len().max(1)] {
            // A commit for every byte of a long stream would be too slow.
            if size == 1 && bytes.len() > 3_000 {
                continue;
            }
            let j = journal();
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            j.runtime
                .block_on(recorded(&j, format, &chunks, End::Clean))
                .unwrap();
            journals.push(contents_of(&j.items()));
        }
        for other in &journals[1..] {
            assert_eq!(other, &journals[0], "{format} {name}");
        }
    }
}

/// An interrupted turn with a secret in its runtime context: text that was held back because it might have become the secret was
/// never shown, but is recorded.
#[test]
fn held_back_text_is_recorded_when_the_process_ends() {
    let j = TestSession::paused();
    let mut start = crate::journal::asking("r", "Which way?");
    start.runtime_context = Some(RawJson::from_checked(r#"{"token":"abcdefghijklmnop"}"#));
    j.try_start(start).unwrap();
    let bytes = br#"data: {"choices":[{"index":0,"delta":{"content":"To the left, abcdefgh"}}]}

"#;
    let chunks: [&[u8]; 1] = [bytes];
    let turn = recorded(&j, StreamFormat::OpenaiChat, &chunks, End::Interrupted);
    let turn = j.runtime.block_on(turn).unwrap();
    assert_eq!(turn.status, TurnStatus::Interrupted);
    let items = j.items();
    assert_eq!(
        items[1].body.parts.as_str(),
        r#"[{"type":"text","text":"To the left, abcdefgh"}]"#
    );
    j.intact();
}

/// A stream that contradicts its earlier text leaves only readable items, whenever it ends.
#[test]
fn a_repeated_text_replaces_the_one_before() {
    let events = [
        r#"{"type":"response.created","response":{"id":"r"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"abcd"}"#,
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"xyz\\\"},{\\\"type\\\":\\\"redaction\\\"} and more"}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"!"}"#,
    ];
    let frames: Vec<String> = events.iter().map(|e| format!("data: {e}\n\n")).collect();
    for end in ENDS {
        for until in 3..=events.len() {
            let j = journal();
            let chunks: Vec<&[u8]> = frames[..until].iter().map(|f| f.as_bytes()).collect();
            let turn = recorded(&j, StreamFormat::OpenaiResponses, &chunks, end);
            j.runtime.block_on(turn).unwrap();
            let items = j.items();
            for item in &items {
                RawJson::parse(item.body.parts.as_str()).unwrap();
            }
            let said = items[1].body.parts.as_str();
            let begins = if until == 3 { "abcd" } else { "xyz" };
            assert!(
                said.starts_with(&format!(r#"[{{"type":"text","text":"{begins}"#)),
                "{end:?} {until}: {said}"
            );
            assert_eq!(
                items
                    .iter()
                    .filter(|i| i.body.channel == Channel::Partial)
                    .count(),
                1
            );
            j.intact();
        }
    }
}

/// Ids and names in a draft, too, contain nothing of the runtime context.
#[test]
fn drafts_contain_no_secret() {
    let j = TestSession::paused();
    let mut start = crate::journal::asking("r", "Which way?");
    start.runtime_context = Some(RawJson::from_checked(r#"{"token":"abcdefghijklmnop"}"#));
    j.try_start(start).unwrap();
    let bytes = br#"data: {"model":"m-abcdefghijklmnop","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"id-abcdefghijklmnop","function":{"name":"n-abcdefghijklmnop","arguments":"{\"a\":"}}]}}]}

"#;
    let begun = Recorder::begin(&j.engine, &j.caller, what(&j, StreamFormat::OpenaiChat));
    let mut recorder = j.runtime.block_on(begun).unwrap();
    j.runtime.block_on(recorder.push(bytes)).unwrap();
    j.runtime.block_on(recorder.flush()).unwrap();
    let (ledger, scope) = (j.engine.ledger(), j.scope());
    let drafts = ledger.drafts(&scope, &j.session, Default::default());
    let drafts = j.runtime.block_on(drafts).unwrap();
    let reported = format!("{drafts:?}");
    assert!(reported.contains("masked:runtime_context"), "{reported}");
    assert!(!reported.contains("abcdefghijklmnop"), "{reported}");
}

/// A call's name that arrives after its id is in the next draft.
#[test]
fn a_late_name_reaches_the_draft() {
    let j = journal();
    let begun = Recorder::begin(&j.engine, &j.caller, what(&j, StreamFormat::OpenaiChat));
    let mut recorder = j.runtime.block_on(begun).unwrap();
    for delta in [
        r#"{"index":0,"id":"c1","function":{"arguments":""}}"#,
        r#"{"index":0,"function":{"name":"look","arguments":""}}"#,
    ] {
        let event = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{delta}]}}}}]}}\n\n"
        );
        j.runtime.block_on(recorder.push(event.as_bytes())).unwrap();
        j.runtime.block_on(recorder.flush()).unwrap();
    }
    j.runtime
        .block_on(recorder.give_up(GiveUp::Interrupted))
        .unwrap();
    let items = j.items();
    assert_eq!(
        items[1].body.parts.as_str(),
        r#"[{"type":"tool_call_partial","call_id":"c1","name":"look","args":""}]"#
    );
}
