//! The keys in Redis, their time to live, and their memory.

use std::time::Duration;

use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::suite::fixture::key;
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_store::hot::{Field, FieldChanges, HotBounds, HotStore};
use filrouge_testbed::Redis;

use crate::{get, hot_with_long_timeout, put, wait_until};

/// The length of a member's prefix before its record: `t`, the ordinal's 20 digits, `:`.
const MEMBER_PREFIX: usize = 22;

/// The number of bytes by which each record is longer than the one before it.
const GROWTH: usize = 37;

fn hot_with_bounds(redis: &Redis, turns: u64, bytes: u64, ttl: Duration) -> RedisHot {
    let options = Options {
        bounds: HotBounds { ttl, turns, bytes },
        prefix: "p".to_owned(),
        timeout: Duration::from_secs(20),
        ..Options::new(redis.url())
    };
    RedisHot::open(&options).expect("options")
}

#[tokio::test]
async fn a_session_has_exactly_two_keys_with_one_hash_tag() {
    let redis = Redis::start();
    let hot = hot_with_bounds(&redis, 9, 1000, Duration::from_millis(600));
    put(&hot, "s", None, "v").await.unwrap();
    let mut history = TestHistory::new();
    let update = history.put(1, "r");
    hot.advance(vec![(key("s"), update)]).await.unwrap();
    let names = [
        format!("p:{{{}}}:e", key("s")),
        format!("p:{{{}}}:r", key("s")),
    ];
    let mut found: Vec<_> = redis
        .cli(&["KEYS", "*"])
        .lines()
        .map(str::to_owned)
        .collect();
    found.sort();
    assert_eq!(found, names);
    for name in &names {
        let ttl: i64 = redis.cli(&["PTTL", name]).parse().unwrap();
        assert!((1..=600).contains(&ttl), "{ttl}");
    }
    wait_until("Redis has dropped the keys", async || {
        redis.cli(&["DBSIZE"]) == "0"
    })
    .await;
    assert_eq!(get(&hot, "s").await.unwrap(), None);
    assert_eq!(hot.recent(&key("s"), 9).await.unwrap(), None);
    // No operation scans the keys.
    assert!(
        !redis
            .cli(&["INFO", "commandstats"])
            .contains("cmdstat_scan")
    );
}

/// After every write, the values stored in Redis are within the bounds, not only the values that a read returns.
#[tokio::test]
async fn a_copy_is_within_its_bounds_after_every_write() {
    let redis = Redis::start();
    let (turns, bytes) = (5, 3000);
    let hot = hot_with_bounds(&redis, turns, bytes, Duration::from_secs(60));
    let name = format!("p:{{{}}}:r", key("s"));
    let mut history = TestHistory::new();
    for n in 1..=30 {
        let record = "r".repeat(100 + GROWTH * n as usize);
        let update = history.put(n, &record);
        hot.advance(vec![(key("s"), update)]).await.unwrap();
        let members = redis.cli(&["ZRANGEBYLEX", &name, "[t", "(u"]);
        let records: Vec<_> = members
            .lines()
            .map(|member| member.len() - MEMBER_PREFIX)
            .collect();
        assert!(records.len() as u64 <= turns && records.iter().sum::<usize>() as u64 <= bytes);
        assert!(!records.is_empty());
        // With one more turn, the copy would exceed the bounds.
        if n > turns {
            let dropped = records[0] - GROWTH;
            assert!(
                records.len() as u64 == turns
                    || (records.iter().sum::<usize>() + dropped) as u64 > bytes
            );
        }
    }
    hot.fill(&key("s"), history.fill(30)).await.unwrap();
    let members = redis.cli(&["ZRANGEBYLEX", &name, "[t", "(u"]);
    assert!(
        members
            .lines()
            .map(|member| member.len() - MEMBER_PREFIX)
            .sum::<usize>() as u64
            <= bytes
    );
}

/// Stores 500 turns of 2.3 kB: the part of a session that DESIGN §7 keeps.
#[tokio::test]
async fn a_full_session_takes_little_more_than_its_records() {
    let redis = Redis::start();
    let hot = hot_with_long_timeout(&redis.socket_url());
    let record: String = (0..2300)
        .map(|n| char::from(b'a' + (n * 7 % 26) as u8))
        .collect();
    let (mut history, mut updates, mut puts) = (TestHistory::new(), Vec::new(), Vec::new());
    for n in 1..=500_u64 {
        updates.push((key("s"), history.put(n, &record)));
        let name = format!("turn {n}").into_bytes();
        let value = record.clone().into_bytes();
        puts.push(Field { name, value });
    }
    hot.advance(updates).await.unwrap();
    let change = FieldChanges {
        removes: Vec::new(),
        puts,
    };
    hot.commit(&key("s"), None, 1, change).await.unwrap();
    for suffix in ["r", "e"] {
        let name = format!("filrouge:{{{}}}:{suffix}", key("s"));
        let used = redis.cli(&["MEMORY", "USAGE", &name, "SAMPLES", "0"]);
        let used: u64 = used.parse().unwrap();
        assert!((500 * 2300..500 * 2300 * 5 / 4).contains(&used), "{used}");
    }
}
