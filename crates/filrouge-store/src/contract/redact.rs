//! Redaction erases contents and keeps all other data provable (DESIGN §9).

use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, Item, Turn, TurnId, TurnStatus};

use super::fixture::{
    Fixture, anyone, cancel, code, finalize, interrupt, item, keyed, operator, redact,
    redact_items, replacement, sid, start_with, text, user,
};
use crate::command::{RedactionTarget, Scope, Write};
use crate::read::TurnQuery;
use crate::record::Seqs;

async fn listed_turns(
    f: &Fixture,
    who: &Scope,
    session: &str,
    include_redacted: bool,
) -> Vec<Turn> {
    let query = TurnQuery {
        include_redacted,
        limit: 100,
        ..TurnQuery::default()
    };
    f.ledger.turns(who, &sid(session), query).await.unwrap().0
}

fn redacted_seqs(items: &[Item]) -> Vec<u64> {
    let redacted = items.iter().filter(|i| i.redacted);
    redacted
        .map(|i| {
            assert_eq!(i.body.parts.as_str(), "[]");
            i.seq
        })
        .collect()
}

pub async fn a_turn_is_redacted(f: &Fixture) {
    let who = user("ann");
    let before = f.complete_turn(&who, "s", "r0", "kept answer").await;
    let turn = f
        .complete_turn(&who, "s", "secret question", "secret answer")
        .await;
    let items = f.items(&who, "s", 50).await;
    f.clock.advance(1000);
    let write = redact("s", RedactionTarget::Turn(turn.turn_id));
    let receipt = f.write_redaction(&who, write).await.unwrap();
    assert_eq!(receipt.seqs, Seqs::from_ranges([(3, 4)]).unwrap());
    assert_eq!((receipt.redaction_seq, receipt.replayed), (5, false));
    let redacted = *receipt.turn.unwrap();
    assert_eq!(redacted.deleted_at, Some(receipt.at));
    assert_eq!(
        (&redacted.question_neutral, &redacted.answer_neutral),
        (&None, &None)
    );
    let kept = Turn {
        question_neutral: turn.question_neutral.clone(),
        answer_neutral: turn.answer_neutral.clone(),
        deleted_at: None,
        ..redacted.clone()
    };
    assert_eq!(kept, turn, "everything except the texts is unchanged");
    let shown = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
    assert_eq!(shown, redacted);

    let now = f.items(&who, "s", 50).await;
    assert_eq!(redacted_seqs(&now), [3, 4]);
    assert_eq!(now[..2], items[..2]);
    for (old, new) in items.iter().zip(&now).skip(2) {
        let mut back = Item {
            redacted: false,
            ..new.clone()
        };
        back.body.parts = old.body.parts.clone();
        assert_eq!(back, *old);
    }
    let redaction_item = &now[4];
    assert_eq!(
        (&redaction_item.body.channel, redaction_item.turn_id),
        (&Channel::Redaction, None)
    );
    assert_eq!(redaction_item.created_at, receipt.at);
    let parts = format!(
        r#"[{{"type":"redaction","seqs":[[3,4]],"turn_id":"{}","by":"operator","reason":"on \"request\""}}]"#,
        turn.turn_id
    );
    assert_eq!(redaction_item.body.parts.as_str(), parts);

    assert_eq!(
        listed_turns(f, &who, "s", true).await,
        [before.clone(), redacted]
    );
    assert_eq!(listed_turns(f, &who, "s", false).await, [before]);
    let after = f.complete_turn(&who, "s", "r2", "later").await;
    assert_eq!((after.ordinal, after.first_seq), (3, 6));
    f.assert_intact().await;
}

pub async fn every_version_is_redacted(f: &Fixture) {
    let who = anyone();
    let first = f.complete_turn(&who, "s", "r", "one").await;
    f.complete_turn(&who, "s", "other", "other").await;
    let replaced = async |request: &str, old: TurnId| {
        f.write_turn(&who, replacement(&who, "s", request, old, request))
            .await
            .unwrap()
    };
    let second = replaced("r2", first.turn_id).await;
    let third = replaced("r3", second.turn_id).await;
    let redacted = f.redact_turn(&who, &second).await.unwrap();
    assert_eq!(redacted.turn_id, second.turn_id);
    assert_eq!(redacted.replaced_by_turn_id, Some(third.turn_id));
    assert_eq!(
        redacted_seqs(&f.items(&who, "s", 3).await),
        [1, 2, 5, 6, 7, 8]
    );
    for turn in [&first, &second, &third] {
        let shown = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
        assert_eq!(shown.deleted_at, redacted.deleted_at);
    }
    let names: Vec<String> = listed_turns(f, &who, "s", false)
        .await
        .iter()
        .map(|t| t.request_id.to_string())
        .collect();
    assert_eq!(names, ["other"]);
    // A corrected version may still be written; the next redaction covers it as well.
    let clean = replaced("clean", third.turn_id).await;
    assert_eq!((clean.ordinal, clean.deleted_at), (1, None));
    f.clock.advance(10);
    f.redact_turn(&who, &first).await.unwrap();
    let shown = f.ledger.turn(&who, &sid("s"), clean.turn_id).await.unwrap();
    assert!(shown.deleted_at > redacted.deleted_at);
    assert_eq!(shown.answer_neutral, None);
    f.assert_intact().await;
}

pub async fn invalid_redactions_are_refused(f: &Fixture) {
    let who = anyone();
    let open = f.start(&who, "s", "r").await;
    let done = f.complete_turn(&who, "s", "done", "a").await;
    let elsewhere = f.complete_turn(&who, "elsewhere", "r", "a").await;
    let position = f.ledger.position();
    let refused = f.redact_turn(&who, &open).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::TurnOpen);
    assert!(refused.hint.is_some());
    let refusal_code = async |session: &str, target: RedactionTarget| {
        code(f.write_redaction(&who, redact(session, target)).await)
    };
    let turn = RedactionTarget::Turn;
    assert_eq!(
        refusal_code("s", turn(TurnId::from_derived([1; 16]))).await,
        ErrorCode::TurnNotFound
    );
    assert_eq!(
        refusal_code("s", turn(elsewhere.turn_id)).await,
        ErrorCode::TurnMismatch
    );
    assert_eq!(
        refusal_code("nowhere", turn(done.turn_id)).await,
        ErrorCode::SessionNotFound
    );
    let items = async |ranges: &[(u64, u64)]| {
        let seqs = Seqs::from_ranges(ranges.iter().copied()).unwrap();
        refusal_code("s", RedactionTarget::Items(seqs)).await
    };
    assert_eq!(items(&[]).await, ErrorCode::Invalid);
    assert_eq!(items(&[(1, 4)]).await, ErrorCode::Invalid);
    assert_eq!(items(&[(1, 1), (99, 99)]).await, ErrorCode::Invalid);
    assert_eq!(items(&[(1, u64::MAX)]).await, ErrorCode::Invalid);
    assert_eq!(
        f.ledger.position(),
        position,
        "a refused redaction changes nothing"
    );
    f.redact_turn(&who, &done).await.unwrap();
    assert_eq!(items(&[(4, 4)]).await, ErrorCode::Invalid, "a redaction");
    assert_eq!(items(&[(1, 4)]).await, ErrorCode::Invalid);
    f.write_turn(&who, cancel("s", open.turn_id)).await.unwrap();
    f.redact_turn(&who, &open).await.unwrap();
    f.assert_intact().await;
}

pub async fn a_repeated_redaction_is_replayed(f: &Fixture) {
    let who = anyone();
    let turn = f.complete_turn(&who, "s", "r", "a").await;
    let first = f.redact_turn(&who, &turn).await.unwrap();
    let one = f.write_redaction(&who, redact_items("s", &[(2, 2)])).await;
    let one = one.unwrap();
    assert_eq!((one.redaction_seq, one.replayed), (3, true));
    let position = f.ledger.position();
    f.clock.advance(5);
    let again = f.redact_turn(&who, &turn).await.unwrap();
    assert!(again.replayed);
    assert_eq!(
        Turn {
            replayed: false,
            ..again
        },
        first
    );
    let both = f.write_redaction(&who, redact_items("s", &[(1, 2)])).await;
    let both = both.unwrap();
    assert!(both.replayed);
    assert_eq!((Some(both.at), both.turn), (first.deleted_at, None));
    assert_eq!(f.ledger.position(), position, "nothing was written");
    assert_eq!(f.last_seq(&who, "s").await, 3);
    f.assert_intact().await;
}

pub async fn items_of_an_open_turn_are_redacted(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "the question").await;
    let plans = ["one", "two", "three"].map(|w| item(Channel::Plan, w));
    f.append(&who, &turn, plans.to_vec()).await.unwrap();
    let write = redact_items("s", &[(3, 3), (1, 1)]);
    let receipt = f.write_redaction(&who, write).await.unwrap();
    assert_eq!((receipt.redaction_seq, receipt.turn), (5, None));
    let items = f.items(&who, "s", 2).await;
    assert_eq!(redacted_seqs(&items), [1, 3]);
    assert_eq!(items[1].body.parts, text("one"));
    let shown = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
    assert_eq!((shown.question_neutral, shown.deleted_at), (None, None));
    assert_eq!((shown.status, shown.last_seq), (TurnStatus::Open, 4));
    f.append(&who, &turn, vec![item(Channel::Plan, "four")])
        .await
        .unwrap();
    let write = redact_items("s", &[(3, 4), (6, 6)]);
    assert_eq!(
        f.write_redaction(&who, write).await.unwrap().redaction_seq,
        7
    );
    f.assert_intact().await;
    let done = finalize("s", turn.turn_id, Some("answer"));
    let done = f.write_turn(&who, done).await.unwrap();
    assert_eq!((done.deleted_at, done.last_seq), (None, 8));
    assert!(done.answer_neutral.is_some());
    f.assert_intact().await;
}

/// Redacting all items of an ended turn redacts the turn; for an open turn, it redacts only the items.
pub async fn redacting_all_items_of_an_ended_turn_redacts_the_turn(f: &Fixture) {
    let who = anyone();
    let one = f.complete_turn(&who, "s", "r1", "a").await;
    let two = f.complete_turn(&who, "s", "r2", "a").await;
    let open = f.start(&who, "s", "open").await;
    let write = redact_items("s", &[(1, 3), (5, 5)]);
    f.write_redaction(&who, write).await.unwrap();
    let deleted = async |turn: &Turn| {
        let turn = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
        turn.deleted_at.is_some()
    };
    assert!(deleted(&one).await);
    assert!(!deleted(&two).await && !deleted(&open).await);
    f.assert_intact().await;
    f.write(&who, interrupt("s", open.turn_id, i64::MAX))
        .await
        .unwrap();
    assert!(!deleted(&open).await);
    // One redaction must name all of them.
    f.write_redaction(&who, redact_items("s", &[(4, 4)]))
        .await
        .unwrap();
    assert!(!deleted(&two).await);
    let again = f.write_redaction(&who, redact_items("s", &[(3, 4)])).await;
    assert!(again.unwrap().replayed);
    assert!(f.redact_turn(&who, &two).await.is_ok() && deleted(&two).await);
    f.assert_intact().await;
}

pub async fn a_partly_redacted_turn_is_redacted(f: &Fixture) {
    let who = anyone();
    let turn = f.complete_turn(&who, "s", "r", "a").await;
    f.write_redaction(&who, redact_items("s", &[(2, 2)]))
        .await
        .unwrap();
    let shown = f.ledger.turn(&who, &sid("s"), turn.turn_id).await.unwrap();
    assert_eq!((shown.answer_neutral, shown.deleted_at), (None, None));
    assert!(shown.question_neutral.is_some());
    let redacted = f.redact_turn(&who, &turn).await.unwrap();
    assert!(redacted.deleted_at.is_some() && !redacted.replayed);
    assert_eq!(redacted_seqs(&f.items(&who, "s", 9).await), [1, 2]);
    f.assert_intact().await;
}

pub async fn a_redacted_turn_is_not_reopened(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, vec![keyed("k", "words")])
        .await
        .unwrap();
    f.write(&who, interrupt("s", turn.turn_id, i64::MAX))
        .await
        .unwrap();
    let redacted = f.redact_turn(&who, &turn).await.unwrap();
    assert_eq!(redacted.status, TurnStatus::Interrupted);
    let again = f.start(&who, "s", "r").await;
    assert_eq!(
        (again.status, again.replayed, again.differs),
        (TurnStatus::Interrupted, true, false)
    );
    assert_eq!(again.deleted_at, redacted.deleted_at);
    let late = f.append(&who, &turn, vec![keyed("k2", "late")]).await;
    assert_eq!(code(late), ErrorCode::TurnClosed);
    assert_eq!(f.last_seq(&who, "s").await, 4);
    f.assert_intact().await;
}

/// A start that imports a history does not replace a redacted turn.
pub async fn imported_history_does_not_replace_a_redacted_turn(f: &Fixture) {
    let who = anyone();
    let turn = f.complete_turn(&who, "s", "r", "a").await;
    f.redact_turn(&who, &turn).await.unwrap();
    let mut history = start_with(&who, "s", "r~2", "q", Some("a"), |event, _| {
        event.replaces = Some(turn.turn_id);
    });
    history.reopen = false;
    let refused = f.write_turn(&who, Write::Start(Arc::new(history))).await;
    assert_eq!(code(refused), ErrorCode::TurnRedacted);
    assert_eq!(f.last_seq(&who, "s").await, 3);
    f.assert_intact().await;
}

pub async fn only_owners_and_operators_redact(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    let turn = f.complete_turn(&ann, "anns", "r", "a").await;
    for stranger in [bob.clone(), anyone(), operator("u")] {
        let refused = f.redact_turn(&stranger, &turn).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::SessionNotFound);
        let items = f
            .write_redaction(&stranger, redact_items("anns", &[(1, 1)]))
            .await;
        assert_eq!(code(items), ErrorCode::SessionNotFound);
    }
    f.complete_turn(&bob, "bobs", "r", "a").await;
    let write = |id| redact("bobs", RedactionTarget::Turn(id));
    let foreign = f
        .write_redaction(&bob, write(turn.turn_id))
        .await
        .unwrap_err();
    assert_eq!(foreign.code, ErrorCode::TurnNotFound);
    assert_eq!(redacted_seqs(&f.items(&ann, "anns", 9).await), [0; 0]);
    f.redact_turn(&operator("t"), &turn).await.unwrap();
    assert_eq!(redacted_seqs(&f.items(&ann, "anns", 9).await), [1, 2]);
    f.assert_intact().await;
}
