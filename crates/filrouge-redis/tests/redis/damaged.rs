//! Values in Redis that no hot store wrote, and scripts that Redis has dropped from its cache.

use filrouge_store::hot::HotStore;
use filrouge_store::hot::suite::fixture::key;
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_testbed::Redis;

use crate::{assert_unavailable, get, hot_with_long_timeout, put};

/// Commands that damage a key; `KEY` is replaced with its name.
const DAMAGE: [&[&str]; 6] = [
    &["SET", "KEY", "text"],
    &["HSET", "KEY", "x", "y"],
    &["ZADD", "KEY", "0", "zz"],
    &["ZADD", "KEY", "0", "z1 12 - 0 0 0"],
    &["ZADD", "KEY", "0", "z1 00000000000000000001 00 0 1 1"],
    &["RPUSH", "KEY", "x"],
];

/// Replaces a key by the result of a command of [`DAMAGE`].
fn damage(redis: &Redis, name: &str, command: &[&str]) {
    redis.cli(&["DEL", name]);
    let command: Vec<_> = command
        .iter()
        .map(|word| if *word == "KEY" { name } else { word })
        .collect();
    redis.cli(&command);
}

#[tokio::test]
async fn an_unreadable_copy_is_dropped_and_rebuilt() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let name = format!("filrouge:{{{}}}:r", key("s"));
    let mut history = TestHistory::new();
    let first = history.put(1, "a");
    for (n, command) in DAMAGE.iter().enumerate() {
        let before = hot.counts().damaged;
        damage(&redis, &name, command);
        let read = hot.recent(&key("s"), 5).await;
        // The fourth value reads as the mark of a forgotten copy.
        if n != 3 {
            assert_unavailable(read);
            assert_eq!(hot.counts().damaged, before + 1, "{command:?}");
        }
        assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
        // Each write must handle the damaged copy, too.
        damage(&redis, &name, command);
        hot.fill(&key("s"), history.fill(5)).await.unwrap();
        assert_eq!(
            hot.recent(&key("s"), 5).await.unwrap(),
            history.recent(5),
            "{command:?}"
        );
        damage(&redis, &name, command);
        hot.advance(vec![(key("s"), first.clone())]).await.unwrap();
        assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None, "{command:?}");
        damage(&redis, &name, command);
        hot.forget_recent(&key("s"), 1).await.unwrap();
        assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
    }
    // A damaged turn among intact ones: the copy is dropped, and its newest seq is kept.
    redis.cli(&["DEL", &name]);
    hot.advance(vec![(key("s"), first)]).await.unwrap();
    redis.cli(&["ZADD", &name, "0", "tx"]);
    assert_unavailable(hot.recent(&key("s"), 5).await);
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
    hot.fill(&key("s"), TestHistory::new().fill(5))
        .await
        .unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
    hot.fill(&key("s"), history.fill(5)).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), history.recent(5));
    assert_eq!(hot.failure(), None);
}

#[tokio::test]
async fn an_unreadable_session_is_neither_read_nor_written() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let name = format!("filrouge:{{{}}}:e", key("s"));
    for command in [DAMAGE[0], DAMAGE[1], DAMAGE[2]] {
        let before = hot.counts().damaged;
        damage(&redis, &name, command);
        let found = redis.cli(&["DUMP", &name]);
        assert_unavailable(hot.load(&key("s")).await);
        assert_unavailable(put(&hot, "s", None, "v").await);
        assert!(hot.counts().damaged >= before + 2);
        assert_eq!(redis.cli(&["DUMP", &name]), found);
        // The session can still be deleted.
        assert!(hot.forget(&key("s"), None).await.unwrap());
        assert!(put(&hot, "s", None, "v").await.unwrap().is_some());
    }
    for edition in [
        "not an edition",
        "7:3",
        "7:3:",
        "7:3:ff",
        "7:3:00000000000000FF",
        "07:3:00000000000000ff",
        "7:3:00000000000000ff:1",
    ] {
        redis.cli(&["HSET", &name, "e", edition]);
        assert_unavailable(hot.edition(&key("s")).await);
        assert_unavailable(hot.load(&key("s")).await);
    }
    redis.cli(&["HSET", &name, "e", "7:3:00000000000000ff"]);
    let edition = hot.edition(&key("s")).await.unwrap().unwrap();
    let numbers = (edition.incarnation, edition.version, edition.nonce);
    assert_eq!(numbers, (7, 3, 255));
    assert!(hot.forget(&key("s"), Some(edition)).await.unwrap());
}

#[tokio::test]
async fn scripts_that_redis_has_dropped_still_run() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let names = ["a", "b", "c"];
    let mut histories = names.map(|_| TestHistory::new());
    let mut last = None;
    for n in 1..=3 {
        redis.cli(&["SCRIPT", "FLUSH"]);
        let mut updates = Vec::new();
        for m in 0..4 {
            for (name, history) in names.iter().zip(&mut histories) {
                updates.push((key(name), history.put(10 * n + m, "r")));
            }
        }
        hot.advance(updates).await.unwrap();
        redis.cli(&["SCRIPT", "FLUSH"]);
        last = put(&hot, "s", last, "v").await.unwrap();
        assert!(last.is_some());
    }
    for (name, history) in names.iter().zip(&histories) {
        let found = hot.recent(&key(name), 20).await.unwrap();
        assert_eq!(found, history.recent(20));
    }
    assert_eq!(get(&hot, "s").await.unwrap().unwrap().0.version, 3);
}
