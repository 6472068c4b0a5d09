//! Streams recorded into turns: cut at any position and ended in any way, what is kept verifies, and every provider
//! takes what is restored of it (P4, P5).

use std::path::{Path, PathBuf};

use filrouge_engine::restore::{RestoreQuery, Unanswered};
use filrouge_engine::stream::Ended;
use filrouge_transcode::{
    Decoder, Format, GiveUp, RecordStream, Recorder, StreamFormat, client_gone,
};
use filrouge_types::{Channel, Failure, Item, RawJson, Role, Turn, TurnStatus};
use serde_json::Value;

use crate::journal::{Journal, query};
use crate::journals::check::accepted;

/// Every stream of the fixtures, with its format.
pub(crate) fn streams() -> Vec<(PathBuf, StreamFormat, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcode/fixtures/streams");
    let mut found = Vec::new();
    for format in StreamFormat::ALL {
        let folder = root.join(format.as_str());
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.ends_with(".sse") || (name.ends_with(".json") && !name.contains("items")) {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, format, bytes));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 25, "{}", found.len());
    found
}

fn what(j: &Journal, format: StreamFormat, finalize: bool) -> RecordStream {
    RecordStream {
        session_id: j.session.clone(),
        turn_id: j.turn("r"),
        format,
        finalize,
        agent: Some("agent".into()),
    }
}

/// How a recording ends when its bytes do.
#[derive(Debug, Clone, Copy)]
enum End {
    Clean,
    Gone,
    Cancelled,
    Interrupted,
}

const ENDS: [End; 4] = [End::Clean, End::Gone, End::Cancelled, End::Interrupted];

async fn recorded(
    j: &Journal,
    format: StreamFormat,
    chunks: &[&[u8]],
    end: End,
) -> Result<Turn, Failure> {
    let mut recorder = Recorder::begin(&j.engine, &j.scope, what(j, format, true)).await?;
    for chunk in chunks {
        recorder.push(chunk).await?;
        // As if the time of a draft had passed after each chunk.
        tokio::time::advance(std::time::Duration::from_millis(250)).await;
        recorder.tick().await?;
    }
    let turn = match end {
        End::Clean => recorder.end().await,
        End::Gone => recorder.give_up(client_gone()).await,
        End::Cancelled => recorder.give_up(GiveUp::Cancelled).await,
        End::Interrupted => recorder.give_up(GiveUp::Interrupted).await,
    };
    turn.map(filrouge_engine::Recorded::into_value)
}

/// What a whole stream ends as, and its items without what differs between two recordings.
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

fn check_contexts(j: &Journal, name: &str) {
    for format in Format::ALL {
        for unanswered in [Unanswered::Drop, Unanswered::Error] {
            let asked = RestoreQuery {
                unanswered,
                ..query(format)
            };
            let context = j.context(format, asked);
            let shown = accepted(format, &context).to_string();
            // What broke off in the middle of its arguments is never sent as a call.
            assert!(!shown.contains("tool_call_partial"), "{name}: {shown}");
        }
    }
}

fn check(j: &Journal, name: &str, turn: &Turn, bytes: &[u8], format: StreamFormat) {
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
        let journal = items.iter().map(|i| i.parts.as_str());
        let kept: Vec<&str> = journal.collect();
        for part in &parts {
            assert!(kept.contains(&part.as_str()), "{name}: {part} is missing");
        }
    }
    if turn.status == TurnStatus::Failed {
        let last = items.last().unwrap();
        assert_eq!(last.channel, Channel::Error, "{name}");
        let parts: Value = serde_json::from_str(last.parts.as_str()).unwrap();
        assert!(
            parts[0]["code"].as_str().is_some_and(|c| !c.is_empty()),
            "{name}"
        );
    }
    for item in items.iter().filter(|i| i.role == Role::Assistant) {
        assert_eq!(item.agent.as_deref(), Some("agent"), "{name}");
        RawJson::parse(item.parts.as_str()).unwrap();
    }
    let drafts = j
        .engine
        .ledger()
        .drafts(&j.scope, &j.session, Default::default());
    assert_eq!(j.runtime.block_on(drafts), Ok(Vec::new()), "{name}");
    j.intact();
    check_contexts(j, name);
}

fn journal() -> Journal {
    let j = Journal::paused();
    j.start("r", "Which way?");
    j
}

/// Positions to cut at: all of a small stream, some of a large one.
fn cuts(len: usize, most: usize) -> Vec<usize> {
    let step = (len / most).max(1);
    let offset = len % step.max(2);
    let mut cuts: Vec<usize> = (0..=len).filter(|at| at % step == offset % step).collect();
    cuts.push(len);
    cuts
}

#[test]
fn cut_anywhere_and_ended_in_any_way() {
    for (path, format, bytes) in streams() {
        for (n, cut) in cuts(bytes.len(), 60).into_iter().enumerate() {
            let end = ENDS[n % ENDS.len()];
            let name = format!("{} cut at {cut} {end:?}", path.display());
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

/// What was said, thought and called, in order.
fn said(items: &[Item]) -> Vec<(Channel, String)> {
    let kept = items.iter().skip(1);
    kept.map(|i| (i.channel.clone(), i.parts.as_str().to_owned()))
        .collect()
}

#[test]
fn chunks_make_no_difference_to_the_journal() {
    for (path, format, bytes) in streams() {
        let mut journals = Vec::new();
        for size in [1, 7, 64, bytes.len().max(1)] {
            // A commit for every byte of a long stream takes its time.
            if size == 1 && bytes.len() > 3_000 {
                continue;
            }
            let j = journal();
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            j.runtime
                .block_on(recorded(&j, format, &chunks, End::Clean))
                .unwrap();
            journals.push(said(&j.items()));
        }
        for other in &journals[1..] {
            assert_eq!(other, &journals[0], "{}", path.display());
        }
    }
}
