use filrouge_store::command::Target;
use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_store::record::Seqs;
use filrouge_types::ErrorCode;

use crate::scopes::HotReceipt;

use super::world::{World, code, nobody, operator, sid, until, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

#[tokio::test]
async fn what_is_redacted_is_gone_from_the_hot_store_at_once() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let turn = process.whole(&ada, &s, "secret").await.unwrap();
    process.whole(&ada, &s, "other").await.unwrap();
    process.scopes.settle().await;
    assert!(contains(&world.hot_bytes(&s).await, "is secret"));
    process.redact(&ada, &s, turn.turn_id).await.unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
    let receipt = process.scopes.receipt(&ada, &s);
    assert_eq!(receipt, HotReceipt::Erased);
    assert_eq!(
        process.page(&ada, &s, 5).await.unwrap(),
        world.page(&ada, &s, 5).await.unwrap()
    );
    // By items as well, which leaves the rest of the turn.
    let other = process.whole(&ada, &s, "more").await.unwrap();
    process.page(&ada, &s, 5).await.unwrap();
    process.scopes.settle().await;
    assert!(contains(&world.hot_bytes(&s).await, "more it is"));
    let seqs = Seqs::of([(other.last_seq, other.last_seq)]).unwrap();
    process
        .engine
        .erasure
        .redact(
            &Caller::from(&ada),
            s.clone(),
            Target::Items(seqs),
            "asked to",
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
async fn erasure_names_the_hot_store_in_its_receipt() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    process.whole(&ada, &s, "secret").await.unwrap();
    process.scopes.settle().await;
    process.hot_fate.down.store(true, Ordering::Relaxed);
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
    let counts = process.scopes.counts();
    assert_eq!((counts.removals_failed, counts.removals_waiting), (1, 1));
    assert!(contains(&world.hot_bytes(&s).await, "is secret"));
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::SessionErased
    );
    process.hot_fate.down.store(false, Ordering::Relaxed);
    until("the removal", async || {
        process.scopes.counts().removals_waiting == 0
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

/// The hot store is given back what it had before a redaction: a dump, a replica, a failover.
#[tokio::test]
async fn an_older_copy_brings_nothing_back() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let key = world.key(&s);
    let turn = process.whole(&ada, &s, "secret").await.unwrap();
    process.whole(&ada, &s, "other").await.unwrap();
    process.scopes.settle().await;
    let old = world.hot.recent(&key, 1000).await.unwrap().unwrap();
    process.redact(&ada, &s, turn.turn_id).await.unwrap();
    let put_back = || {
        let mut dump = world.dump.lock().unwrap();
        dump.copies.insert(key, old.clone());
    };
    let before = [process.scopes.counts().recent_stale, 0];
    for process in [&process, &world.process()] {
        put_back();
        for limit in [1, 2, 5] {
            let page = process.page(&ada, &s, limit).await.unwrap();
            assert_eq!(page, world.page(&ada, &s, limit).await.unwrap());
            assert!(!page.0.concat().contains("secret"));
        }
    }
    assert!(
        process.scopes.counts().recent_stale > before[0],
        "the older copy was looked at"
    );
    // Not even while the ledger does not answer, where it was redacted.
    put_back();
    process.ledger_fate.down.store(true, Ordering::Relaxed);
    assert_eq!(
        code(process.page(&ada, &s, 5).await),
        ErrorCode::StoreUnavailable
    );
}

#[tokio::test]
async fn an_older_ephemeral_session_brings_nothing_back() {
    let world = World::new(DurablePolicy::Authenticated);
    let s = sid("s");
    let key = world.key(&s);
    let process = world.process();
    let turn = process.whole(&nobody(), &s, "secret").await.unwrap();
    let old = world.hot.load(&key).await.unwrap().unwrap();
    process.redact(&nobody(), &s, turn.turn_id).await.unwrap();
    let new = world.hot.load(&key).await.unwrap().unwrap();
    assert!(new.edition.version > old.edition.version);
    let put_back = |loaded: &filrouge_store::hot::Loaded| {
        let mut dump = world.dump.lock().unwrap();
        dump.sessions.insert(key, loaded.clone());
    };
    // What is as new as the redaction is used; what is older is forgotten by whoever finds it.
    for process in [&process, &world.process()] {
        put_back(&new);
        let turns = process.turns(&nobody(), &s).await.unwrap();
        assert!(turns[0].deleted_at.is_some() && turns[0].question_neutral.is_none());
        put_back(&old);
        assert_eq!(
            code(process.turns(&nobody(), &s).await),
            ErrorCode::SessionNotFound
        );
        assert!(world.dump.lock().unwrap().sessions.is_empty());
    }
    // Nor after another life under the same name, nor into the ledger.
    let other = world.process();
    let again = other.whole(&nobody(), &s, "secret").await.unwrap();
    other.redact(&nobody(), &s, again.turn_id).await.unwrap();
    put_back(&old);
    let login = world.process();
    login.whole(&user("ada"), &s, "mine").await.unwrap();
    assert_eq!(login.turns(&user("ada"), &s).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_erased_ephemeral_session_does_not_come_back() {
    let world = World::new(DurablePolicy::Authenticated);
    let s = sid("s");
    let key = world.key(&s);
    let process = world.process();
    process.whole(&nobody(), &s, "secret").await.unwrap();
    let old = world.hot.load(&key).await.unwrap().unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&nobody()), s.clone())
        .await
        .unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
    assert_eq!(
        code(process.turns(&nobody(), &s).await),
        ErrorCode::SessionErased
    );
    world.dump.lock().unwrap().sessions.insert(key, old);
    let other = world.process();
    assert_eq!(
        code(other.turns(&nobody(), &s).await),
        ErrorCode::SessionNotFound
    );
}

/// Without the note nothing is acknowledged.
#[tokio::test]
async fn a_redaction_that_cannot_be_noted_fails() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let s = sid("s");
    let turn = process.whole(&nobody(), &s, "secret").await.unwrap();
    process.ledger_fate.down.store(true, Ordering::Relaxed);
    let redacted = process.redact(&nobody(), &s, turn.turn_id).await;
    assert_eq!(code(redacted), ErrorCode::StoreUnavailable);
    process.ledger_fate.down.store(false, Ordering::Relaxed);
    process.redact(&nobody(), &s, turn.turn_id).await.unwrap();
    assert!(!contains(&world.hot_bytes(&s).await, "is secret"));
}

/// What was said before a login while the hot store was down is in it still: the operator's writes find it.
#[tokio::test]
async fn the_operator_redacts_and_erases_what_is_left_as_well() {
    let world = World::new(DurablePolicy::Authenticated);
    let process = world.process();
    let ada = user("ada");
    for name in ["redacted", "erased"] {
        let s = sid(name);
        let left = process
            .whole(&nobody(), &s, "secret")
            .await
            .unwrap()
            .turn_id;
        process.hot_fate.down.store(true, Ordering::Relaxed);
        process.whole(&ada, &s, "other").await.unwrap();
        process.hot_fate.down.store(false, Ordering::Relaxed);
        assert!(contains(&world.hot_bytes(&s).await, "is secret"));
        let other = world.process();
        if name == "redacted" {
            let turn = other.redact(&operator(), &s, left).await.unwrap();
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
    // Also what nobody looks for.
    let plain = World::new(DurablePolicy::All);
    let s = sid("s");
    let mut before = World::new(DurablePolicy::Authenticated);
    before.ledger = plain.ledger.clone();
    before.hot = plain.hot.clone();
    before
        .process()
        .whole(&nobody(), &s, "secret")
        .await
        .unwrap();
    let process = plain.process();
    process.whole(&ada, &s, "other").await.unwrap();
    process
        .engine
        .erasure
        .erase(&Caller::from(&ada), s.clone())
        .await
        .unwrap();
    assert!(!contains(&plain.hot_bytes(&s).await, "is secret"));
}
