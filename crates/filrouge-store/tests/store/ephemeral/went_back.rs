//! A store that has an older state than it had: who has seen the newer one finds it out.

use filrouge_store::contract::differential;
use filrouge_store::contract::fixture::anyone;
use filrouge_store::hot::EphemeralSessions;

use crate::ephemeral::store::{Store, id, tenant};

async fn holds(process: &EphemeralSessions) -> bool {
    process.holds(&tenant(), &id("s")).await.unwrap()
}

/// Writes that were acknowledged are gone: the session is, too, and begins anew.
#[tokio::test]
async fn a_store_that_went_back() {
    let (store, who) = (Store::plain(), anyone());
    let (process, f) = store.both();
    f.whole(&who, "s", "r1", "a").await;
    let older = store.hot.dump(store.key("s"));
    f.whole(&who, "s", "r2", "b").await;
    // By reading.
    store.hot.set(store.key("s"), older.clone());
    assert!(!holds(&process).await);
    assert_eq!(process.counts().went_back, 1);
    assert!(store.hot.sessions.lock().unwrap().is_empty());
    // By writing: the turn is the first of another session.
    store.hot.set(store.key("s"), older.clone());
    let turn = f.whole(&who, "s", "r3", "c").await;
    assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
    assert_eq!(process.counts().went_back, 2);
    // What a process has never seen it cannot miss.
    store.hot.set(store.key("s"), older);
    assert!(holds(&store.process()).await);
}

/// Who was away while others went on from an older state finds another history than its own, also where that has counted
/// to the same version.
#[tokio::test]
async fn a_store_that_went_back_and_on() {
    for more in [1, 2] {
        for reads in [true, false] {
            let (store, who) = (Store::plain(), anyone());
            let ((a, f), (b, g)) = (store.both(), store.both());
            f.whole(&who, "s", "r1", "kept").await;
            let older = store.hot.dump(store.key("s"));
            f.whole(&who, "s", "r2", "lost").await;
            let lost = store.hot.dump(store.key("s")).0;
            store.hot.set(store.key("s"), older);
            for n in 0..more {
                let turn = g.whole(&who, "s", &format!("r3-{n}"), "forked").await;
                assert_eq!(turn.ordinal, n + 2);
            }
            assert_eq!(b.counts().went_back, 0, "it has missed nothing");
            let forked = store.hot.dump(store.key("s")).0;
            assert_eq!(forked.version, lost.version + more - 1);
            if more > 1 {
                // Longer than what was lost: that history is gone on with, and no other.
                assert_eq!(f.last_seq(&who, "s").await, 6);
                let seen = differential::session_readings(&g).await;
                assert_eq!(differential::session_readings(&f).await, seen);
                continue;
            }
            if reads {
                assert!(!holds(&a).await);
            } else {
                let turn = f.whole(&who, "s", "r4", "anew").await;
                assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
            }
            assert_eq!(a.counts().went_back, 1);
        }
    }
}

/// A life that is over comes back: whoever has seen a later one knows.
#[tokio::test]
async fn a_store_with_an_earlier_life() {
    let (store, who) = (Store::plain(), anyone());
    let (a, f) = store.both();
    store.fixture().whole(&who, "s", "r1", "a").await;
    store.fixture().whole(&who, "s", "r2", "b").await;
    let older = store.hot.dump(store.key("s"));
    a.forget(&tenant(), &id("s"), None).await.unwrap();
    store.clock.advance(1);
    // This process has not seen the life before.
    f.whole(&who, "s", "r3", "c").await;
    assert!(older.0.version > store.hot.dump(store.key("s")).0.version);
    store.hot.set(store.key("s"), older);
    assert!(!holds(&a).await);
    assert_eq!(a.counts().went_back, 1);
    // Also where the clock stands still, or goes back.
    let before = f.whole(&who, "s", "r4", "d").await;
    let older = store.hot.dump(store.key("s"));
    a.forget(&tenant(), &id("s"), None).await.unwrap();
    let after = f.whole(&who, "s", "r5", "e").await;
    assert_eq!((before.ordinal, after.ordinal), (1, 1));
    assert!(older.0.incarnation < store.hot.dump(store.key("s")).0.incarnation);
}
