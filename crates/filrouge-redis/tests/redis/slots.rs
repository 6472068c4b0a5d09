//! Slots of a cluster move while sessions are written to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use filrouge_store::hot::HotStore;
use filrouge_store::hot::suite::fixture::{change, key};
use filrouge_store::hot::suite::story::Story;
use filrouge_testbed::RedisCluster;

use crate::{get, patient, put};

/// Both keys of a session, between `IMPORTING` and `NODE`: before a key is moved, between the two, after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_middle_of_a_move_everything_is_found_and_made() {
    let cluster = RedisCluster::start();
    let hot = patient(&cluster.url());
    let names = ["e", "r"].map(|which| format!("filrouge:{{{}}}:{which}", key("s")));
    let slot = cluster.slot(&names[0]);
    assert_eq!(slot, cluster.slot(&names[1]));
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    let mut last = put(&hot, "s", None, "0").await.unwrap();
    let mut story = Story::new();
    let mut turns = 0;
    let mut step = async |last: &mut Option<_>| {
        *last = put(&hot, "s", *last, "v").await.unwrap();
        assert_eq!(get(&hot, "s").await.unwrap().map(|found| found.0), *last);
        turns += 2;
        let steps = [story.put(turns, "r"), story.put(turns + 1, "r")];
        let steps = steps.into_iter().map(|step| (key("s"), step));
        hot.advance(steps.collect()).await.unwrap();
        assert_eq!(hot.recent(&key("s"), 3).await.unwrap(), story.recent(3));
    };
    step(&mut last).await;
    cluster.begin_move(slot, to);
    step(&mut last).await;
    for name in &names {
        cluster.move_key(name, from, to);
        step(&mut last).await;
    }
    cluster.end_move(slot, to);
    step(&mut last).await;
    assert_eq!(last.unwrap().version, 6);
    assert_eq!(hot.failure(), None);
}

/// A writer that does not stop, while the slot goes round: every version is made once and is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_slot_goes_round_no_commit_is_lost_or_half_done() {
    let cluster = RedisCluster::start();
    let hot = Arc::new(patient(&cluster.url()));
    let ended = Arc::new(AtomicBool::new(false));
    let made = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn({
        let (hot, ended, made) = (Arc::clone(&hot), Arc::clone(&ended), Arc::clone(&made));
        async move {
            let mut last = None;
            while !ended.load(Ordering::Relaxed) {
                let text = made.load(Ordering::Relaxed).to_string();
                let both = change(&[], &[(b"a", text.as_bytes()), (b"b", text.as_bytes())]);
                last = hot.commit(&key("s"), last, 7, both).await.unwrap();
                assert!(last.is_some(), "somebody else wrote, or it was lost");
                made.fetch_add(1, Ordering::Relaxed);
            }
            last
        }
    });
    let name = format!("filrouge:{{{}}}:e", key("s"));
    let slot = cluster.slot(&name);
    for _ in 0..6 {
        let reached = made.load(Ordering::Relaxed) + 5;
        crate::until("it goes on", async || {
            made.load(Ordering::Relaxed) > reached
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
    assert_eq!(last.version, made.load(Ordering::Relaxed));
    assert_eq!(hot.edition(&key("s")).await.unwrap(), Some(last));
}
