//! The drafts of a diagnosis.

use filrouge_store::draft::{self, PieceKind, assemble, chars};
use filrouge_store::read::DraftUpdate;
use filrouge_types::{JsonText, RawJson};

use super::report::{Diagnosis, Draft, DraftPiece, Recorder, age_ms};

/// Adds a draft to the diagnosis: its text, and the recorder of its turn.
pub(super) fn add_draft(diagnosis: &mut Diagnosis, update: DraftUpdate) {
    let turn = diagnosis
        .pending
        .iter_mut()
        .find(|turn| turn.turn_id == update.turn_id);
    if let Some(turn) = turn {
        turn.recorder = Some(Recorder {
            stream: update.stream.to_string(),
            writer: update.writer,
            begun_at: update.begun_at,
            beat_at: update.beat_at,
            beat_age_ms: age_ms(diagnosis.at, update.beat_at),
            // `Context::diagnose` sets this afterwards.
            gone: false,
        });
    }
    let pieces = assemble(update.deltas).unwrap_or_default();
    let pieces: Vec<DraftPiece> = pieces.into_iter().map(to_piece).collect();
    diagnosis.drafts.push(Draft {
        turn_id: update.turn_id,
        stream: update.stream.to_string(),
        beat_at: update.beat_at,
        chunk: update.chunk,
        chars: pieces.iter().map(|p| p.chars).sum(),
        pieces,
    });
}

fn to_piece(piece: draft::DraftPiece) -> DraftPiece {
    let draft::DraftPiece { head, text, .. } = piece;
    // A draft that is read without verification may contain invalid JSON.
    let decode = || {
        let json = RawJson::parse(&format!("\"{text}\"")).ok()?;
        JsonText::from_raw(json).ok()
    };
    let is_complete = head.kind == PieceKind::Complete;
    let is_call = head.kind == PieceKind::ToolCall;
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
        text: decode().filter(|_| !is_complete && !is_call),
        call_id,
        name,
        args: decode().filter(|_| is_call),
        value: RawJson::parse(&text).ok().filter(|_| is_complete),
    }
}
