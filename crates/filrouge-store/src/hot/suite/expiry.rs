//! Keys expire after their time to live. Each write restarts the time to live; no other operation does.

use std::time::Duration;

use super::super::{FieldChanges, HotBounds};
use super::fixture::{HotFixture, change, key, large_bounds, numbers};
use super::history::TestHistory;

const TTL: Duration = Duration::from_secs(1);

fn short_ttl_bounds() -> HotBounds {
    HotBounds {
        ttl: TTL,
        ..large_bounds()
    }
}

/// Reads until `is_absent` returns `true`. Reads do not extend the life of a key.
async fn wait_until(f: &HotFixture, is_absent: impl AsyncFn() -> bool) {
    let end = f.now() + Duration::from_secs(60);
    while !is_absent().await {
        assert!(f.now() < end, "it still exists after a minute");
        f.advance_time(TTL / 10).await;
    }
}

pub async fn keys_expire(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short_ttl_bounds()).await;
    let s = key("s");
    let before = f.now();
    let puts = change(&[], &[(b"a", b"1")]);
    let created = f.commit(&s, None, 1, puts).await;
    f.send_history(&s, 3).await;
    let exists = f.load(&s).await.is_some() && f.recent(&s, 1).await.is_some();
    assert!(exists || f.now() - before >= TTL);
    wait_until(&f, async || {
        // Neither a refused write nor an outdated update counts as a write.
        let refused = f.commit(&s, None, 2, FieldChanges::default());
        let made_anew = f.load(&s).await.is_none() && f.edition(&s).await.is_none();
        made_anew || numbers(refused.await) == Some((2, 1))
    })
    .await;
    wait_until(&f, async || f.recent(&s, 9).await.is_none()).await;
    assert_eq!(
        f.commit(&s, created, 3, FieldChanges::default()).await,
        None
    );
}

/// Writes four times, each well within the time to live of the previous write, and checks after more than one time to
/// live whether all keys still exist. `None` if the test ran too slowly to decide.
async fn survives_while_written(f: &HotFixture, name: &str) -> Option<bool> {
    let (s, mut history) = (key(name), TestHistory::new());
    let (mut last, mut written) = (None, f.now());
    for n in 1..=4 {
        let late = f.now() - written >= TTL;
        written = f.now();
        let next = f.commit(&s, last, 1, FieldChanges::default()).await;
        f.advance(&s, &[&history.put(n, "record")]).await;
        // The write itself took time.
        if late || f.now() - written >= TTL {
            return None;
        }
        if next.is_none() {
            return Some(false);
        }
        last = next;
        f.advance_time(TTL * 4 / 10).await;
    }
    let exists = f.edition(&s).await.is_some() && f.recent(&s, 9).await == history.recent(9);
    (exists || f.now() - written < TTL).then_some(exists)
}

pub async fn writes_extend_the_time_to_live(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short_ttl_bounds()).await;
    for n in 0..30 {
        match survives_while_written(&f, &format!("s{n}")).await {
            Some(true) => return,
            Some(false) => panic!("a key expired early"),
            None => {}
        }
    }
    panic!("every attempt ran too slowly to decide");
}

pub async fn an_expired_session_can_be_created_again(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short_ttl_bounds()).await;
    let s = key("s");
    let puts = change(&[], &[(b"a", b"1")]);
    let created = f.commit(&s, None, 1, puts).await;
    f.send_history(&s, 3).await;
    f.forget_recent(&s, 1000).await;
    f.advance_time(TTL).await;
    wait_until(&f, async || f.edition(&s).await.is_none()).await;
    // The newest known seq expires as well.
    let filled = TestHistory::new();
    wait_until(&f, async || {
        f.fill(&s, filled.fill(9)).await;
        f.recent(&s, 9).await.is_some()
    })
    .await;
    assert!(f.hot.forget(&s, created).await.unwrap());
    assert_eq!(
        f.commit(&s, created, 1, FieldChanges::default()).await,
        None
    );
    let again = f.commit(&s, None, 2, FieldChanges::default()).await;
    assert_eq!(numbers(again), Some((2, 1)));
    assert_eq!(f.load(&s).await, Some((again.unwrap(), Vec::new())));
}
