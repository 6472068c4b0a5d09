//! A hot store that was reverted to an older version: a process that has seen the newer version detects it.

use filrouge_store::contract::differential;
use filrouge_store::contract::fixture::anyone;
use filrouge_store::hot::EphemeralSessions;

use crate::ephemeral::store::{Store, id, tenant};

async fn holds_session(process: &EphemeralSessions) -> bool {
    process.has_session(&tenant(), &id("s")).await.unwrap()
}

/// Acknowledged writes were lost: the session is removed, and the next write creates a new one.
#[tokio::test]
async fn a_reverted_store_is_detected() {
    let (store, who) = (Store::fake(), anyone());
    let (process, f) = store.process_and_fixture();
    f.complete_turn(&who, "s", "r1", "a").await;
    let older = store.hot.dump(store.key("s"));
    f.complete_turn(&who, "s", "r2", "b").await;
    // A read detects it.
    store.hot.set(store.key("s"), older.clone());
    assert!(!holds_session(&process).await);
    assert_eq!(process.counts().went_back, 1);
    assert!(store.hot.sessions.lock().unwrap().is_empty());
    // A write detects it: its turn is the first one of a new session.
    store.hot.set(store.key("s"), older.clone());
    let turn = f.complete_turn(&who, "s", "r3", "c").await;
    assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
    assert_eq!(process.counts().went_back, 2);
    // A process that never saw the newer version cannot detect it.
    store.hot.set(store.key("s"), older);
    assert!(holds_session(&store.process()).await);
}

/// A process that was absent while others continued from an older version finds another history than its own, even one
/// with the same version number.
#[tokio::test]
async fn a_reverted_store_that_continued_is_detected() {
    for more in [1, 2] {
        for reads in [true, false] {
            let (store, who) = (Store::fake(), anyone());
            let ((a, f), (b, g)) = (store.process_and_fixture(), store.process_and_fixture());
            f.complete_turn(&who, "s", "r1", "kept").await;
            let older = store.hot.dump(store.key("s"));
            f.complete_turn(&who, "s", "r2", "lost").await;
            let lost = store.hot.dump(store.key("s")).0;
            store.hot.set(store.key("s"), older);
            for n in 0..more {
                let turn = g
                    .complete_turn(&who, "s", &format!("r3-{n}"), "forked")
                    .await;
                assert_eq!(turn.ordinal, n + 2);
            }
            assert_eq!(
                b.counts().went_back,
                0,
                "this process has seen no newer version"
            );
            let forked = store.hot.dump(store.key("s")).0;
            assert_eq!(forked.version, lost.version + more - 1);
            if more > 1 {
                // The new history is now longer than the lost one; only the new one is continued.
                assert_eq!(f.last_seq(&who, "s").await, 6);
                let seen = differential::session_readings(&g).await;
                assert_eq!(differential::session_readings(&f).await, seen);
                continue;
            }
            if reads {
                assert!(!holds_session(&a).await);
            } else {
                let turn = f.complete_turn(&who, "s", "r4", "new").await;
                assert_eq!((turn.ordinal, turn.first_seq), (1, 1));
            }
            assert_eq!(a.counts().went_back, 1);
        }
    }
}

/// An earlier incarnation returns: every process that has seen a later one detects it.
#[tokio::test]
async fn an_earlier_incarnation_is_detected() {
    let (store, who) = (Store::fake(), anyone());
    let (a, f) = store.process_and_fixture();
    store.fixture().complete_turn(&who, "s", "r1", "a").await;
    store.fixture().complete_turn(&who, "s", "r2", "b").await;
    let older = store.hot.dump(store.key("s"));
    a.forget(&tenant(), &id("s"), None).await.unwrap();
    store.clock.advance(1);
    // This process has not seen the earlier incarnation.
    f.complete_turn(&who, "s", "r3", "c").await;
    assert!(older.0.version > store.hot.dump(store.key("s")).0.version);
    store.hot.set(store.key("s"), older);
    assert!(!holds_session(&a).await);
    assert_eq!(a.counts().went_back, 1);
    // The earlier incarnation is also detected when the clock stops or is set back.
    let before = f.complete_turn(&who, "s", "r4", "d").await;
    let older = store.hot.dump(store.key("s"));
    a.forget(&tenant(), &id("s"), None).await.unwrap();
    let after = f.complete_turn(&who, "s", "r5", "e").await;
    assert_eq!((before.ordinal, after.ordinal), (1, 1));
    assert!(older.0.incarnation < store.hot.dump(store.key("s")).0.incarnation);
}
