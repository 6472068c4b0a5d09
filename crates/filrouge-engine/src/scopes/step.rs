//! Builds steps. A step is the update that a write to the ledger causes in the hot store's copy of the session's recent
//! turns (DESIGN §7).

use filrouge_store::Keyring;
use filrouge_store::command::{Outcome, WrittenRange};
use filrouge_store::hot::{HistoryVersion, HotKey, HotTurn, RecentUpdate};
use filrouge_types::{ErrorCode, Failure, Turn, TurnStatus};

use super::sealed::seal;

/// The range of the items that a write has added; `None` if it has added none.
pub(super) const fn written_range(outcome: &Outcome) -> Option<&WrittenRange> {
    match outcome {
        Outcome::Session { written, .. }
        | Outcome::Turn(_, written)
        | Outcome::Appended { written, .. }
        | Outcome::Interrupted(written) => written.as_ref(),
        Outcome::Redacted(redacted) => redacted.written.as_ref(),
        Outcome::Erased(_)
        | Outcome::Event { .. }
        | Outcome::Drafted
        | Outcome::Lease { .. }
        | Outcome::Checkpoint { .. }
        | Outcome::Note(_) => None,
    }
}

/// The version of the session's history after a write that added `written`.
pub(super) const fn version_after(written: &WrittenRange) -> HistoryVersion {
    HistoryVersion {
        seq: written.last_seq,
        link: written.link,
    }
}

/// The step of a write. `None` if the write added no items, or if it created the session, which then has no copy yet.
///
/// # Errors
/// If the turn cannot be serialized as JSON.
pub(super) fn step(
    outcome: &Outcome,
    key: &HotKey,
    keyring: &Keyring,
) -> Result<Option<RecentUpdate>, Failure> {
    let Some(written) = written_range(outcome) else {
        return Ok(None);
    };
    if let Outcome::Session { created: true, .. } = outcome {
        // A login has moved the session, with its items, into the ledger.
        return Ok(None);
    }
    let mut step = RecentUpdate {
        before: HistoryVersion {
            seq: written.first_seq - 1,
            link: written.previous_link,
        },
        after: version_after(written),
        removes: Vec::new(),
        puts: None,
    };
    if let Outcome::Turn(turn, _) = outcome {
        let newest = turn.replaced_by_turn_id.is_none();
        if newest && turn.status == TurnStatus::Finalized {
            step.puts = Some(hot_turn(turn, key, keyring)?);
        } else if newest {
            // The turn is not finalized, so the copy does not contain it, nor an older version that it replaces.
            step.removes = vec![turn.ordinal];
        }
    }
    Ok(Some(step))
}

/// A turn as a copy stores it: its sealed public JSON, as a read of the turn returns it.
///
/// # Errors
/// If it cannot be serialized as JSON.
pub(super) fn hot_turn(turn: &Turn, key: &HotKey, keyring: &Keyring) -> Result<HotTurn, Failure> {
    let internal =
        |e: serde_json::Error| Failure::new(ErrorCode::Internal, format!("a turn as JSON: {e}"));
    let json = if turn.replayed || turn.differs {
        let as_read = Turn {
            replayed: false,
            differs: false,
            ..turn.clone()
        };
        serde_json::to_vec(&as_read)
    } else {
        serde_json::to_vec(turn)
    };
    Ok(HotTurn {
        ordinal: turn.ordinal,
        record: seal(keyring, key, turn.ordinal, &json.map_err(internal)?),
    })
}
