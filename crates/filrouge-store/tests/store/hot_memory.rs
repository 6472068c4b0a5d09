//! The hot store in memory passes the contract suite, and the suite lists all its tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::hot::suite::fixture::{change, key, large_bounds};
use filrouge_store::hot::suite::history::TestHistory;
use filrouge_store::hot::suite::random::interleavings;
use filrouge_store::hot::suite::{HotFixture, TestClock, run};
use filrouge_store::hot::{FieldChanges, HotBounds, HotStore, MemoryHot};
use filrouge_types::{ErrorCode, FixedClock};

/// A total size that no test reaches.
const LARGE: u64 = 256 << 20;

async fn make(bounds: HotBounds) -> HotFixture {
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    HotFixture {
        hot: Arc::new(MemoryHot::new(bounds, LARGE, clock.clone())),
        clock: TestClock::Clock(clock),
        keep: Box::new(()),
    }
}

filrouge_store::hot_contract_tests!(make);

#[test]
fn every_test_of_the_suite_is_listed() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/hot/suite");
    let list = std::fs::read_to_string(suite.with_extension("rs")).unwrap();
    let list: Vec<&str> = list
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let mut found = 0;
    for entry in std::fs::read_dir(suite).unwrap() {
        let path = entry.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let Some(test) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let (test, rest) = test.split_once('(').unwrap();
            if rest.starts_with("make:") {
                assert!(list.contains(&test), "{test} is not in hot_contract_tests!");
                found += 1;
            }
        }
    }
    assert!(found > 30, "{found}");
}

#[test]
fn many_interleavings_return_consistent_copies() {
    run(async || interleavings(600, make).await);
}

fn hot_store(ttl: u64, total_bytes: u64) -> (MemoryHot, Arc<FixedClock>) {
    let clock = Arc::new(FixedClock::at(0));
    let bounds = HotBounds {
        ttl: Duration::from_secs(ttl),
        ..large_bounds()
    };
    let hot = MemoryHot::new(bounds, total_bytes, clock.clone());
    (hot, clock)
}

fn kilobyte() -> FieldChanges {
    change(&[], &[(b"a", &[7; 1024])])
}

/// The key that was written least recently is evicted first; a read does not change the order.
#[test]
fn the_total_size_is_bounded() {
    run(async || {
        let (hot, _) = hot_store(60, 100 << 10);
        let first = hot.commit(&key("0"), None, 1, kilobyte()).await.unwrap();
        for n in 1..1000 {
            let s = key(&n.to_string());
            hot.commit(&s, None, 1, kilobyte()).await.unwrap().unwrap();
            let counts = hot.counts();
            assert!(counts.used_bytes <= 100 << 10);
            assert_eq!(counts.keys + counts.evicted, n + 1);
            assert!(hot.load(&key("1")).await.unwrap().is_some() || n > 50);
            if n == 50 {
                hot.commit(&key("0"), first, 1, FieldChanges::default())
                    .await
                    .unwrap();
            }
        }
        let counts = hot.counts();
        assert!((60..100).contains(&counts.keys), "{counts:?}");
        assert_eq!(counts.expired, 0);
        for n in 0..1000 {
            let is_kept = hot.edition(&key(&n.to_string())).await.unwrap().is_some();
            assert_eq!(is_kept, n + counts.keys >= 1000, "{n}");
        }
        assert_eq!(hot.health().await.used_bytes, Some(counts.used_bytes));
    });
}

#[test]
fn the_least_recently_written_key_is_evicted() {
    run(async || {
        let (hot, _) = hot_store(60, 10 << 10);
        let mut first = None;
        for n in 0..100 {
            first = hot.commit(&key("0"), first, 1, kilobyte()).await.unwrap();
            assert!(first.is_some(), "{n}");
            hot.edition(&key("1")).await.unwrap();
            let mut history = TestHistory::new();
            let steps = vec![(key(&n.to_string()), history.put(1, &"x".repeat(1024)))];
            hot.advance(steps).await.unwrap();
        }
        assert!(hot.counts().evicted > 80);
    });
}

#[test]
fn a_value_larger_than_the_store_is_refused() {
    run(async || {
        let (hot, _) = hot_store(60, 10 << 10);
        let s = key("s");
        let edition = hot.commit(&s, None, 1, kilobyte()).await.unwrap();
        let large = change(&[], &[(b"b", &[0; 10 << 10])]);
        let refused = hot.commit(&s, edition, 1, large.clone()).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::HotUnavailable);
        let refused = hot.commit(&key("t"), None, 1, large).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::HotUnavailable);
        assert_eq!(hot.edition(&s).await.unwrap(), edition);
        assert_eq!((hot.counts().keys, hot.counts().evicted), (1, 0));
        // A copy that is too large is dropped; `recent` then returns `None`.
        let mut history = TestHistory::new();
        let step = history.put(1, &"x".repeat(11 << 10));
        hot.advance(vec![(s, step)]).await.unwrap();
        assert_eq!(hot.recent(&s, 1).await.unwrap(), None);
        assert!(hot.counts().used_bytes <= 10 << 10);
    });
}

/// Expired keys are dropped even when they are not accessed, a few per call.
#[test]
fn expired_keys_are_dropped() {
    run(async || {
        let (hot, clock) = hot_store(10, LARGE);
        for n in 0..1000 {
            let s = key(&n.to_string());
            hot.commit(&s, None, 1, kilobyte()).await.unwrap();
        }
        clock.advance(10_000_000);
        assert_eq!(hot.counts().keys, 1000);
        hot.edition(&key("other")).await.unwrap();
        let after_one = hot.counts();
        assert!((1..10).contains(&after_one.expired), "{after_one:?}");
        for _ in 0..1000 {
            hot.recent(&key("other"), 1).await.unwrap();
        }
        let counts = hot.counts();
        assert_eq!(
            (counts.keys, counts.used_bytes, counts.expired),
            (0, 0, 1000)
        );
    });
}

/// The byte count is exact after any writes, changes and removals.
#[test]
fn forgetting_frees_all_bytes() {
    run(async || {
        let (hot, clock) = hot_store(10, LARGE);
        let mut last = None;
        for n in 0..100_u8 {
            let value = vec![n; usize::from(n) * 13 % 100];
            let puts = change(
                &[&[n % 3], &[n % 5]],
                &[(&[n % 5], &value), (&[n % 4], &[n])],
            );
            last = hot.commit(&key("s"), last, 1, puts).await.unwrap();
        }
        assert!(hot.forget(&key("s"), last).await.unwrap());
        assert_eq!((hot.counts().keys, hot.counts().used_bytes), (0, 0));
        let mut history = TestHistory::new();
        let steps = (1..100).map(|n| match n % 3 {
            0 => history.remove(&[n - 1, n - 2]),
            _ => history.put(n % 20, &"x".repeat(n as usize)),
        });
        let steps = steps.map(|step| (key("s"), step)).collect();
        hot.advance(steps).await.unwrap();
        assert!(hot.counts().used_bytes > 256);
        hot.forget_recent(&key("s"), 1000).await.unwrap();
        // Forgetting a copy leaves a mark, so that older data does not restore it.
        let mark = hot.counts().used_bytes;
        hot.forget_recent(&key("t"), 1).await.unwrap();
        assert_eq!(hot.counts().used_bytes, 2 * mark);
        clock.advance(10_000_000);
        hot.edition(&key("s")).await.unwrap();
        assert_eq!((hot.counts().keys, hot.counts().used_bytes), (0, 0));
    });
}
