//! Redis loses data, and readers detect it.

use filrouge_store::hot::suite::fixture::key;
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_store::hot::{Edition, HotStore};
use filrouge_testbed::Redis;

use crate::{get, hot_with_long_timeout, put};

#[tokio::test]
async fn a_restarted_redis_is_empty_and_used_at_once() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.url());
    let first = put(&hot, "s", None, "v").await.unwrap();
    redis.kill();
    redis.restart();
    // The connection was lost meanwhile, but no call fails.
    assert_eq!(get(&hot, "s").await.unwrap(), None);
    assert_eq!(put(&hot, "s", first, "w").await.unwrap(), None);
    assert!(put(&hot, "s", None, "w").await.unwrap().is_some());
    assert_eq!(hot.counts().unanswered, 0);
}

#[tokio::test]
async fn a_flushed_redis_is_empty() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let first = put(&hot, "s", None, "v").await.unwrap();
    let mut history = TestHistory::new();
    let update = history.put(1, "r");
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    redis.cli(&["FLUSHALL"]);
    assert_eq!(hot.edition(&key("s")).await.unwrap(), None);
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
    // A write that continues the lost state does not recreate it.
    assert_eq!(put(&hot, "s", first, "w").await.unwrap(), None);
    let update = history.put(2, "r");
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
}

#[tokio::test]
async fn an_older_dump_has_an_older_edition_and_an_older_link() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.url());
    let first = put(&hot, "s", None, "old").await.unwrap();
    let mut history = TestHistory::new();
    let update = history.put(1, "secret");
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    let (dump, dumped_history) = (redis.save(), history.clone());
    let second = put(&hot, "s", first, "new").await.unwrap();
    let update = history.remove(&[1]);
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    redis.start_from(&dump);

    let found = get(&hot, "s").await.unwrap().unwrap();
    assert_eq!(found, (first.unwrap(), "old".to_owned()));
    let (found, second) = (found.0, second.unwrap());
    assert!(found.incarnation == second.incarnation && found.version < second.version);
    assert_eq!(put(&hot, "s", Some(second), "newer").await.unwrap(), None);
    assert_eq!(
        hot.recent(&key("s"), 5).await.unwrap(),
        dumped_history.recent(5)
    );
    assert_ne!(dumped_history.as_of, history.as_of);
    // The next write detects the older copy.
    let update = history.put(2, "r");
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
}

/// After an older dump was restored, another server reaches the number of the lost version; its edition differs.
#[tokio::test]
async fn a_fork_has_different_editions() {
    let redis = Redis::start();
    let (hot, other) = (
        hot_with_long_timeout(&redis.url()),
        hot_with_long_timeout(&redis.url()),
    );
    let first = put(&hot, "s", None, "old").await.unwrap();
    let dump = redis.save();
    let lost = put(&hot, "s", first, "lost").await.unwrap();
    redis.start_from(&dump);
    let forked = put(&other, "s", first, "forked").await.unwrap();
    let numbers = |edition: Option<Edition>| edition.map(|e| (e.incarnation, e.version));
    assert_eq!(numbers(forked), numbers(lost));
    assert_ne!(hot.edition(&key("s")).await.unwrap(), lost);
    assert_eq!(put(&hot, "s", lost, "newer").await.unwrap(), None);
    assert!(!hot.forget(&key("s"), lost).await.unwrap());
    let found = get(&hot, "s").await.unwrap();
    assert_eq!(found, Some((forked.unwrap(), "forked".to_owned())));
}
