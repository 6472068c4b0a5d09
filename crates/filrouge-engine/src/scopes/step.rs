//! What a write of the ledger means to the copy of the session's recent turns (DESIGN §7).

use filrouge_store::Keyring;
use filrouge_store::command::{Outcome, Put};
use filrouge_store::hot::{AsOf, HotKey, HotTurn, Step};
use filrouge_types::{ErrorCode, Failure, Turn, TurnStatus};

use super::sealed::seal;

/// What a write has put.
pub(super) const fn put_of(outcome: &Outcome) -> Option<&Put> {
    match outcome {
        Outcome::Session { put, .. }
        | Outcome::Turn(_, put)
        | Outcome::Appended { put, .. }
        | Outcome::Interrupted(put) => put.as_ref(),
        Outcome::Redacted(redacted) => redacted.put.as_ref(),
        Outcome::Erased(_)
        | Outcome::Event { .. }
        | Outcome::Drafted
        | Outcome::Lease { .. }
        | Outcome::Checkpoint { .. }
        | Outcome::Note(_) => None,
    }
}

/// The history that a write has left.
pub(super) const fn after(put: &Put) -> AsOf {
    AsOf {
        seq: put.last_seq,
        link: put.link,
    }
}

/// The step of a write that put something; `None` for one that tells the copy nothing that it could go on with.
///
/// # Errors
/// When the turn cannot be written as JSON.
pub(super) fn step(
    outcome: &Outcome,
    key: &HotKey,
    keyring: &Keyring,
) -> Result<Option<Step>, Failure> {
    let Some(put) = put_of(outcome) else {
        return Ok(None);
    };
    if let Outcome::Session { created: true, .. } = outcome {
        // It was taken in whole.
        return Ok(None);
    }
    let mut step = Step {
        before: AsOf {
            seq: put.first_seq - 1,
            link: put.before,
        },
        after: after(put),
        removes: Vec::new(),
        puts: None,
    };
    if let Outcome::Turn(turn, _) = outcome {
        let newest = turn.replaced_by_turn_id.is_none();
        if newest && turn.status == TurnStatus::Finalized {
            step.puts = Some(hot_turn(turn, key, keyring)?);
        } else if newest {
            // What it replaces is not shown any more.
            step.removes = vec![turn.ordinal];
        }
    }
    Ok(Some(step))
}

/// A turn as a copy has it: the public record that a read of it answers.
///
/// # Errors
/// When it cannot be written as JSON.
pub(super) fn hot_turn(turn: &Turn, key: &HotKey, keyring: &Keyring) -> Result<HotTurn, Failure> {
    let internal =
        |e: serde_json::Error| Failure::new(ErrorCode::Internal, format!("a turn as JSON: {e}"));
    let json = if turn.replayed || turn.differs {
        let read = Turn {
            replayed: false,
            differs: false,
            ..turn.clone()
        };
        serde_json::to_vec(&read)
    } else {
        serde_json::to_vec(turn)
    };
    Ok(HotTurn {
        ordinal: turn.ordinal,
        record: seal(keyring, key, turn.ordinal, &json.map_err(internal)?),
    })
}
