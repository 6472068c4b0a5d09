//! The drafts of a diagnosis.

use filrouge_store::draft::{self, PieceKind, assemble, chars};
use filrouge_store::read::DraftNews;
use filrouge_types::{JsonText, RawJson, Timestamp};

use super::report::{Diagnosis, Draft, DraftPiece, Recorder, age_ms};

/// Adds a draft to the diagnosis: its text, and the recorder of its turn.
pub(super) fn add(diagnosis: &mut Diagnosis, news: DraftNews) {
    let turn = diagnosis
        .pending
        .iter_mut()
        .find(|turn| turn.turn_id == news.turn_id);
    if let Some(turn) = turn {
        turn.recorder = Some(recorder(&news, diagnosis.at));
    }
    let pieces = assemble(news.deltas).unwrap_or_default();
    let pieces: Vec<DraftPiece> = pieces.into_iter().map(piece).collect();
    diagnosis.drafts.push(Draft {
        turn_id: news.turn_id,
        stream: news.stream.to_string(),
        beat_at: news.beat_at,
        chunk: news.chunk,
        chars: pieces.iter().map(|p| p.chars).sum(),
        pieces,
    });
}

fn recorder(news: &DraftNews, now: Timestamp) -> Recorder {
    Recorder {
        stream: news.stream.to_string(),
        writer: news.writer.clone(),
        begun_at: news.begun_at,
        beat_at: news.beat_at,
        beat_age_ms: age_ms(now, news.beat_at),
        // `Context::diagnose` finds this out afterwards.
        gone: false,
    }
}

fn piece(piece: draft::DraftPiece) -> DraftPiece {
    let draft::DraftPiece { head, text, .. } = piece;
    // A draft that is read without verification may contain invalid JSON.
    let decoded = || {
        let json = RawJson::parse(&format!("\"{text}\"")).ok()?;
        JsonText::from_raw(json).ok()
    };
    let is_complete = head.kind == PieceKind::Complete;
    let call = head.kind == PieceKind::ToolCall;
    let (call_id, name) = head.call.unzip();
    DraftPiece {
        number: piece.number,
        part: piece.part,
        kind: head.kind.as_str(),
        role: head.role,
        channel: head.channel,
        agent: head.agent,
        model: head.model,
        done: piece.done,
        chars: if is_complete { 0 } else { chars(&text) },
        text: decoded().filter(|_| !is_complete && !call),
        call_id,
        name,
        args: decoded().filter(|_| call),
        value: RawJson::parse(&text).ok().filter(|_| is_complete),
    }
}
