//! Slots of a cluster are moved while sessions are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use filrouge_store::hot::HotStore;
use filrouge_store::hot::suite::fixture::{change, key};
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_testbed::RedisCluster;

use crate::{get, hot_with_long_timeout, put};

/// Uses both keys of a session between the commands `IMPORTING` and `NODE`: before the first key is moved, between the
/// two moves, and after the second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_succeed_during_a_slot_move() {
    let cluster = RedisCluster::start();
    let hot = hot_with_long_timeout(&cluster.url());
    let names = ["e", "r"].map(|suffix| format!("filrouge:{{{}}}:{suffix}", key("s")));
    let slot = cluster.slot(&names[0]);
    assert_eq!(slot, cluster.slot(&names[1]));
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let mut last = put(&hot, "s", None, "0").await.unwrap();
    let mut history = TestHistory::new();
    let mut turns = 0;
    let mut use_both_keys = async |last: &mut Option<_>| {
        *last = put(&hot, "s", *last, "v").await.unwrap();
        assert_eq!(get(&hot, "s").await.unwrap().map(|found| found.0), *last);
        turns += 2;
        let updates = [history.put(turns, "r"), history.put(turns + 1, "r")];
        let updates = updates.into_iter().map(|update| (key("s"), update));
        hot.advance(updates.collect()).await.unwrap();
        assert_eq!(hot.recent(&key("s"), 3).await.unwrap(), history.recent(3));
    };
    use_both_keys(&mut last).await;
    cluster.begin_move(slot, to);
    use_both_keys(&mut last).await;
    for name in &names {
        cluster.move_key(name, from, to);
        use_both_keys(&mut last).await;
    }
    cluster.end_move(slot, to);
    use_both_keys(&mut last).await;
    assert_eq!(last.unwrap().version, 6);
    assert_eq!(hot.failure(), None);
}

/// One task writes continuously while the slot is moved repeatedly: every version is written once and in full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_is_lost_or_partial_while_a_slot_moves() {
    let cluster = RedisCluster::start();
    let hot = Arc::new(hot_with_long_timeout(&cluster.url()));
    let ended = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn({
        let (hot, ended, commits) = (Arc::clone(&hot), Arc::clone(&ended), Arc::clone(&commits));
        async move {
            let mut last = None;
            while !ended.load(Ordering::Relaxed) {
                let text = commits.load(Ordering::Relaxed).to_string();
                let both = change(&[], &[(b"a", text.as_bytes()), (b"b", text.as_bytes())]);
                last = hot.commit(&key("s"), last, 7, both).await.unwrap();
                assert!(last.is_some(), "a commit was lost");
                commits.fetch_add(1, Ordering::Relaxed);
            }
            last
        }
    });
    let name = format!("filrouge:{{{}}}:e", key("s"));
    let slot = cluster.slot(&name);
    for _ in 0..6 {
        let reached = commits.load(Ordering::Relaxed) + 5;
        crate::wait_until("the writer continues", async || {
            commits.load(Ordering::Relaxed) > reached
        })
        .await;
        let from = cluster.owner(slot);
        let to = (from + 1) % 3;
        cluster.begin_move(slot, to);
        cluster.move_key(&name, from, to);
        cluster.end_move(slot, to);
        let loaded = hot.load(&key("s")).await.unwrap().expect("a session");
        assert_eq!(loaded.fields.len(), 2);
        assert_eq!(loaded.fields[0].value, loaded.fields[1].value);
    }
    ended.store(true, Ordering::Relaxed);
    let last = writer.await.unwrap().expect("an edition");
    assert_eq!(last.version, commits.load(Ordering::Relaxed));
    assert_eq!(hot.edition(&key("s")).await.unwrap(), Some(last));
}
