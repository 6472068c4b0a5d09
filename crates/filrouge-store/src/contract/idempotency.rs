//! Every retry is safe (P2).

use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, TurnStatus};

use super::fixture::{
    Fixture, answer, anyone, append, body, cancel, close, code, fail, finalize, interrupt, item,
    keyed, start, start_with,
};
use crate::command::{Outcome, Write};

pub async fn a_repeated_start_is_replayed(f: &Fixture) {
    let who = anyone();
    let command = start(&who, "s", "r", "q");
    let first = f.try_start(&who, command.clone()).await.unwrap();
    let again = f.try_start(&who, command).await.unwrap();
    assert!(!first.replayed && again.replayed && !again.differs);
    assert_eq!(again.turn_id, first.turn_id);
    assert_eq!(f.last_seq(&who, "s").await, 1);
    f.assert_intact().await;
}

pub async fn a_repeated_start_with_another_body_is_reported(f: &Fixture) {
    let who = anyone();
    let first = f
        .try_start(&who, start(&who, "s", "r", "one"))
        .await
        .unwrap();
    let again = f
        .try_start(&who, start(&who, "s", "r", "two"))
        .await
        .unwrap();
    assert!(again.replayed && again.differs);
    assert_eq!(again.question_neutral, first.question_neutral);
    let complete = start_with(&who, "s", "r", "three", Some("answer"), |_, _| {});
    let again = f.try_start(&who, complete).await.unwrap();
    assert!(again.differs && again.status == TurnStatus::Open);
    assert_eq!(f.last_seq(&who, "s").await, 1);
}

pub async fn a_repeated_append_is_replayed(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let batch = || {
        vec![
            keyed("a", "1"),
            item(Channel::Thought, "no key"),
            keyed("b", "2"),
        ]
    };
    assert_eq!(f.append(&who, &turn, batch()).await.unwrap(), (2, 4, false));
    assert_eq!(
        f.append(&who, &turn, vec![keyed("c", "3")]).await.unwrap(),
        (5, 5, false)
    );
    assert_eq!(f.append(&who, &turn, batch()).await.unwrap(), (2, 4, true));
    assert_eq!(f.last_seq(&who, "s").await, 5);
    f.assert_intact().await;
}

pub async fn a_repeated_append_with_another_body_is_refused(f: &Fixture) {
    let who = anyone();
    let earlier = f.start(&who, "s", "earlier").await;
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, vec![keyed("a", "1"), keyed("b", "2")])
        .await
        .unwrap();
    let other = f.start(&who, "s", "other").await;
    let mut meta = keyed("a", "1");
    meta.model = Some("m".into());
    for (turn, batch) in [
        (&turn, vec![keyed("a", "x"), keyed("b", "2")]),
        (&turn, vec![meta, keyed("b", "2")]),
        (&turn, vec![keyed("b", "2"), keyed("a", "1")]),
        (
            &turn,
            vec![
                keyed("a", "1"),
                item(Channel::Thought, "between"),
                keyed("b", "2"),
            ],
        ),
        (
            &turn,
            vec![keyed("b", "2"), item(Channel::Thought, "after the end")],
        ),
        (&other, vec![keyed("a", "1"), keyed("b", "2")]),
        (&earlier, vec![keyed("a", "1"), keyed("b", "2")]),
    ] {
        assert_eq!(
            code(f.append(&who, turn, batch).await),
            ErrorCode::IdempotencyMismatch
        );
    }
    let again = f.append(&who, &turn, vec![keyed("b", "2")]).await.unwrap();
    assert_eq!(again, (4, 4, true), "a part that is a complete batch");
    assert_eq!(f.last_seq(&who, "s").await, 5);
}

pub async fn partial_replays_are_refused(f: &Fixture) {
    let who = anyone();
    let mut question = keyed("q", "question");
    question.channel = Channel::Question;
    let command = start_with(&who, "s", "r", "q", None, |_, items| items[0] = question);
    let turn = f.try_start(&who, command).await.unwrap();
    f.append(&who, &turn, vec![keyed("a", "1")]).await.unwrap();
    for batch in [
        vec![keyed("a", "1"), keyed("new", "2")],
        vec![keyed("new", "2"), keyed("a", "1")],
        vec![keyed("new", "2"), keyed("q", "question")],
        vec![keyed("a", "another body"), keyed("new", "2")],
    ] {
        assert_eq!(
            code(f.append(&who, &turn, batch).await),
            ErrorCode::PartialReplay
        );
    }
    let twice = vec![keyed("z", "1"), keyed("z", "1")];
    assert_eq!(code(f.append(&who, &turn, twice).await), ErrorCode::Invalid);
    assert_eq!(f.last_seq(&who, "s").await, 2);
}

pub async fn a_repeated_finalize_is_replayed(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let first = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    f.clock.advance(1_000_000);
    let again = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    assert!(again.replayed && !first.replayed);
    assert_eq!(
        filrouge_types::Turn {
            replayed: false,
            ..again
        },
        first
    );
    let other_key = close(
        "s",
        turn.turn_id,
        answer(Some("a")),
        body("spelled otherwise"),
    );
    assert!(
        f.write_turn(&who, Write::Close(Arc::new(other_key)))
            .await
            .unwrap()
            .replayed
    );
    let none = close("s", turn.turn_id, answer(None), body("nothing"));
    assert!(
        f.write_turn(&who, Write::Close(Arc::new(none)))
            .await
            .unwrap()
            .replayed
    );
    let other = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("b")))
        .await;
    assert_eq!(code(other), ErrorCode::IdempotencyMismatch);
    assert_eq!(f.last_seq(&who, "s").await, 2);
    let complete = f.complete_turn(&who, "s", "w", "answer").await;
    assert!(
        f.write_turn(&who, finalize("s", complete.turn_id, Some("answer")))
            .await
            .unwrap()
            .replayed
    );
    f.assert_intact().await;
}

pub async fn repeated_fail_and_cancel_are_replayed(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "f").await;
    f.write_turn(&who, fail("s", turn.turn_id, "e"))
        .await
        .unwrap();
    assert!(
        f.write_turn(&who, fail("s", turn.turn_id, "e"))
            .await
            .unwrap()
            .replayed
    );
    assert_eq!(
        code(f.write_turn(&who, fail("s", turn.turn_id, "x")).await),
        ErrorCode::IdempotencyMismatch
    );
    let turn = f.start(&who, "s", "c").await;
    f.write_turn(&who, cancel("s", turn.turn_id)).await.unwrap();
    assert!(
        f.write_turn(&who, cancel("s", turn.turn_id))
            .await
            .unwrap()
            .replayed
    );
    f.assert_intact().await;
}

pub async fn appends_are_replayed_after_the_turn_closed(f: &Fixture) {
    let who = anyone();
    for ending in ["finalize", "fail", "cancel"] {
        let command = start(&who, ending, "r", "q");
        let turn = f.try_start(&who, command.clone()).await.unwrap();
        f.append(&who, &turn, vec![keyed("a", "1")]).await.unwrap();
        let end = match ending {
            "finalize" => finalize(ending, turn.turn_id, Some("x")),
            "fail" => fail(ending, turn.turn_id, "x"),
            _ => cancel(ending, turn.turn_id),
        };
        let closed = f.write_turn(&who, end).await.unwrap();
        let again = append(ending, turn.turn_id, vec![keyed("a", "1")], Some(77));
        assert_eq!(f.write_append(&who, again).await.unwrap(), (2, 2, true));
        let again = f.try_start(&who, command).await.unwrap();
        assert!(again.replayed && !again.differs);
        assert_eq!(again.status, closed.status);
        assert_eq!(again.last_seq, closed.last_seq);
    }
    f.assert_intact().await;
}

pub async fn a_repeated_session_creation_is_replayed(f: &Fixture) {
    let who = anyone();
    let created = |o: Outcome| matches!(o, Outcome::Session { created: true, .. });
    assert!(created(f.create(&who, "s").await.unwrap()));
    assert!(!created(f.create(&who, "s").await.unwrap()));
    f.start(&who, "s", "r").await;
    assert!(!created(f.create(&who, "s").await.unwrap()));
    f.start(&who, "made by its turn", "r").await;
    assert!(!created(f.create(&who, "made by its turn").await.unwrap()));
    f.assert_intact().await;
}

pub async fn retries_after_every_failure_are_safe(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let id = turn.turn_id;
    let wrong = append("s", id, vec![keyed("a", "1")], Some(9));
    assert_eq!(
        code(f.write_append(&who, wrong.clone()).await),
        ErrorCode::SeqConflict
    );
    assert_eq!(
        code(f.write_append(&who, wrong).await),
        ErrorCode::SeqConflict
    );
    let right = append("s", id, vec![keyed("a", "1")], Some(1));
    assert_eq!(
        f.write_append(&who, right.clone()).await.unwrap(),
        (2, 2, false)
    );
    assert_eq!(f.write_append(&who, right).await.unwrap(), (2, 2, true));
    assert_eq!(
        code(f.write_turn(&who, finalize("s", id, None)).await),
        ErrorCode::AnswerMissing
    );
    f.clock.advance(10);
    let now = filrouge_types::Clock::now(&*f.clock).as_micros();
    let outcome = f.write(&who, interrupt("s", id, now)).await.unwrap();
    assert!(matches!(outcome, Outcome::Interrupted(Some(_))));
    let late = append("s", id, vec![keyed("b", "1")], None);
    assert_eq!(
        code(f.write_append(&who, late.clone()).await),
        ErrorCode::TurnClosed
    );
    f.try_start(&who, start(&who, "s", "r", "r")).await.unwrap();
    assert!(!f.write_append(&who, late).await.unwrap().2);
    let done = f
        .write_turn(&who, finalize("s", id, Some("a")))
        .await
        .unwrap();
    assert_eq!(done.status, TurnStatus::Finalized);
    assert_eq!(
        code(f.append(&who, &turn, vec![keyed("c", "1")]).await),
        ErrorCode::TurnClosed
    );
    assert_eq!(
        code(f.write_turn(&who, cancel("s", id)).await),
        ErrorCode::TurnClosed
    );
    f.assert_intact().await;
}

pub async fn items_without_ids_are_new(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let batch = || vec![item(Channel::Thought, "again")];
    assert_eq!(f.append(&who, &turn, batch()).await.unwrap(), (2, 2, false));
    assert_eq!(f.append(&who, &turn, batch()).await.unwrap(), (3, 3, false));
}
