//! Redis is out of memory and evicts nothing.

use filrouge_store::hot::HotStore;
use filrouge_store::hot::suite::fixture::{change, key};
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_testbed::Redis;

use crate::{assert_unavailable, get, hot_with_long_timeout, put};

/// The size of a large value in bytes.
const LARGE: usize = 100_000;

/// Makes Redis refuse all further data.
fn fill_memory(redis: &Redis) {
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = redis
        .try_cli(&["SET", "k", "v"])
        .expect_err("Redis accepts the value");
    assert!(refused.starts_with("OOM "), "{refused}");
}

#[tokio::test]
async fn removals_succeed_and_writes_that_need_memory_fail_completely() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let large = "x".repeat(LARGE);
    let first = put(&hot, "s", None, &large).await.unwrap();
    let mut history = TestHistory::new();
    let updates: Vec<_> = (1..=3)
        .map(|n| (key("s"), history.put(n, &large)))
        .collect();
    hot.advance(updates).await.unwrap();
    let full_history = history.clone();
    fill_memory(&redis);

    assert_unavailable(put(&hot, "new", None, "v").await);
    let longer = format!("{large}!");
    let failure = assert_unavailable(put(&hot, "s", first, &longer).await);
    assert!(failure.detail.ends_with("OOM"), "{failure:?}");
    let next = history.clone().put(4, &large);
    assert_unavailable(hot.advance(vec![(key("s"), next)]).await);
    assert_unavailable(hot.fill(&key("s"), history.fill(3)).await);
    // None of the writes was applied, and requests are not blocked.
    assert_eq!(get(&hot, "new").await.unwrap(), None);
    assert_eq!(
        get(&hot, "s").await.unwrap(),
        Some((first.unwrap(), large.clone()))
    );
    assert_eq!(
        hot.recent(&key("s"), 9).await.unwrap(),
        full_history.recent(9)
    );
    assert_eq!(hot.failure(), None);
    let health = hot.health().await;
    assert_eq!(health.unavailable, None);
    let refuses = health.refuses_writes.unwrap_or_default();
    assert!(
        refuses.contains("maxmemory 1,") && health.evicts_nothing,
        "{refuses}"
    );
    let counts = hot.counts();
    assert_eq!(
        (counts.refused, counts.unanswered, counts.damaged),
        (4, 0, 0)
    );

    // A redaction succeeds: a shorter value, a removed field, a removed turn.
    let second = put(&hot, "s", first, "redacted").await.unwrap();
    assert_eq!(
        get(&hot, "s").await.unwrap(),
        Some((second.unwrap(), "redacted".to_owned()))
    );
    let update = history.remove(&[2]);
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 9).await.unwrap(), history.recent(9));
    let removal = change(&[b"f"], &[(b"mark", b"gone")]);
    let third = hot.commit(&key("s"), second, 7, removal).await.unwrap();
    assert_eq!(
        hot.load(&key("s")).await.unwrap().map(|l| l.fields.len()),
        Some(1)
    );
    // Forgetting needs no memory, with or without existing data.
    hot.forget_recent(&key("s"), history.as_of.seq)
        .await
        .unwrap();
    hot.forget_recent(&key("other"), 5).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 9).await.unwrap(), None);
    assert!(hot.forget(&key("s"), third).await.unwrap());

    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_unavailable(put(&hot, "new", None, "v").await);
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    // The newest refusal is kept until a write succeeds.
    let health = hot.health().await;
    assert_eq!(health.refuses_writes.as_deref(), Some("Redis answers OOM"));
    assert!(health.unbounded);
    assert!(put(&hot, "new", None, "v").await.unwrap().is_some());
    assert_eq!(hot.health().await.refuses_writes, None);
    // A copy that was forgotten while memory was full is not accepted again.
    hot.fill(&key("s"), full_history.fill(3)).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 9).await.unwrap(), None);
}
