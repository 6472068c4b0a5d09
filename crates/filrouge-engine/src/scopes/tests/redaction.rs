//! Redactions and erasures reach both tiers, and restored older data of the hot store does not undo them.

use std::sync::atomic::Ordering;

use filrouge_store::command::RedactionTarget;
use filrouge_store::hot::HotStore;
use filrouge_store::record::Seqs;
use filrouge_types::ErrorCode;

use super::world::{TierWorld, anonymous, code, operator, sid, user, wait_until};
use crate::caller::Caller;
use crate::scopes::{DurablePolicy, HotReceipt};

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

#[tokio::test]
async fn redaction_removes_hot_copies_at_once() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let turn = process.complete_turn(&ada, &s, "secret").await.unwrap();
    process.complete_turn(&ada, &s, "other").await.unwrap();
    process.tiers.flush().await;
    assert!(contains(&world.hot_bytes(&s).await, "is secret"));
    process.redact(&ada, &s, turn.turn_id).await.unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
    let receipt = process.tiers.receipt(&ada, &s);
    assert_eq!(receipt, HotReceipt::Erased);
    assert_eq!(
        process.page(&ada, &s, 5).await.unwrap(),
        world.page(&ada, &s, 5).await.unwrap()
    );
    // A redaction of items removes the copy, too, and keeps the rest of the turn.
    let other = process.complete_turn(&ada, &s, "more").await.unwrap();
    process.page(&ada, &s, 5).await.unwrap();
    process.tiers.flush().await;
    assert!(contains(&world.hot_bytes(&s).await, "more it is"));
    let seqs = Seqs::from_ranges([(other.last_seq, other.last_seq)]).unwrap();
    process
        .engine
        .erasure
        .redact(
            &Caller::from(&ada),
            s.clone(),
            RedactionTarget::Items(seqs),
            "on request",
        )
        .await
        .unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "more it is"));
    assert_eq!(
        process.page(&ada, &s, 5).await.unwrap(),
        world.page(&ada, &s, 5).await.unwrap()
    );
}

#[tokio::test]
async fn the_receipt_of_an_erasure_lists_the_hot_store() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.complete_turn(&ada, &s, "secret").await.unwrap();
    process.tiers.flush().await;
    process.hot_switch.down.store(true, Ordering::Relaxed);
    let stores = |receipt: crate::Written<crate::ErasureReceipt>| {
        let stores = receipt.into_value().stores.into_iter();
        stores.map(|s| (s.store, s.status)).collect::<Vec<_>>()
    };
    let receipt = process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    assert_eq!(
        stores(receipt),
        [("ledger", "erased"), ("hot", "unreachable")]
    );
    let counts = process.tiers.counts();
    assert_eq!((counts.removals_failed, counts.removals_waiting), (1, 1));
    assert!(contains(&world.hot_bytes(&s).await, "is secret"));
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::SessionErased
    );
    process.hot_switch.down.store(false, Ordering::Relaxed);
    wait_until("the removal is done", async || {
        process.tiers.counts().removals_waiting == 0
    })
    .await;
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
    let receipt = process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    assert_eq!(stores(receipt), [("ledger", "erased"), ("hot", "erased")]);
}

/// Older data of the hot store is restored after a redaction: by a dump, a replica, a failover.
#[tokio::test]
async fn an_older_copy_does_not_restore_a_redacted_turn() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let key = world.key(&s);
    let turn = process.complete_turn(&ada, &s, "secret").await.unwrap();
    process.complete_turn(&ada, &s, "other").await.unwrap();
    process.tiers.flush().await;
    let old = world.hot.recent(&key, 1000).await.unwrap().unwrap();
    process.redact(&ada, &s, turn.turn_id).await.unwrap();
    let restore = || {
        let mut dump = world.dump.lock().unwrap();
        dump.copies.insert(key, old.clone());
    };
    let before = [process.tiers.counts().recent_stale, 0];
    for process in [&process, &world.process()] {
        restore();
        for limit in [1, 2, 5] {
            let page = process.page(&ada, &s, limit).await.unwrap();
            assert_eq!(page, world.page(&ada, &s, limit).await.unwrap());
            assert!(!page.0.concat().contains("secret"));
        }
    }
    assert!(
        process.tiers.counts().recent_stale > before[0],
        "the older copy was read"
    );
    // The turn is not shown even while the ledger, which has recorded the redaction, does not answer.
    restore();
    process.ledger_switch.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::StoreUnavailable
    );
}

#[tokio::test]
async fn an_older_ephemeral_session_does_not_restore_a_redacted_turn() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let s = sid("s");
    let key = world.key(&s);
    let process = world.process();
    let turn = process
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    let old = world.hot.load(&key).await.unwrap().unwrap();
    process
        .redact(&anonymous(), &s, turn.turn_id)
        .await
        .unwrap();
    let new = world.hot.load(&key).await.unwrap().unwrap();
    assert!(new.edition.version > old.edition.version);
    let restore = |loaded: &filrouge_store::hot::HotSession| {
        let mut dump = world.dump.lock().unwrap();
        dump.sessions.insert(key, loaded.clone());
    };
    // A version as new as the redaction is used; an older one is removed by the process that finds it.
    for process in [&process, &world.process()] {
        restore(&new);
        let turns = process.turns(&anonymous(), &s).await.unwrap();
        assert!(turns[0].deleted_at.is_some() && turns[0].question_neutral.is_none());
        restore(&old);
        assert_eq!(
            code(process.turns(&anonymous(), &s).await),
            ErrorCode::SessionNotFound
        );
        assert!(world.dump.lock().unwrap().sessions.is_empty());
    }
    // Neither another incarnation of the session nor a login restores the contents.
    let other = world.process();
    let again = other
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    other.redact(&anonymous(), &s, again.turn_id).await.unwrap();
    restore(&old);
    let login = world.process();
    login
        .complete_turn(&user("ada"), &s, "of ada")
        .await
        .unwrap();
    assert_eq!(login.turns(&user("ada"), &s).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_erased_ephemeral_session_is_not_restored() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let s = sid("s");
    let key = world.key(&s);
    let process = world.process();
    process
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    let old = world.hot.load(&key).await.unwrap().unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&anonymous()), s.clone())
        .await
        .unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
    assert_eq!(
        code(process.turns(&anonymous(), &s).await),
        ErrorCode::SessionErased
    );
    world.dump.lock().unwrap().sessions.insert(key, old);
    let other = world.process();
    assert_eq!(
        code(other.turns(&anonymous(), &s).await),
        ErrorCode::SessionNotFound
    );
}

/// Without its note in the ledger, a redaction is not acknowledged.
#[tokio::test]
async fn a_redaction_whose_note_cannot_be_written_fails() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let turn = process
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    process.ledger_switch.down.store(true, Ordering::Relaxed);
    let redacted = process.redact(&anonymous(), &s, turn.turn_id).await;
    assert_eq!(code(redacted), ErrorCode::StoreUnavailable);
    process.ledger_switch.down.store(false, Ordering::Relaxed);
    process
        .redact(&anonymous(), &s, turn.turn_id)
        .await
        .unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
}

/// During a login, turns remain in a hot store that is down. Redactions and erasures by the operator find them.
#[tokio::test]
async fn the_operator_redacts_and_erases_remaining_turns() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let process = world.process();
    let ada = user("ada");
    for name in ["redacted", "erased"] {
        let s = sid(name);
        let remaining = process
            .complete_turn(&anonymous(), &s, "secret")
            .await
            .unwrap()
            .turn_id;
        process.hot_switch.down.store(true, Ordering::Relaxed);
        process.complete_turn(&ada, &s, "other").await.unwrap();
        process.hot_switch.down.store(false, Ordering::Relaxed);
        assert!(contains(&world.hot_bytes(&s).await, "is secret"));
        let other = world.process();
        if name == "redacted" {
            let turn = other.redact(&operator(), &s, remaining).await.unwrap();
            assert!(turn.deleted_at.is_some() && turn.question_neutral.is_none());
            assert_eq!(other.turns(&ada, &s).await.unwrap().len(), 2);
        } else {
            other
                .engine
                .erasure
                .erase(&Caller::from(&operator()), s.clone())
                .await
                .unwrap();
        }
        assert!(!contains(&world.hot_bytes(&s).await, "is secret"), "{name}");
    }
    // The same is true if the session is not read before the erasure.
    let all_durable = TierWorld::new(DurablePolicy::All);
    let s = sid("s");
    let mut before = TierWorld::new(DurablePolicy::Authenticated);
    before.ledger = all_durable.ledger.clone();
    before.hot = all_durable.hot.clone();
    before
        .process()
        .complete_turn(&anonymous(), &s, "secret")
        .await
        .unwrap();
    let process = all_durable.process();
    process.complete_turn(&ada, &s, "other").await.unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    assert!(!contains(&all_durable.hot_bytes(&s).await, "is secret"));
}
