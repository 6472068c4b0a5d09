//! Checks how a backend detects that somebody has removed the end of a draft with the rows' own genuine bytes.

use std::collections::BTreeMap;

use filrouge_types::{ErrorCode, Failure, TurnId, TurnStatus};

use super::drafts::{delta, put, recorded, stream};
use super::fixture::{Fixture, anyone, finalize, sid};
use crate::command::Outcome;
use crate::verify::Verdict;

/// What was removed outside filrouge, after the third chunk was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The newest chunk.
    Chunk,
    /// The newest chunk, and the draft's row is the one from before that chunk.
    ChunkAndRow,
    /// The draft with all its chunks.
    Draft,
}

/// Starts a turn and its recording, and writes two chunks of its draft.
pub async fn begin(f: &Fixture) -> TurnId {
    let turn = f.start(&anyone(), "s", "r").await.turn_id;
    for number in 0..=2 {
        write_chunk(f, turn, number).await.unwrap();
    }
    turn
}

/// Writes a chunk of the draft. Chunk 0 begins the recording.
pub async fn write_chunk(f: &Fixture, turn: TurnId, number: u64) -> Result<Outcome, Failure> {
    let deltas = match number {
        0 => Vec::new(),
        _ => vec![delta(0, number == 1, "shown ")],
    };
    f.write(&anyone(), put("s", turn, stream(1), number, deltas))
        .await
}

/// Checks what reads, `verify`, the next chunk and the end of the turn do after a removal.
pub async fn check(f: &Fixture, turn: TurnId, removal: Removal) {
    let who = anyone();
    let read = async || {
        let drafts = f.ledger.drafts(&who, &sid("s"), BTreeMap::new()).await;
        drafts.map(|drafts| drafts.iter().map(|draft| draft.chunk).collect::<Vec<_>>())
    };
    let next = write_chunk(f, turn, 4);
    match removal {
        Removal::Chunk => {
            assert_eq!(read().await.unwrap_err().code, ErrorCode::IntegrityError);
            next.await.unwrap();
            assert_eq!(read().await.unwrap_err().code, ErrorCode::IntegrityError);
        }
        // An older state looks as it did then, but the recording notices it.
        Removal::ChunkAndRow => {
            assert_eq!(read().await, Ok(vec![2]));
            assert_eq!(next.await.unwrap_err().code, ErrorCode::Invalid);
        }
        Removal::Draft => {
            assert_eq!(read().await, Ok(Vec::new()));
            assert_eq!(next.await.unwrap_err().code, ErrorCode::StreamLost);
        }
    }
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{removal:?}");
    let names_session = report
        .findings
        .iter()
        .any(|finding| finding.session_id.as_deref() == Some("s"));
    assert!(names_session, "{report:?}");
    // The turn can end. A recording has its complete text, whatever the draft contains.
    let end = match removal {
        Removal::Draft => finalize("s", turn, Some("answer")),
        _ => recorded("s", turn, stream(1), "answer"),
    };
    let ended = f.write_turn(&who, end).await.unwrap();
    assert_eq!(ended.status, TurnStatus::Finalized);
    assert_eq!(f.items(&who, "s", 9).await.len(), 2);
    f.assert_intact().await;
}
