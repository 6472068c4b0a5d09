//! The current holder inherits the open turns and drafts of a previous holder, and their text is kept (DESIGN §6).

use filrouge_types::{Channel, Clock, ErrorCode, Item, Timestamp, Turn, TurnId, TurnStatus};

use super::drafts::{abandon, advance, assert_no_drafts, delta, put, recorded, stream};
use super::fixture::{Fixture, append, code, finalize, interrupt, item, redact_items, sid, user};
use super::live_writes::{SECOND, TTL, acquire, release, renew, under};
use super::session_writes::{erase, event, metadata, patch, title};
use crate::command::{AFTER_ANY_HEARTBEAT, Outcome, Scope, Write};
use crate::rows::HeadLease;

async fn head_lease(f: &Fixture, who: &Scope) -> HeadLease {
    let id = sid("s");
    let query = f.ledger.query_session(who, &id, |snapshot, scope, id| {
        Ok(snapshot.get(scope, id)?.head.lease)
    });
    query.await.unwrap()
}

/// Whether the caller holds the session and the previous holder left the turn open.
async fn is_inherited(f: &Fixture, who: &Scope, turn: TurnId) -> bool {
    let (id, now) = (sid("s"), f.clock.now());
    let query = f
        .ledger
        .query_session(who, &id, move |snapshot, scope, id| {
            snapshot.is_inherited_turn(scope, id, &turn, now)
        });
    query.await.unwrap()
}

pub async fn the_head_records_when_a_fence_was_granted(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    assert_eq!(head_lease(f, &who).await.since, Timestamp::from_micros(0));
    let begun = f.clock.now();
    let fence = f.acquire_lease(&who, "s", "a").await;
    for write in [
        acquire("s", "a"),
        renew("s", "a", fence, 60),
        release("s", "a", fence),
    ] {
        f.clock.advance(SECOND);
        f.write_lease(&who, write).await.unwrap();
        assert_eq!(
            head_lease(f, &who).await.since,
            begun,
            "the start of this fence"
        );
    }
    f.clock.advance(SECOND);
    f.acquire_lease(&who, "s", "a").await;
    assert_eq!(head_lease(f, &who).await.since, f.clock.now());
    f.assert_intact().await;
}

pub async fn turns_of_the_previous_holder_are_recognized(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let older = under(&who, f.acquire_lease(&who, "s", "a").await);
    let turn = f.start(&older, "s", "r").await.turn_id;
    let spoken = f.start(&older, "s", "spoken").await.turn_id;
    f.clock.advance(SECOND);
    // The turn was written under this fence.
    assert!(!is_inherited(f, &older, turn).await);
    f.clock.advance(TTL * SECOND);
    assert!(!is_inherited(f, &older, turn).await);
    let newer = under(&who, f.acquire_lease(&who, "s", "b").await);
    for (scope, left) in [(&who, false), (&older, false), (&newer, true)] {
        assert_eq!(is_inherited(f, scope, turn).await, left);
        assert_eq!(is_inherited(f, scope, spoken).await, left);
    }
    f.clock.advance(SECOND);
    let more = append("s", turn, vec![item(Channel::Plan, "p")], None);
    f.write(&newer, more).await.unwrap();
    assert!(
        !is_inherited(f, &newer, turn).await,
        "the holder works on it"
    );
    let recording = put("s", spoken, stream(1), 0, Vec::new());
    f.write(&newer, recording).await.unwrap();
    assert!(!is_inherited(f, &newer, spoken).await, "and records it");
    f.clock.advance(TTL * SECOND);
    assert!(
        !is_inherited(f, &newer, spoken).await,
        "the session has no holder"
    );
}

/// A turn whose recording by "a" has shown some text, and the scopes of "a" and of "b", the current holder.
async fn previous_holders_draft(f: &Fixture) -> (Turn, Scope, Scope) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let older = under(&who, f.acquire_lease(&who, "s", "a").await);
    let turn = f.start(&older, "s", "r").await;
    let id = turn.turn_id;
    f.write(&older, put("s", id, stream(1), 0, Vec::new()))
        .await
        .unwrap();
    let chunk = put("s", id, stream(1), 1, vec![delta(0, true, "shown")]);
    f.write(&older, chunk).await.unwrap();
    f.clock.advance(SECOND);
    let early = f.write(&older, finalize("s", id, Some("a"))).await;
    assert_eq!(code(early), ErrorCode::StreamOpen, "it is being recorded");
    let early = f
        .write(&older, put("s", id, stream(2), 0, Vec::new()))
        .await;
    assert_eq!(code(early), ErrorCode::StreamOpen);
    f.clock.advance(TTL * SECOND);
    let nobody = f.write(&who, finalize("s", id, Some("a"))).await;
    assert_eq!(code(nobody), ErrorCode::StreamOpen, "without a lease");
    let newer = under(&who, f.acquire_lease(&who, "s", "b").await);
    f.clock.advance(SECOND);
    (turn, older, newer)
}

/// The session's items; the old recording's text follows the question.
async fn items_with_kept_text(f: &Fixture, who: &Scope) -> Vec<Item> {
    let items = f.items(who, "s", 50).await;
    assert_eq!(items[1].body.channel, Channel::Partial);
    assert_eq!(items[1].body.item_id, stream(1).item_id(0));
    assert!(items[1].body.parts.as_str().contains("shown"));
    assert_eq!(
        items
            .iter()
            .filter(|i| i.body.channel == Channel::Partial)
            .count(),
        1
    );
    items
}

pub async fn an_inherited_draft_is_finalized(f: &Fixture) {
    let (turn, older, newer) = previous_holders_draft(f).await;
    let done = f
        .write_turn(&newer, finalize("s", turn.turn_id, Some("answer")))
        .await
        .unwrap();
    assert_eq!(done.status, TurnStatus::Finalized);
    let items = items_with_kept_text(f, &newer).await;
    assert_eq!(items[2].body.channel, Channel::Final);
    assert_no_drafts(f, &newer).await;
    let late = f.write(&older, advance("s", turn.turn_id, stream(1), 0, None));
    assert!(late.await.is_err());
    let again = finalize("s", turn.turn_id, Some("answer"));
    assert!(f.write_turn(&newer, again).await.unwrap().replayed);
    f.assert_intact().await;
}

pub async fn an_inherited_draft_is_appended_to(f: &Fixture) {
    let (turn, _, newer) = previous_holders_draft(f).await;
    let mut plan = item(Channel::Plan, "p");
    plan.item_id = filrouge_types::ItemId::new("plan").ok();
    let write = append("s", turn.turn_id, vec![plan], Some(1));
    for replayed in [false, true] {
        let outcome = f.write(&newer, write.clone()).await.unwrap();
        let Outcome::Appended {
            first_seq,
            last_seq,
            replayed: again,
            written,
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!((first_seq, last_seq, again), (3, 3, replayed));
        let range = written.map(|range| (range.first_seq, range.last_seq));
        assert_eq!(
            range,
            (!replayed).then_some((2, 3)),
            "all items that were written"
        );
    }
    let items = items_with_kept_text(f, &newer).await;
    assert_eq!(items[2].body.channel, Channel::Plan);
    assert_no_drafts(f, &newer).await;
    f.write(&newer, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    f.assert_intact().await;
}

pub async fn an_inherited_draft_is_replaced_by_a_recording(f: &Fixture) {
    let (turn, older, newer) = previous_holders_draft(f).await;
    let id = turn.turn_id;
    let begins = put("s", id, stream(2), 0, Vec::new());
    for _ in 0..2 {
        f.write(&newer, begins.clone()).await.unwrap();
    }
    items_with_kept_text(f, &newer).await;
    let continued = put("s", id, stream(2), 1, vec![delta(0, true, "more")]);
    f.write(&newer, continued).await.unwrap();
    // The current holder has inherited the turn.
    let other = f
        .write(&newer, put("s", id, stream(3), 0, Vec::new()))
        .await;
    assert_eq!(code(other), ErrorCode::StreamOpen);
    let late = f
        .write(&older, put("s", id, stream(1), 2, Vec::new()))
        .await;
    assert_eq!(code(late), ErrorCode::StaleFence);
    let early = f.write(&newer, finalize("s", id, Some("a"))).await;
    assert_eq!(code(early), ErrorCode::StreamOpen);
    f.write(&newer, recorded("s", id, stream(2), "answer"))
        .await
        .unwrap();
    items_with_kept_text(f, &newer).await;
    assert_no_drafts(f, &newer).await;
    f.assert_intact().await;
}

/// An ended recording does not interrupt a turn that the holder continues.
pub async fn the_end_of_a_recording_does_not_interrupt_the_holder(f: &Fixture) {
    let (turn, _, newer) = previous_holders_draft(f).await;
    let id = turn.turn_id;
    f.append(&newer, &turn, vec![item(Channel::Plan, "p")])
        .await
        .unwrap();
    f.write(&newer, put("s", id, stream(2), 0, Vec::new()))
        .await
        .unwrap();
    f.clock.advance(1);
    for writer in [stream(1), stream(2)] {
        let outcome = f
            .write(&user("ann"), abandon("s", id, writer, i64::MAX))
            .await;
        assert_eq!(outcome.unwrap(), Outcome::Interrupted(None));
    }
    f.clock.advance(TTL * SECOND);
    let outcome = f
        .write(&user("ann"), abandon("s", id, stream(2), i64::MAX))
        .await;
    assert!(matches!(outcome.unwrap(), Outcome::Interrupted(Some(_))));
    f.assert_intact().await;
}

/// Only the holder may declare turns of the session abandoned.
pub async fn an_inherited_turn_is_interrupted_by_the_holder(f: &Fixture) {
    let (turn, older, newer) = previous_holders_draft(f).await;
    let asked = f.start(&newer, "s", "asked").await.turn_id;
    let ended = |turn| interrupt("s", turn, AFTER_ANY_HEARTBEAT.as_micros());
    for turn in [turn.turn_id, asked] {
        for who in [&user("ann"), &older] {
            let outcome = f.write(who, ended(turn)).await;
            assert_eq!(outcome.unwrap(), Outcome::Interrupted(None));
        }
        let outcome = f.write(&newer, ended(turn)).await;
        assert!(matches!(outcome.unwrap(), Outcome::Interrupted(Some(_))));
        let interrupted = f.ledger.turn(&newer, &sid("s"), turn).await;
        assert_eq!(interrupted.unwrap().status, TurnStatus::Interrupted);
    }
    let shown = f.items(&newer, "s", 50).await;
    let shown = shown.iter().filter(|i| i.body.channel == Channel::Partial);
    assert_eq!(shown.count(), 1, "what was shown is kept");
    f.assert_intact().await;
}

/// A write that needs no fence is refused under a fence that is not current.
pub async fn a_given_fence_must_be_current(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let older = f.acquire_lease(&who, "s", "a").await;
    f.clock.advance(TTL * SECOND);
    let fence = f.acquire_lease(&who, "s", "b").await;
    let record_event = |key: &str| Write::RecordEvent(Box::new(event("s", key, "kind")));
    let writes = [
        patch("s", title("t")),
        patch("s", metadata(r#"{"a":1}"#)),
        record_event("k"),
    ];
    let position = f.ledger.position();
    for (over, newest) in [(false, None), (true, Some(ErrorCode::LeaseExpired))] {
        if over {
            f.clock.advance(TTL * SECOND);
        }
        for write in &writes {
            for wrong in [0, older, fence + 1] {
                let refused = f.write(&under(&who, wrong), write.clone()).await;
                assert_eq!(code(refused), ErrorCode::StaleFence, "{write:?}");
            }
            if let Some(expected) = newest {
                let refused = f.write(&under(&who, fence), write.clone()).await;
                assert_eq!(code(refused), expected, "{write:?}");
            }
        }
    }
    assert_eq!(f.ledger.position(), position);
    let fence = f.acquire_lease(&who, "s", "c").await;
    for write in &writes {
        f.write(&under(&who, fence), write.clone()).await.unwrap();
        // A write that was done before is replayed.
        f.write(&under(&who, older), write.clone()).await.unwrap();
    }
    // Redaction and erasure are possible under any fence.
    for write in [redact_items("s", &[(1, 1)]), erase("s")] {
        f.write(&under(&who, older), write).await.unwrap();
    }
    f.assert_intact().await;
}
