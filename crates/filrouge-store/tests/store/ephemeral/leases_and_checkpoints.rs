//! Leases and checkpoints of ephemeral sessions: their limits, and their adoption by the ledger at a login.

use std::sync::Arc;

use filrouge_store::command::{Adopt, SideRows, Write};
use filrouge_store::contract::Fixture;
use filrouge_store::contract::differential::memory;
use filrouge_store::contract::fixture::{
    anyone, cmd, code, finalize, keyed, operator, sid, start_with, user,
};
use filrouge_store::contract::live_writes::{
    SECOND, TTL, acquire, checkpoint, keeping, release, under,
};
use filrouge_store::contract::session_writes::link;
use filrouge_store::hot::{FieldRetention, HotBounds, ItemRetention};
use filrouge_types::ErrorCode;

use crate::ephemeral::store::{Store, YEARS};

const CONVERSATION: FieldRetention = FieldRetention {
    metadata: None,
    record: ItemRetention::Conversation,
};

/// Writes two turns, each with a question, two observations and an answer, and a checkpoint at every seq of `seqs`.
async fn write_session(f: &Fixture, seqs: &[u64]) {
    for request in ["r1", "r2"] {
        let complete = start_with(&anyone(), "s", request, "q", Some("a"), |_, items| {
            let observation = |n| keyed(&format!("{request} {n}"), "o");
            items.splice(1..1, [observation(1), observation(2)]);
        });
        f.try_start(&anyone(), complete).await.unwrap();
    }
    for seq in seqs {
        let state = format!(r#"{{ "n":{seq}.0 }}"#);
        let write = keeping(9, "s", Some(*seq), Some("WAIT"), &state);
        f.write_checkpoint(&anyone(), write).await.unwrap();
    }
}

/// A ledger that has adopted a session.
async fn adopting_ledger(store: &Store, adopt: Adopt) -> Fixture {
    let adopter = memory(store.keyring.clone());
    adopt_into(&adopter, adopt).await;
    adopter
}

async fn adopt_into(adopter: &Fixture, adopt: Adopt) {
    let write = Write::Adopt(Arc::new(adopt));
    let adopted = adopter.ledger.write(cmd(&operator("t"), write)).await;
    adopted.unwrap();
    adopter.assert_intact().await;
}

#[tokio::test]
async fn the_ledger_adopts_leases_and_checkpoints() {
    let (store, who, ann) = (Store::with_large_bounds(), anyone(), user("ann"));
    let f = store.fixture();
    write_session(&f, &[1, 4, 7, 8]).await;
    let fence = f.acquire_lease(&who, "s", "before").await;
    f.write_lease(&who, release("s", "before", fence))
        .await
        .unwrap();
    let fence = f.acquire_lease(&who, "s", "a").await;
    f.write_session(&ann, link("s", "ann")).await.unwrap();

    let (_, all) = store
        .extract("s", &FieldRetention::default())
        .await
        .unwrap()
        .unwrap();
    let adopter = adopting_ledger(&store, all.clone()).await;
    assert_eq!(adopter.lease(&ann, "s").await, f.lease(&ann, "s").await);
    assert_eq!(
        adopter.checkpoints(&ann, "s").await,
        f.checkpoints(&ann, "s").await
    );

    // In the adopting ledger, too, only the lease holder may continue the session.
    let refused = adopter.write_lease(&ann, acquire("s", "b")).await;
    assert_eq!(code(refused), ErrorCode::LeaseTimeout);
    adopter
        .complete_turn(&under(&ann, fence), "s", "r3", "a")
        .await;
    adopter.clock.advance(TTL * SECOND);
    let next = adopter.acquire_lease(&ann, "s", "b").await;
    assert!(next > fence);
    // A repeated adoption changes nothing.
    adopt_into(&adopter, all).await;
    let lease = adopter.lease(&ann, "s").await.unwrap();
    assert_eq!((lease.fence, lease.holder.as_deref()), (next, Some("b")));
    assert_eq!(adopter.checkpoint_seqs(&ann, "s").await, [8, 7, 4, 1]);
}

/// An adopted checkpoint covers those of its items that are kept. Of two checkpoints that then cover the same items,
/// the newer one is kept.
#[tokio::test]
async fn checkpoints_cover_the_kept_items() {
    let store = Store::with_large_bounds();
    let f = store.fixture();
    // Items 1, 4, 5 and 8 are kept and renumbered to 1, 2, 3 and 4.
    write_session(&f, &[0, 1, 2, 3, 4, 5, 7, 8]).await;
    let (_, adopt) = store.extract("s", &CONVERSATION).await.unwrap().unwrap();
    assert_eq!(adopt.items.len(), 4);
    let adopter = adopting_ledger(&store, adopt).await;
    let checkpoints = adopter.checkpoints(&anyone(), "s").await.unwrap();
    let checkpoints: Vec<_> = checkpoints.into_iter().map(Result::unwrap).collect();
    let state = |n: u64| format!(r#"{{ "n":{n}.0 }}"#);
    let states: Vec<_> = checkpoints
        .iter()
        .map(|c| (c.seq, c.state.as_str()))
        .collect();
    let expected = [
        (4, state(8)),
        (3, state(7)),
        (2, state(4)),
        (1, state(3)),
        (0, state(0)),
    ];
    assert_eq!(states, expected.each_ref().map(|(n, s)| (*n, s.as_str())));
    let (put, _) = adopter
        .write_checkpoint(&anyone(), checkpoint("s", None, None, r#"{ "n":8.0 }"#))
        .await
        .map_or((false, false), |done| (done.1, true));
    assert!(!put, "the newest one has another label");
    adopter.complete_turn(&anyone(), "s", "r3", "a").await;
    adopter
        .write_checkpoint(&anyone(), checkpoint("s", None, None, "{}"))
        .await
        .unwrap();
    adopter.assert_intact().await;
}

#[tokio::test]
async fn trimmed_turns_are_not_adopted() {
    let (store, who) = (Store::with_max_turns(2), anyone());
    let f = store.fixture();
    write_session(&f, &[2, 4]).await;
    for n in 0..3 {
        let turn = f.complete_turn(&who, "s", &format!("more{n}"), "a").await;
        let write = checkpoint("s", Some(turn.last_seq), Some("L"), "{}");
        f.write_checkpoint(&who, write).await.unwrap();
        let newest = f.newest_checkpoint(&who, "s").await.checkpoint.unwrap();
        assert_eq!(newest.seq, turn.last_seq);
    }
    let (_, adopt) = store
        .extract("s", &FieldRetention::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(adopt.items.len(), 4);
    let adopter = adopting_ledger(&store, adopt).await;
    assert_eq!(adopter.checkpoint_seqs(&who, "s").await, [4, 2, 0]);
}

#[tokio::test]
async fn a_session_without_leases_is_adopted_without_any() {
    let store = Store::with_large_bounds();
    let f = store.fixture();
    f.complete_turn(&anyone(), "s", "r", "a").await;
    let (_, adopt) = store
        .extract("s", &FieldRetention::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(adopt.side_rows, SideRows::default());
    // A session that is adopted with only its items has no lease or checkpoints either.
    let first_adopter = adopting_ledger(&store, adopt).await;
    first_adopter.acquire_lease(&anyone(), "s", "a").await;
    let only_items = first_adopter.adopt_command_for(&anyone(), "s").await;
    let adopter = adopting_ledger(&store, only_items).await;
    let lease = adopter.lease(&anyone(), "s").await.unwrap();
    assert!(lease.fence == 0 && lease.holder.is_none());
}

/// Random text, which cannot be compressed.
fn words(n: u64, length: usize) -> String {
    let (mut state, mut text) = (n, String::new());
    while text.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text += &format!("{:08x}", state >> 32);
    }
    text
}

/// Checkpoints count as bytes of a session: older turns are dropped for them, and a checkpoint that does not fit is
/// refused.
#[tokio::test]
async fn checkpoints_count_as_bytes() {
    let (store, who) = (
        Store::new(HotBounds {
            ttl: YEARS,
            turns: 1 << 20,
            bytes: 20_000,
        }),
        anyone(),
    );
    let f = store.fixture();
    for n in 0..3 {
        f.complete_turn(&who, "s", &format!("r{n}"), &words(n, 8000))
            .await;
    }
    let state = |n: usize| format!(r#"{{"x":"{}"}}"#, "x".repeat(n));
    let large = checkpoint("s", None, None, &state(30_000));
    let refused = f.write_checkpoint(&who, large).await;
    assert_eq!(code(refused), ErrorCode::LimitExceeded);
    assert!(f.checkpoint_seqs(&who, "s").await.is_empty());
    let query = filrouge_store::read::TurnQuery {
        limit: 9,
        ..Default::default()
    };
    let count = async || {
        let turns = f.ledger.turns(&who, &sid("s"), query.clone()).await;
        turns.unwrap().0.len()
    };
    assert_eq!(count().await, 3, "a refused checkpoint deletes nothing");
    let fits = checkpoint("s", None, None, &state(12_000));
    f.write_checkpoint(&who, fits).await.unwrap();
    assert!((1..3).contains(&count().await));
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [6]);
    let turn = f.start(&who, "s", "next").await;
    let done = f
        .write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await;
    done.unwrap();
}

/// A store that lost a session has lost its fences: the next session of this name must not reuse them.
#[tokio::test]
async fn fences_are_never_reused() {
    let who = anyone();
    let (before, after) = (
        Store::with_large_bounds().fixture(),
        Store::with_large_bounds().fixture(),
    );
    let mut fences = Vec::new();
    for f in [&before, &after] {
        f.create(&who, "s").await.unwrap();
        let fence = f.acquire_lease(&who, "s", "a").await;
        f.write_lease(&who, release("s", "a", fence)).await.unwrap();
        assert_eq!(f.acquire_lease(&who, "s", "a").await, fence + 1);
        assert!(fence < 1 << 53);
        fences.extend([fence, fence + 1]);
        after.clock.advance(SECOND);
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    for old in &fences[..2] {
        let start = start_with(&under(&who, *old), "s", "r", "q", None, |_, _| {});
        let refused = after.try_start(&under(&who, *old), start).await;
        assert_eq!(code(refused), ErrorCode::StaleFence);
    }
}
