//! Redis does not answer, or does not accept writes.

use std::time::{Duration, Instant};

use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::HotStore;
use filrouge_store::hot::suite::fixture::key;
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_testbed::{FaultProxy, Loss, Redis, RedisCluster};

use crate::{assert_unavailable, get, hot, hot_with_long_timeout, put, wait_until};

#[tokio::test]
async fn a_missing_redis_does_not_prevent_the_start() {
    let redis = Redis::start();
    redis.kill();
    let hot = hot(&redis.url());
    assert_eq!(hot.failure(), None);
    let mut history = TestHistory::new();
    let update = history.put(1, "r");
    assert_unavailable(hot.edition(&key("s")).await);
    assert!(hot.failure().is_some());
    // From now on no request is sent: all of them fail at once.
    let before = hot.counts();
    assert_unavailable(hot.load(&key("s")).await);
    assert_unavailable(put(&hot, "s", None, "v").await);
    assert_unavailable(hot.forget(&key("s"), None).await);
    assert_unavailable(hot.recent(&key("s"), 1).await);
    assert_unavailable(hot.advance(vec![(key("s"), update)]).await);
    assert_unavailable(hot.fill(&key("s"), history.fill(1)).await);
    assert_unavailable(hot.forget_recent(&key("s"), 1).await);
    assert_eq!(hot.health().await.unavailable, hot.failure());
    let after = hot.counts();
    assert_eq!((after.skipped - before.skipped, after.unanswered), (8, 1));
    redis.restart();
    wait_until("Redis is used again", async || {
        hot.edition(&key("s")).await.is_ok()
    })
    .await;
    assert_eq!(hot.failure(), None);
    let health = hot.health().await;
    assert_eq!((health.unavailable, health.nodes), (None, 1));
    assert!(health.version.is_some_and(|version| version.contains('.')));
    assert!(health.used_bytes.is_some_and(|bytes| bytes > 0));
}

/// While Redis is paused for 5 s, each call fails, and only one per second sends a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_redis_causes_one_timeout_per_second() {
    let redis = Redis::start();
    let hot = hot(&redis.url());
    let first = put(&hot, "s", None, "v").await.unwrap();
    redis.pause();
    let paused = Instant::now();
    let mut failed = 0;
    while paused.elapsed() < Duration::from_secs(5) {
        assert_unavailable(get(&hot, "s").await);
        failed += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let counts = hot.counts();
    assert!((1..=6).contains(&counts.unanswered), "{counts:?}");
    assert_eq!(counts.skipped + counts.unanswered, failed);
    assert!(counts.skipped > counts.unanswered, "{counts:?}");
    redis.resume();
    wait_until("Redis is used again", async || get(&hot, "s").await.is_ok()).await;
    assert_eq!(
        get(&hot, "s").await.unwrap(),
        Some((first.unwrap(), "v".to_owned()))
    );
}

#[tokio::test]
async fn only_one_of_many_callers_probes_redis() {
    let redis = Redis::start();
    let hot = std::sync::Arc::new(hot(&redis.url()));
    get(&hot, "s").await.unwrap();
    redis.pause();
    assert_unavailable(get(&hot, "s").await);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let before = hot.counts();
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let hot = std::sync::Arc::clone(&hot);
            tokio::spawn(async move { assert_unavailable(get(&hot, "s").await) })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let after = hot.counts();
    assert_eq!(after.unanswered - before.unanswered, 1);
    assert_eq!(after.skipped - before.skipped, 49);
}

/// The connection is lost while a change is in flight. The retry on a new connection finds the change applied, or
/// applies it.
#[tokio::test]
async fn a_lost_connection_leaves_one_complete_change() {
    let redis = Redis::start();
    let proxy = FaultProxy::before(redis.tcp());
    let hot = hot(&format!("redis://{}", proxy.addr()));
    let first = put(&hot, "s", None, "v").await.unwrap();
    assert!(first.is_some());
    proxy.cut_after(b"lost", Loss::Connection);
    let second = put(&hot, "s", first, "lost").await.unwrap();
    assert!(second.is_none_or(|edition| edition.version == 2));
    let (edition, value) = get(&hot, "s").await.unwrap().unwrap();
    assert_eq!((edition.version, value.as_str()), (2, "lost"));
    assert_eq!((proxy.cuts(), proxy.connections()), (1, 2));
    assert_eq!((hot.failure(), hot.counts().unanswered), (None, 0));
}

/// The change is applied and its answer is lost. The retry is recognized and answered: the caller need not repeat the
/// change.
#[tokio::test]
async fn a_change_whose_answer_was_lost_is_applied_once() {
    let redis = Redis::start();
    let proxy = FaultProxy::before(redis.tcp());
    let hot = hot_with_long_timeout(&format!("redis://{}", proxy.addr()));
    let mut last = None;
    // The first commit of a session, and a later one.
    for (n, value) in ["lost-1", "lost-2"].into_iter().enumerate() {
        // A first write, so that the connection has been used before and the script is cached.
        put(&hot, &format!("other{n}"), None, "v").await.unwrap();
        proxy.cut_after(value.as_bytes(), Loss::FirstAnswer);
        last = put(&hot, "s", last, value).await.unwrap();
        assert_eq!(last.expect("committed").version, n as u64 + 1);
        assert_eq!(
            get(&hot, "s").await.unwrap(),
            Some((last.unwrap(), value.to_owned()))
        );
        assert_eq!((proxy.cuts(), hot.counts().unanswered), (n + 1, 0));
    }
    // The same change by another caller is a different commit.
    assert_eq!(put(&hot, "s", None, "lost-2").await.unwrap(), None);
    assert!(hot.forget(&key("s"), last).await.unwrap());
}

#[tokio::test]
async fn a_replica_is_reported_by_its_error_code() {
    let redis = Redis::start();
    let master = Redis::start();
    redis.cli(&["REPLICAOF", "127.0.0.1", &master.tcp().port().to_string()]);
    let hot = hot(&redis.url());
    let failure = assert_unavailable(put(&hot, "s", None, "v").await);
    assert!(failure.detail.ends_with("READONLY"), "{failure}");
    assert_eq!(hot.failure(), Some(failure.detail));
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    wait_until("Redis accepts writes", async || {
        put(&hot, "s", None, "v").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_replaced() {
    assert_master_is_replaced(|cluster, master| cluster.kill(master)).await;
}

/// A paused master keeps its connections open, and accepts new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_master_is_replaced() {
    assert_master_is_replaced(|cluster, master| cluster.pause(master)).await;
}

/// Disables a master of a cluster; asserts that its replica takes over and every session continues.
async fn assert_master_is_replaced(disable: impl Fn(&RedisCluster, usize)) {
    let cluster = RedisCluster::with_replicas();
    let hot = RedisHot::open(&Options::new(cluster.url())).expect("options");
    let mut last = Vec::new();
    for n in 0..12 {
        let name = format!("s{n}");
        wait_until("the cluster accepts requests", async || {
            hot.edition(&key(&name)).await.is_ok()
        })
        .await;
        last.push(put(&hot, &name, None, "v").await.unwrap());
    }
    let health = hot.health().await;
    assert_eq!((health.unavailable, health.nodes), (None, 3));
    // Writes do not wait for replication: a promoted replica has only the data that it has received.
    let key_of = |n: usize| format!("filrouge:{{{}}}:e", key(&format!("s{n}")));
    let victim = cluster.owner(cluster.slot(&key_of(0)));
    let key_count = (0..12)
        .filter(|&n| cluster.owner(cluster.slot(&key_of(n))) == victim)
        .count();
    wait_until("the replica has all keys", async || {
        cluster.cli(victim + 3, &["DBSIZE"]) == key_count.to_string()
    })
    .await;
    disable(&cluster, victim);
    assert_unavailable(get(&hot, "s0").await);
    cluster.wait_for_promotion(victim + 3);
    for (n, before) in last.iter().enumerate() {
        let name = format!("s{n}");
        let mut next = None;
        wait_until("the session continues", async || {
            next = put(&hot, &name, *before, "w").await.ok().flatten();
            // A change whose answer was lost may have been applied.
            next.is_some() || hot.edition(&key(&name)).await.is_ok_and(|e| e != *before)
        })
        .await;
        let found = get(&hot, &name).await;
        let (edition, value) = found.unwrap().expect("a session");
        assert_eq!((edition.version, value.as_str()), (2, "w"));
    }
}
