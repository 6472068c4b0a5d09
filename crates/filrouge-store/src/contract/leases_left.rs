//! What was left behind by who held a session before (DESIGN §6): it is the holder's, and what it shows is kept.

use filrouge_types::{Channel, Clock, ErrorCode, Item, Timestamp, Turn, TurnId, TurnStatus};

use super::asks::{erase, event, metadata, patch, title};
use super::drafts::{abandon, advance, delta, none_left, put, recorded, stream};
use super::fixture::{Fixture, append, code, finalize, interrupt, item, redact_items, sid, user};
use super::live_asks::{SECOND, TTL, acquire, release, renew, under};
use crate::command::{Outcome, SINCE_EVER, Scope, Write};
use crate::rows::HeadLease;

async fn head(f: &Fixture, who: &Scope) -> HeadLease {
    let (viewer, id, of) = (who.clone(), sid("s"), sid("s"));
    let ask = f.ledger.ask_in(who, &of, move |sight| {
        Ok(sight.get(&viewer, &id)?.head.lease)
    });
    ask.await.unwrap()
}

/// Whether the turn is the asker's to work at.
async fn is_left(f: &Fixture, who: &Scope, turn: TurnId) -> bool {
    let (viewer, id, now) = (who.clone(), sid("s"), f.clock.now());
    let of = id.clone();
    let ask = f.ledger.ask_in(who, &of, move |sight| {
        sight.is_left_turn(&viewer, &id, &turn, now)
    });
    ask.await.unwrap()
}

pub async fn since_when(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    assert_eq!(head(f, &who).await.since, Timestamp::from_micros(0));
    let begun = f.clock.now();
    let fence = f.held(&who, "s", "a").await;
    for write in [
        acquire("s", "a"),
        renew("s", "a", fence, 60),
        release("s", "a", fence),
    ] {
        f.clock.advance(SECOND);
        f.taken(&who, write).await.unwrap();
        assert_eq!(head(f, &who).await.since, begun, "of this fence");
    }
    f.clock.advance(SECOND);
    f.held(&who, "s", "a").await;
    assert_eq!(head(f, &who).await.since, f.clock.now());
    f.intact().await;
}

pub async fn turns_of_who_held_it_before(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let older = under(&who, f.held(&who, "s", "a").await);
    let turn = f.start(&older, "s", "r").await.turn_id;
    let spoken = f.start(&older, "s", "spoken").await.turn_id;
    f.clock.advance(SECOND);
    // It is worked at under this fence.
    assert!(!is_left(f, &older, turn).await);
    f.clock.advance(TTL * SECOND);
    assert!(!is_left(f, &older, turn).await);
    let newer = under(&who, f.held(&who, "s", "b").await);
    for (scope, left) in [(&who, false), (&older, false), (&newer, true)] {
        assert_eq!(is_left(f, scope, turn).await, left);
        assert_eq!(is_left(f, scope, spoken).await, left);
    }
    f.clock.advance(SECOND);
    let more = append("s", turn, vec![item(Channel::Plan, "p")], None);
    f.write(&newer, more).await.unwrap();
    assert!(!is_left(f, &newer, turn).await, "the holder is at it");
    let recording = put("s", spoken, stream(1), 0, Vec::new());
    f.write(&newer, recording).await.unwrap();
    assert!(!is_left(f, &newer, spoken).await, "and records it");
    f.clock.advance(TTL * SECOND);
    assert!(!is_left(f, &newer, spoken).await, "it is held by nobody");
}

/// A turn whose recording by "a" has shown something, and the scopes of "a" and of "b", who holds the session now.
async fn overtaken(f: &Fixture) -> (Turn, Scope, Scope) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let older = under(&who, f.held(&who, "s", "a").await);
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
    let newer = under(&who, f.held(&who, "s", "b").await);
    f.clock.advance(SECOND);
    (turn, older, newer)
}

/// The items of the session: what the old recording had shown stands behind the question.
async fn kept(f: &Fixture, who: &Scope) -> Vec<Item> {
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

pub async fn a_left_draft_is_finalized(f: &Fixture) {
    let (turn, older, newer) = overtaken(f).await;
    let done = f
        .turn_of(&newer, finalize("s", turn.turn_id, Some("answer")))
        .await
        .unwrap();
    assert_eq!(done.status, TurnStatus::Finalized);
    let items = kept(f, &newer).await;
    assert_eq!(items[2].body.channel, Channel::Final);
    none_left(f, &newer).await;
    let late = f.write(&older, advance("s", turn.turn_id, stream(1), 0, None));
    assert!(late.await.is_err());
    let again = finalize("s", turn.turn_id, Some("answer"));
    assert!(f.turn_of(&newer, again).await.unwrap().replayed);
    f.intact().await;
}

pub async fn a_left_draft_is_appended_to(f: &Fixture) {
    let (turn, _, newer) = overtaken(f).await;
    let mut plan = item(Channel::Plan, "p");
    plan.item_id = filrouge_types::ItemId::new("plan").ok();
    let write = append("s", turn.turn_id, vec![plan], Some(1));
    for replayed in [false, true] {
        let told = f.write(&newer, write.clone()).await.unwrap();
        let Outcome::Appended {
            first_seq,
            last_seq,
            replayed: again,
            put,
        } = told
        else {
            panic!("{told:?}")
        };
        assert_eq!((first_seq, last_seq, again), (3, 3, replayed));
        let put = put.map(|put| (put.first_seq, put.last_seq));
        assert_eq!(put, (!replayed).then_some((2, 3)), "all that was put");
    }
    let items = kept(f, &newer).await;
    assert_eq!(items[2].body.channel, Channel::Plan);
    none_left(f, &newer).await;
    f.write(&newer, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    f.intact().await;
}

pub async fn a_left_draft_is_recorded_over(f: &Fixture) {
    let (turn, older, newer) = overtaken(f).await;
    let id = turn.turn_id;
    let begins = put("s", id, stream(2), 0, Vec::new());
    for _ in 0..2 {
        f.write(&newer, begins.clone()).await.unwrap();
    }
    kept(f, &newer).await;
    let goes_on = put("s", id, stream(2), 1, vec![delta(0, true, "more")]);
    f.write(&newer, goes_on).await.unwrap();
    // It is the holder's own now, and nobody else's.
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
    kept(f, &newer).await;
    none_left(f, &newer).await;
    f.intact().await;
}

/// A recording that is over does not end the turn that the holder works at since.
pub async fn a_recordings_end_leaves_the_holder_alone(f: &Fixture) {
    let (turn, _, newer) = overtaken(f).await;
    let id = turn.turn_id;
    f.append(&newer, &turn, vec![item(Channel::Plan, "p")])
        .await
        .unwrap();
    f.write(&newer, put("s", id, stream(2), 0, Vec::new()))
        .await
        .unwrap();
    f.clock.advance(1);
    for gone in [stream(1), stream(2)] {
        let told = f
            .write(&user("ann"), abandon("s", id, gone, i64::MAX))
            .await;
        assert_eq!(told.unwrap(), Outcome::Interrupted(None));
    }
    f.clock.advance(TTL * SECOND);
    let told = f
        .write(&user("ann"), abandon("s", id, stream(2), i64::MAX))
        .await;
    assert!(matches!(told.unwrap(), Outcome::Interrupted(Some(_))));
    f.intact().await;
}

/// Whoever holds the session says which of its turns nobody works at, and nobody else does.
pub async fn a_left_turn_is_interrupted_by_the_holder(f: &Fixture) {
    let (turn, older, newer) = overtaken(f).await;
    let asked = f.start(&newer, "s", "asked").await.turn_id;
    let ended = |turn| interrupt("s", turn, SINCE_EVER.as_micros());
    for turn in [turn.turn_id, asked] {
        for who in [&user("ann"), &older] {
            let told = f.write(who, ended(turn)).await;
            assert_eq!(told.unwrap(), Outcome::Interrupted(None));
        }
        let told = f.write(&newer, ended(turn)).await;
        assert!(matches!(told.unwrap(), Outcome::Interrupted(Some(_))));
        let told = f.ledger.turn(&newer, &sid("s"), turn).await;
        assert_eq!(told.unwrap().status, TurnStatus::Interrupted);
    }
    let shown = f.items(&newer, "s", 50).await;
    let shown = shown.iter().filter(|i| i.body.channel == Channel::Partial);
    assert_eq!(shown.count(), 1, "what was shown is kept");
    f.intact().await;
}

/// What needs no fence is refused under one that holds nothing.
pub async fn a_fence_that_is_named_must_hold(f: &Fixture) {
    let who = user("ann");
    f.whole(&who, "s", "r", "a").await;
    let older = f.held(&who, "s", "a").await;
    f.clock.advance(TTL * SECOND);
    let fence = f.held(&who, "s", "b").await;
    let told = |key: &str| Write::RecordEvent(Box::new(event("s", key, "kind")));
    let writes = [
        patch("s", title("t")),
        patch("s", metadata(r#"{"a":1}"#)),
        told("k"),
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
    let fence = f.held(&who, "s", "c").await;
    for write in &writes {
        f.write(&under(&who, fence), write.clone()).await.unwrap();
        // What was done before is answered as before.
        f.write(&under(&who, older), write.clone()).await.unwrap();
    }
    // Whatever holds the session, contents can be taken away.
    for write in [redact_items("s", &[(1, 1)]), erase("s")] {
        f.write(&under(&who, older), write).await.unwrap();
    }
    f.intact().await;
}
