//! Conflicts are refused, and checked in the order of DESIGN §4: owner, replay, expected seq, turn state.

use std::sync::Arc;

use filrouge_types::{Channel, Clock, ErrorCode, TurnId, TurnStatus};

use super::fixture::{
    Fixture, answer, anyone, append, body, close, code, fail, finalize, interrupt, item, keyed,
    rid, sid, start, start_with, user,
};
use crate::command::{Ending, Start, Write};
use crate::record::Batch;

pub async fn a_wrong_expected_seq_is_refused(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    for wrong in [0, 2, u64::MAX] {
        let write = append(
            "s",
            turn.turn_id,
            vec![item(Channel::Plan, "p")],
            Some(wrong),
        );
        let refusal = f.write_append(&who, write).await.unwrap_err();
        assert_eq!(
            (refusal.code, refusal.actual_seq),
            (ErrorCode::SeqConflict, Some(1))
        );
    }
    let write = append("s", turn.turn_id, vec![item(Channel::Plan, "p")], Some(1));
    assert_eq!(f.write_append(&who, write).await.unwrap(), (2, 2, false));
}

pub async fn a_start_with_a_wrong_expected_seq_is_refused(f: &Fixture) {
    let who = anyone();
    let expecting = |request: &str, expected: u64| Start {
        expected_seq: Some(expected),
        ..start(&who, "s", request, request)
    };
    let refusal = async |request: &str, expected: u64| {
        let refused = f.try_start(&who, expecting(request, expected)).await;
        let refused = refused.unwrap_err();
        (refused.code, refused.actual_seq)
    };
    // A session that does not exist has the newest seq 0.
    for wrong in [1, u64::MAX] {
        let expected = (ErrorCode::SeqConflict, Some(0));
        assert_eq!(refusal("r1", wrong).await, expected);
    }
    assert_eq!(
        code(f.ledger.session(&who, &sid("s")).await),
        ErrorCode::SessionNotFound
    );
    let first = f.try_start(&who, expecting("r1", 0)).await.unwrap();
    for wrong in [0, 2, u64::MAX] {
        let expected = (ErrorCode::SeqConflict, Some(1));
        assert_eq!(refusal("r2", wrong).await, expected);
    }
    // A retry is answered, whatever it expects.
    let again = f.try_start(&who, expecting("r1", 9)).await.unwrap();
    assert!(again.replayed && again.turn_id == first.turn_id);
    let second = f.try_start(&who, expecting("r2", 1)).await.unwrap();
    assert_eq!((second.first_seq, second.replayed), (2, false));
    let now = f.clock.now().as_micros() + 1;
    let interruption = interrupt("s", first.turn_id, now);
    f.write(&who, interruption).await.unwrap();
    let reopened = f.try_start(&who, expecting("r1", 0)).await.unwrap();
    assert_eq!(
        (reopened.status, reopened.last_seq),
        (TurnStatus::Open, 4),
        "the turn itself has added items since its start"
    );
    f.assert_intact().await;
}

pub async fn unknown_and_foreign_turns_are_refused(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    let mine = f.start(&ann, "mine", "r").await;
    let also_mine = f.start(&ann, "also mine", "r").await;
    let foreign = f.start(&bob, "foreign", "r").await;
    let unknown = TurnId::from_derived([7; 16]);
    let expected = [
        (unknown, ErrorCode::TurnNotFound),
        (also_mine.turn_id, ErrorCode::TurnMismatch),
        (foreign.turn_id, ErrorCode::TurnNotFound),
    ];
    for (id, expected) in expected {
        for write in [
            append("mine", id, vec![item(Channel::Plan, "p")], None),
            finalize("mine", id, Some("a")),
            fail("mine", id, "e"),
            interrupt("mine", id, i64::MAX),
        ] {
            assert_eq!(code(f.write(&ann, write).await), expected);
        }
        assert_eq!(code(f.ledger.turn(&ann, &sid("mine"), id).await), expected);
    }
    let write = append(
        "nowhere",
        mine.turn_id,
        vec![item(Channel::Plan, "p")],
        None,
    );
    assert_eq!(code(f.write(&ann, write).await), ErrorCode::SessionNotFound);
    f.assert_intact().await;
}

pub async fn checks_have_a_fixed_order(f: &Fixture) {
    let who = user("ann");
    let turn = f.start(&who, "s", "r").await;
    let id = turn.turn_id;
    f.append(&who, &turn, vec![keyed("a", "1")]).await.unwrap();
    f.write_turn(&who, finalize("s", id, Some("x")))
        .await
        .unwrap();
    let tries = [
        // Each case: the caller, the items, the expected seq, and the refusal.
        (
            user("bob"),
            vec![keyed("a", "1")],
            Some(9),
            Some(ErrorCode::SessionNotFound),
        ),
        (who.clone(), vec![keyed("a", "1")], Some(9), None),
        (
            who.clone(),
            vec![keyed("a", "2")],
            Some(9),
            Some(ErrorCode::IdempotencyMismatch),
        ),
        (
            who.clone(),
            vec![keyed("a", "1"), keyed("b", "2")],
            Some(9),
            Some(ErrorCode::PartialReplay),
        ),
        (
            who.clone(),
            vec![keyed("b", "2")],
            Some(9),
            Some(ErrorCode::SeqConflict),
        ),
        (
            who.clone(),
            vec![keyed("b", "2")],
            Some(3),
            Some(ErrorCode::TurnClosed),
        ),
        (
            who.clone(),
            vec![item(Channel::Final, "2")],
            None,
            Some(ErrorCode::TurnClosed),
        ),
    ];
    for (n, (scope, items, expected_seq, expected)) in tries.into_iter().enumerate() {
        let outcome = f
            .write_append(&scope, append("s", id, items, expected_seq))
            .await;
        match expected {
            None => assert_eq!(outcome.unwrap(), (2, 2, true), "try {n}"),
            Some(expected) => assert_eq!(code(outcome), expected, "try {n}"),
        }
    }
}

pub async fn a_refused_write_changes_nothing(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(
        &who,
        &turn,
        vec![keyed("a", "1"), item(Channel::Final, "f")],
    )
    .await
    .unwrap();
    let before = f.items(&who, "s", 100).await;
    let commits = f.ledger.position();
    let two_finals = vec![item(Channel::Plan, "fine"), item(Channel::Final, "second")];
    assert_eq!(
        code(f.append(&who, &turn, two_finals).await),
        ErrorCode::FinalExists
    );
    let taken = start_with(&who, "s", "r2", "q", None, |_, items| {
        items.push(keyed("a", "1"));
    });
    assert_eq!(
        code(f.try_start(&who, taken).await),
        ErrorCode::IdempotencyMismatch
    );
    let twice = start_with(&who, "new", "r", "q", None, |_, items| {
        items.push(keyed("z", "1"));
        items.push(keyed("z", "2"));
    });
    assert_eq!(code(f.try_start(&who, twice).await), ErrorCode::Invalid);
    let other_final = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("not f")))
        .await;
    assert_eq!(code(other_final), ErrorCode::IdempotencyMismatch);
    assert_eq!(f.items(&who, "s", 100).await, before);
    assert_eq!(f.ledger.position(), commits, "no commit was made");
    assert_eq!(
        code(f.ledger.session(&who, &sid("new")).await),
        ErrorCode::SessionNotFound
    );
    f.assert_intact().await;
}

pub async fn a_wrong_request_id_is_refused(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let mut ending = close("s", turn.turn_id, answer(Some("a")), body("a"));
    ending.request_id = Some(rid("other"));
    let refused = f
        .write_turn(&who, Write::Close(Arc::new(ending.clone())))
        .await;
    assert_eq!(code(refused), ErrorCode::TurnMismatch);
    ending.request_id = Some(rid("r"));
    f.write_turn(&who, Write::Close(Arc::new(ending.clone())))
        .await
        .unwrap();
    ending.request_id = Some(rid("other"));
    let refused = f.write_turn(&who, Write::Close(Arc::new(ending))).await;
    assert_eq!(code(refused), ErrorCode::TurnMismatch);
}

pub async fn empty_batches_are_refused(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    assert_eq!(
        code(f.append(&who, &turn, Vec::new()).await),
        ErrorCode::Invalid
    );
    let nothing = close("s", turn.turn_id, Ending::Cancel(Vec::new()), body("c"));
    assert_eq!(
        code(f.write(&who, Write::Close(Arc::new(nothing))).await),
        ErrorCode::Invalid
    );
    let mut command = start(&who, "s", "r2", "q");
    command.batch = Batch::default();
    assert_eq!(code(f.try_start(&who, command).await), ErrorCode::Invalid);
    f.assert_intact().await;
}
