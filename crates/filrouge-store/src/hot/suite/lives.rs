//! Time to live: it acts, each write makes it longer, and nothing else does.

use std::time::Duration;

use super::super::{Change, HotBounds};
use super::fixture::{HotFixture, change, key, numbers, wide};
use super::story::Story;

const TTL: Duration = Duration::from_secs(1);

fn short() -> HotBounds {
    HotBounds { ttl: TTL, ..wide() }
}

/// Reads until `gone` says so: reads do not make anything live longer.
async fn wait_until(f: &HotFixture, gone: impl AsyncFn() -> bool) {
    let end = f.now() + Duration::from_secs(60);
    while !gone().await {
        assert!(f.now() < end, "it is there after a minute");
        f.pass(TTL / 10).await;
    }
}

pub async fn time_to_live_acts(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short()).await;
    let s = key("s");
    let before = f.now();
    let puts = change(&[], &[(b"a", b"1")]);
    let made = f.commit(&s, None, 1, puts).await;
    f.told(&s, 3).await;
    let there = f.load(&s).await.is_some() && f.recent(&s, 1).await.is_some();
    assert!(there || f.now() - before >= TTL);
    wait_until(&f, async || {
        // A write that is refused is none, and a step behind the copy, too.
        let refused = f.commit(&s, None, 2, Change::default());
        let made_anew = f.load(&s).await.is_none() && f.edition(&s).await.is_none();
        made_anew || numbers(refused.await) == Some((2, 1))
    })
    .await;
    wait_until(&f, async || f.recent(&s, 9).await.is_none()).await;
    assert_eq!(f.commit(&s, made, 3, Change::default()).await, None);
}

/// Writes four times, each well within the time of the one before it, and looks after more than one time: whether all was
/// there. `None`: it went too slowly to say.
async fn written_again(f: &HotFixture, name: &str) -> Option<bool> {
    let (s, mut story) = (key(name), Story::new());
    let (mut last, mut written) = (None, f.now());
    for n in 1..=4 {
        let late = f.now() - written >= TTL;
        written = f.now();
        let next = f.commit(&s, last, 1, Change::default()).await;
        f.advance(&s, &[&story.put(n, "record")]).await;
        // Which took its time, too.
        if late || f.now() - written >= TTL {
            return None;
        }
        if next.is_none() {
            return Some(false);
        }
        last = next;
        f.pass(TTL * 4 / 10).await;
    }
    let there = f.edition(&s).await.is_some() && f.recent(&s, 9).await == story.recent(9);
    (there || f.now() - written < TTL).then_some(there)
}

pub async fn writes_make_it_longer(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short()).await;
    for n in 0..30 {
        match written_again(&f, &format!("s{n}")).await {
            Some(true) => return,
            Some(false) => panic!("it went before its time"),
            None => {}
        }
    }
    panic!("all went too slowly to say");
}

pub async fn after_its_time_it_is_new(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(short()).await;
    let s = key("s");
    let puts = change(&[], &[(b"a", b"1")]);
    let made = f.commit(&s, None, 1, puts).await;
    f.told(&s, 3).await;
    f.forget_recent(&s, 1000).await;
    f.pass(TTL).await;
    wait_until(&f, async || f.edition(&s).await.is_none()).await;
    // The mark of what was known goes like everything else.
    let filled = Story::new();
    wait_until(&f, async || {
        f.fill(&s, filled.fill(9)).await;
        f.recent(&s, 9).await.is_some()
    })
    .await;
    assert!(f.hot.forget(&s, made).await.unwrap());
    assert_eq!(f.commit(&s, made, 1, Change::default()).await, None);
    let again = f.commit(&s, None, 2, Change::default()).await;
    assert_eq!(numbers(again), Some((2, 1)));
    assert_eq!(f.load(&s).await, Some((again.unwrap(), Vec::new())));
}
