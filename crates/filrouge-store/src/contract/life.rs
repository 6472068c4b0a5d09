//! The life of a turn: the effect of every write in every status (DESIGN §4).

use std::sync::Arc;

use filrouge_types::{Channel, Clock, ErrorCode, Turn, TurnStatus};

use super::fixture::{
    Fixture, anyone, append, cancel, code, fail, finalize, interrupt, item, keyed, replacement,
    start,
};
use crate::command::{ConcurrentTurns, Outcome, Write};

const STATUSES: [TurnStatus; 5] = [
    TurnStatus::Open,
    TurnStatus::Interrupted,
    TurnStatus::Finalized,
    TurnStatus::Failed,
    TurnStatus::Cancelled,
];

/// A turn of session `s` in `status`.
async fn turn_in(f: &Fixture, s: &str, status: TurnStatus) -> Turn {
    let who = anyone();
    let turn = f.start(&who, s, "r").await;
    let id = turn.turn_id;
    f.clock.advance(1000);
    let now = f.clock.now().as_micros();
    let write = match status {
        TurnStatus::Open => return turn,
        TurnStatus::Interrupted => interrupt(s, id, now),
        TurnStatus::Finalized => finalize(s, id, Some("answer")),
        TurnStatus::Failed => fail(s, id, "error"),
        TurnStatus::Cancelled => cancel(s, id),
    };
    f.write(&who, write).await.unwrap();
    let turn = f.ledger.turn(&who, &turn.session_id, id).await.unwrap();
    assert_eq!(turn.status, status);
    turn
}

pub async fn every_write_has_a_defined_effect_in_every_status(f: &Fixture) {
    use ErrorCode::{IdempotencyMismatch as Mismatch, TurnClosed as Closed, TurnOpen};
    use TurnStatus::{Cancelled, Failed, Finalized, Interrupted, Open};
    type Expected = [Result<TurnStatus, ErrorCode>; 5];
    // The status after the write, or the refusal, of an open, interrupted, finalized, failed and cancelled turn.
    let table: [(&str, Expected); 9] = [
        (
            "start again",
            [Ok(Open), Ok(Open), Ok(Finalized), Ok(Failed), Ok(Cancelled)],
        ),
        (
            "append",
            [Ok(Open), Err(Closed), Err(Closed), Err(Closed), Err(Closed)],
        ),
        (
            "finalize",
            [
                Ok(Finalized),
                Err(Closed),
                Ok(Finalized),
                Err(Closed),
                Err(Closed),
            ],
        ),
        (
            "finalize otherwise",
            [
                Ok(Finalized),
                Err(Closed),
                Err(Mismatch),
                Err(Closed),
                Err(Closed),
            ],
        ),
        (
            "fail",
            [
                Ok(Failed),
                Err(Closed),
                Err(Closed),
                Ok(Failed),
                Err(Closed),
            ],
        ),
        (
            "fail otherwise",
            [
                Ok(Failed),
                Err(Closed),
                Err(Closed),
                Err(Mismatch),
                Err(Closed),
            ],
        ),
        (
            "cancel",
            [
                Ok(Cancelled),
                Err(Closed),
                Err(Closed),
                Err(Closed),
                Ok(Cancelled),
            ],
        ),
        (
            "interrupt",
            [
                Ok(Interrupted),
                Ok(Interrupted),
                Ok(Finalized),
                Ok(Failed),
                Ok(Cancelled),
            ],
        ),
        (
            "replace",
            [
                Err(TurnOpen),
                Ok(Interrupted),
                Ok(Finalized),
                Ok(Failed),
                Ok(Cancelled),
            ],
        ),
    ];
    let who = anyone();
    for (name, expected) in table {
        for (status, expected) in STATUSES.into_iter().zip(expected) {
            let s = format!("{name} {status}");
            let turn = turn_in(f, &s, status).await;
            let before = f.last_seq(&who, &s).await;
            f.clock.advance(1000);
            let now = f.clock.now().as_micros();
            let id = turn.turn_id;
            let write = match name {
                "start again" => Write::Start(Arc::new(start(&who, &s, "r", "r"))),
                "append" => append(&s, id, vec![item(Channel::Plan, "p")], None),
                "finalize" => finalize(&s, id, Some("answer")),
                "finalize otherwise" => finalize(&s, id, Some("other")),
                "fail" => fail(&s, id, "error"),
                "fail otherwise" => fail(&s, id, "other"),
                "cancel" => cancel(&s, id),
                "interrupt" => interrupt(&s, id, now),
                _ => replacement(&who, &s, "new", id, "words"),
            };
            let outcome = f.write(&who, write).await;
            let after = f.ledger.turn(&who, &turn.session_id, id).await.unwrap();
            match (outcome, expected) {
                (Ok(_), Ok(status)) => assert_eq!(after.status, status, "{s}"),
                (Err(refusal), Err(code)) => {
                    assert_eq!(refusal.code, code, "{s}");
                    assert_eq!(after, turn, "{s}: refused, so nothing changed");
                    assert_eq!(f.last_seq(&who, &s).await, before, "{s}");
                }
                (outcome, expected) => panic!("{s}: {outcome:?}, expected {expected:?}"),
            }
        }
    }
    f.assert_intact().await;
}

pub async fn interrupt_needs_silence(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let touched = f.clock.now().as_micros();
    let id = turn.turn_id;
    let outcome = f.write(&who, interrupt("s", id, touched)).await.unwrap();
    assert_eq!(
        outcome,
        Outcome::Interrupted(None),
        "touched at that very moment"
    );
    f.clock.advance(100);
    f.append(&who, &turn, vec![item(Channel::Plan, "p")])
        .await
        .unwrap();
    let outcome = f
        .write(&who, interrupt("s", id, touched + 50))
        .await
        .unwrap();
    assert_eq!(
        outcome,
        Outcome::Interrupted(None),
        "an append is a heartbeat"
    );
    let outcome = f
        .write(&who, interrupt("s", id, touched + 101))
        .await
        .unwrap();
    let Outcome::Interrupted(Some(put)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((put.first_seq, put.last_seq), (3, 3));
    let outcome = f.write(&who, interrupt("s", id, i64::MAX)).await.unwrap();
    assert_eq!(outcome, Outcome::Interrupted(None));
    let items = f.items(&who, "s", 10).await;
    assert_eq!(items.last().unwrap().body.channel, Channel::Interrupted);
    f.assert_intact().await;
}

pub async fn a_repeated_start_reopens_an_interrupted_turn(f: &Fixture) {
    let who = anyone();
    let turn = turn_in(f, "s", TurnStatus::Interrupted).await;
    let reopened = f.try_start(&who, start(&who, "s", "r", "r")).await.unwrap();
    assert!(reopened.replayed && reopened.status == TurnStatus::Open);
    assert_eq!(reopened.turn_id, turn.turn_id);
    assert_eq!((turn.last_seq, reopened.last_seq), (2, 3));
    f.append(&who, &reopened, vec![item(Channel::Plan, "on")])
        .await
        .unwrap();
    f.clock.advance(1000);
    let now = f.clock.now().as_micros();
    f.write(&who, interrupt("s", turn.turn_id, now))
        .await
        .unwrap();
    f.try_start(&who, start(&who, "s", "r", "r")).await.unwrap();
    let done = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    assert_eq!((done.status, done.last_seq), (TurnStatus::Finalized, 7));
    f.assert_intact().await;
}

/// What becomes known only after a turn's end is still recorded, and nothing of the turn changes.
pub async fn a_closed_turn_takes_late_errors_and_notes(f: &Fixture) {
    let who = anyone();
    for status in [
        TurnStatus::Finalized,
        TurnStatus::Failed,
        TurnStatus::Cancelled,
    ] {
        let s = status.as_str();
        let turn = turn_in(f, s, status).await;
        let id = turn.turn_id;
        f.start(&who, s, "between").await;
        let last = f.last_seq(&who, s).await;
        let mut error = keyed("late", "the mail bounced");
        error.channel = Channel::Error;
        let late = append(s, id, vec![error], Some(last));
        let appended = f.write_append(&who, late.clone()).await.unwrap();
        assert_eq!(appended, (last + 1, last + 1, false));
        let again = f.write_append(&who, late).await.unwrap();
        assert_eq!(again, (last + 1, last + 1, true));
        let note = item(Channel::SystemNote, "the user rang off");
        let more = append(s, id, vec![note.clone(), note.clone()], None);
        let appended = f.write_append(&who, more).await.unwrap();
        assert_eq!(appended, (last + 2, last + 3, false));
        let mixed = append(s, id, vec![note, item(Channel::Thought, "hm")], None);
        let refused = f.write_append(&who, mixed).await;
        assert_eq!(code(refused), ErrorCode::TurnClosed);
        let session = turn.session_id.clone();
        assert_eq!(f.ledger.turn(&who, &session, id).await.unwrap(), turn);
        let repeated = f.start(&who, s, "r").await;
        assert_eq!((repeated.status, repeated.replayed), (status, true));
        f.assert_intact().await;
        // A redaction of the turn erases its late items too.
        let redacted = f.redact_turn(&who, &turn).await.unwrap();
        let items = f.items(&who, s, 100).await;
        let own = items.iter().filter(|item| item.turn_id == Some(id));
        assert!(own.clone().count() > 3 && own.clone().all(|item| item.redacted));
        assert!(redacted.deleted_at.is_some());
        let late = append(s, id, vec![item(Channel::Error, "e")], None);
        let refused = f.write_append(&who, late).await;
        assert_eq!(code(refused), ErrorCode::TurnClosed);
        f.assert_intact().await;
    }
}

/// An interrupted turn takes the same items, stays interrupted, and can still be reopened, finalized and redacted.
pub async fn an_interrupted_turn_takes_late_errors_and_notes(f: &Fixture) {
    let who = anyone();
    let turn = turn_in(f, "s", TurnStatus::Interrupted).await;
    let id = turn.turn_id;
    f.start(&who, "s", "between").await;
    let mut error = keyed("late", "the mail bounced");
    error.channel = Channel::Error;
    let late = append("s", id, vec![error], Some(3));
    for replayed in [false, true] {
        let appended = f.write_append(&who, late.clone()).await.unwrap();
        assert_eq!(appended, (4, 4, replayed));
    }
    let note = item(Channel::SystemNote, "the user rang off");
    let mixed = append(
        "s",
        id,
        vec![note.clone(), item(Channel::Thought, "hm")],
        None,
    );
    assert_eq!(
        code(f.write_append(&who, mixed).await),
        ErrorCode::TurnClosed
    );
    let read = f.ledger.turn(&who, &turn.session_id, id).await.unwrap();
    assert_eq!((read.status, read.last_seq), (TurnStatus::Interrupted, 4));
    f.assert_intact().await;
    let reopened = f.start(&who, "s", "r").await;
    assert_eq!((reopened.status, reopened.last_seq), (TurnStatus::Open, 5));
    let answered = f.write_turn(&who, finalize("s", id, Some("a"))).await;
    let answered = answered.unwrap();
    assert_eq!(
        (answered.status, answered.last_seq),
        (TurnStatus::Finalized, 6)
    );
    f.append(&who, &turn, vec![note.clone()]).await.unwrap();
    let read = f.ledger.turn(&who, &turn.session_id, id).await.unwrap();
    assert_eq!(read, answered, "late items of a closed turn");
    f.assert_intact().await;

    let turn = turn_in(f, "redacted", TurnStatus::Interrupted).await;
    f.append(&who, &turn, vec![note.clone()]).await.unwrap();
    f.redact_turn(&who, &turn).await.unwrap();
    let items = f.items(&who, "redacted", 100).await;
    let own = items
        .iter()
        .filter(|item| item.turn_id == Some(turn.turn_id));
    assert!(own.clone().count() == 3 && own.clone().all(|item| item.redacted));
    let refused = f.append(&who, &turn, vec![note]).await;
    assert_eq!(code(refused), ErrorCode::TurnClosed);
    f.assert_intact().await;
}

pub async fn the_policy_can_allow_only_one_open_turn(f: &Fixture) {
    let who = anyone();
    let strict = |request: &str| {
        let mut command = start(&who, "s", request, request);
        command.concurrent_turns = ConcurrentTurns::Reject;
        command
    };
    let first = f.try_start(&who, strict("a")).await.unwrap();
    assert_eq!(
        code(f.try_start(&who, strict("b")).await),
        ErrorCode::TurnOpen
    );
    assert!(
        f.try_start(&who, strict("a")).await.unwrap().replayed,
        "a retry is no second turn"
    );
    f.clock.advance(1000);
    let now = f.clock.now().as_micros();
    f.write(&who, interrupt("s", first.turn_id, now))
        .await
        .unwrap();
    let second = f.try_start(&who, strict("b")).await.unwrap();
    assert_eq!(
        code(f.try_start(&who, strict("a")).await),
        ErrorCode::TurnOpen,
        "reopening is a start"
    );
    f.write_turn(&who, cancel("s", second.turn_id))
        .await
        .unwrap();
    assert_eq!(
        f.try_start(&who, strict("a")).await.unwrap().status,
        TurnStatus::Open
    );
    f.assert_intact().await;
}
