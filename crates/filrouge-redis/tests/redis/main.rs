//! The hot store on real Redis servers and clusters: the contract suite, and all known faults.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod contract;
mod contract_cluster;
mod damaged;
mod faults;
mod losses;
mod out_of_memory;
mod slots;
mod stored_keys;
mod urls;

use std::time::{Duration, Instant};

use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::suite::fixture::{change, key};
use filrouge_store::hot::{Edition, HotStore};
use filrouge_types::{ErrorCode, Failure};

fn hot(url: &str) -> RedisHot {
    RedisHot::open(&Options::new(url)).expect("options")
}

/// A hot store with a long timeout, for tests that are not about timeouts.
fn hot_with_long_timeout(url: &str) -> RedisHot {
    let options = Options {
        timeout: Duration::from_secs(20),
        ..Options::new(url)
    };
    RedisHot::open(&options).expect("options")
}

/// Asserts that a call failed because Redis is unavailable; returns the failure.
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, Failure>) -> Failure {
    let failure = result.expect_err("a failure");
    assert_eq!(failure.code, ErrorCode::HotUnavailable, "{failure:?}");
    failure
}

/// Waits until a condition is true, for at most 60 s.
async fn wait_until(condition_text: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "timed out waiting until {condition_text}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A commit that writes the field `f`.
async fn put(
    hot: &RedisHot,
    session: &str,
    expected: Option<Edition>,
    value: &str,
) -> Result<Option<Edition>, Failure> {
    let change = change(&[], &[(b"f", value.as_bytes())]);
    hot.commit(&key(session), expected, 7, change).await
}

/// Reads the field `f`.
async fn get(hot: &RedisHot, session: &str) -> Result<Option<(Edition, String)>, Failure> {
    let loaded = hot.load(&key(session)).await?;
    Ok(loaded.map(|loaded| {
        assert_eq!(loaded.fields.len(), 1);
        let value = String::from_utf8(loaded.fields[0].value.clone()).expect("UTF-8");
        (loaded.edition, value)
    }))
}
