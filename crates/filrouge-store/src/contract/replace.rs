//! Replacing a turn changes no existing item (DESIGN §4.6).

use filrouge_types::{Channel, ErrorCode, Role, TurnId, TurnStatus};

use super::fixture::{
    Fixture, anyone, cancel, code, finalize, interrupt, item, replacement, sid, start, user,
};
use crate::read::{TurnOrder, TurnQuery};

pub async fn a_turn_is_replaced_by_a_new_version(f: &Fixture) {
    let who = anyone();
    let first = f.complete_turn(&who, "s", "r", "one").await;
    let next = f.complete_turn(&who, "s", "next", "other").await;
    let second = f
        .write_turn(&who, replacement(&who, "s", "r2", first.turn_id, "two"))
        .await
        .unwrap();
    assert_eq!((second.ordinal, second.record_version), (first.ordinal, 2));
    let third = f
        .write_turn(&who, replacement(&who, "s", "r3", second.turn_id, "three"))
        .await
        .unwrap();
    assert_eq!((third.ordinal, third.record_version), (1, 3));
    let by = async |id: TurnId| {
        f.ledger
            .turn(&who, &sid("s"), id)
            .await
            .unwrap()
            .replaced_by_turn_id
    };
    assert_eq!(by(first.turn_id).await, Some(second.turn_id));
    assert_eq!(by(second.turn_id).await, Some(third.turn_id));
    assert_eq!(
        (by(third.turn_id).await, by(next.turn_id).await),
        (None, None)
    );
    let session = f.ledger.session(&who, &sid("s")).await.unwrap();
    assert_eq!((session.turn_count, session.last_seq), (2, 8));
    assert_eq!(f.complete_turn(&who, "s", "last", "x").await.ordinal, 3);
    f.assert_intact().await;
}

pub async fn invalid_replacements_are_refused(f: &Fixture) {
    let who = anyone();
    let first = f.complete_turn(&who, "s", "r", "one").await;
    let open = f.start(&who, "s", "open").await;
    let elsewhere = f.complete_turn(&who, "elsewhere", "r", "one").await;
    let replace_error = async |old: TurnId| {
        code(
            f.write_turn(&who, replacement(&who, "s", "new", old, "w"))
                .await,
        )
    };
    assert_eq!(replace_error(open.turn_id).await, ErrorCode::TurnOpen);
    assert_eq!(
        replace_error(elsewhere.turn_id).await,
        ErrorCode::TurnMismatch
    );
    assert_eq!(
        replace_error(TurnId::from_derived([1; 16])).await,
        ErrorCode::TurnNotFound
    );
    f.write_turn(&who, replacement(&who, "s", "second", first.turn_id, "two"))
        .await
        .unwrap();
    assert_eq!(replace_error(first.turn_id).await, ErrorCode::TurnReplaced);
    f.write_turn(&who, cancel("s", open.turn_id)).await.unwrap();
    f.write_turn(
        &who,
        replacement(&who, "s", "of cancelled", open.turn_id, "w"),
    )
    .await
    .unwrap();
    let nowhere = replacement(&who, "nowhere", "new", first.turn_id, "w");
    assert_eq!(
        code(f.write_turn(&who, nowhere).await),
        ErrorCode::SessionNotFound
    );
    let absent = f.ledger.session(&who, &sid("nowhere")).await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
    f.assert_intact().await;
}

pub async fn replacements_are_idempotent(f: &Fixture) {
    let who = anyone();
    let first = f.complete_turn(&who, "s", "r", "one").await;
    let write = replacement(&who, "s", "r2", first.turn_id, "two");
    let second = f.write_turn(&who, write.clone()).await.unwrap();
    let again = f.write_turn(&who, write).await.unwrap();
    assert!(again.replayed && again.turn_id == second.turn_id);
    let other = f
        .write_turn(&who, replacement(&who, "s", "r2", first.turn_id, "other"))
        .await;
    assert_eq!(code(other), ErrorCode::IdempotencyMismatch);
    assert_eq!(f.last_seq(&who, "s").await, 4);
}

pub async fn lists_leave_out_replaced_turns(f: &Fixture) {
    let who = anyone();
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(
            f.complete_turn(&who, "s", &format!("r{n}"), "a")
                .await
                .turn_id,
        );
    }
    for n in [4, 1] {
        f.write_turn(
            &who,
            replacement(&who, "s", &format!("new{n}"), ids[n], "b"),
        )
        .await
        .unwrap();
    }
    let list = async |order, limit, cursor| {
        let query = TurnQuery {
            status: None,
            include_redacted: false,
            order,
            cursor,
            limit,
        };
        let (page, next) = f.ledger.turns(&who, &sid("s"), query).await.unwrap();
        (
            page.iter()
                .map(|t| (t.ordinal, t.record_version))
                .collect::<Vec<_>>(),
            next,
        )
    };
    let (page, next) = list(TurnOrder::Newest, 3, None).await;
    assert_eq!(page, [(3, 1), (4, 1), (5, 2)]);
    let (page, next) = list(TurnOrder::Newest, 3, next).await;
    assert_eq!((page, next), (vec![(1, 1), (2, 2)], None));
    let (page, _) = list(TurnOrder::Oldest, 50, None).await;
    assert_eq!(
        page,
        [(1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1), (5, 2)]
    );
    let (page, next) = list(TurnOrder::Oldest, 2, None).await;
    let (rest, _) = list(TurnOrder::Oldest, 50, next).await;
    assert_eq!([page, rest].concat().len(), 7);
    f.assert_intact().await;
}

/// A process that was presumed dead cannot reopen its turn after another process has replaced it.
pub async fn a_replaced_turn_stays_interrupted(f: &Fixture) {
    let who = anyone();
    let old = f.start(&who, "s", "r").await;
    f.write(&who, interrupt("s", old.turn_id, i64::MAX))
        .await
        .unwrap();
    f.write_turn(&who, replacement(&who, "s", "r2", old.turn_id, "v2"))
        .await
        .unwrap();
    let again = f.start(&who, "s", "r").await;
    assert_eq!(
        (again.status, again.replayed),
        (TurnStatus::Interrupted, true)
    );
    let late = f
        .write_turn(&who, finalize("s", old.turn_id, Some("late")))
        .await;
    assert_eq!(code(late), ErrorCode::TurnClosed);
    f.assert_intact().await;
}

/// Replacing creates no session, so like a read it does not distinguish a foreign session from an absent one. A plain
/// start with a replacement's key is a start that differs (P2, P6).
pub async fn replacing_creates_no_session(f: &Fixture) {
    let (alice, bob) = (user("alice"), user("bob"));
    let turn = f.complete_turn(&bob, "bobs", "r", "one").await;
    for session in ["bobs", "nothere"] {
        let refused = f
            .write_turn(
                &alice,
                replacement(&alice, session, "x", turn.turn_id, "two"),
            )
            .await;
        assert_eq!(code(refused), ErrorCode::SessionNotFound, "{session}");
    }
    f.write_turn(&bob, replacement(&bob, "bobs", "r2", turn.turn_id, "two"))
        .await
        .unwrap();
    let plain = f
        .try_start(&bob, start(&bob, "bobs", "r2", "another"))
        .await
        .unwrap();
    assert!(plain.replayed && plain.differs);
}

/// Only the assistant's final items are answers, and only the user's first items are the question.
pub async fn roles_determine_question_and_answer(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let mut user_item = item(Channel::Final, "I am the user");
    user_item.role = Role::User;
    let mut asked = item(Channel::Question, "late");
    asked.variant = filrouge_types::Variant::Translated;
    asked.role = Role::Assistant;
    f.append(&who, &turn, vec![asked, user_item]).await.unwrap();
    let refused = f.write_turn(&who, finalize("s", turn.turn_id, None)).await;
    assert_eq!(code(refused), ErrorCode::AnswerMissing);
    let turn = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
    assert_eq!(turn.question_translated, None);
    f.assert_intact().await;
}
