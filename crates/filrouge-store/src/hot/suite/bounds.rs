//! Every write keeps a copy within its limits, and `all` is true only if the copy is complete.

use super::super::HotBounds;
use super::fixture::{HotFixture, key, large_bounds};
use super::history::TestHistory;

fn turns(turns: u64) -> HotBounds {
    HotBounds {
        turns,
        ..large_bounds()
    }
}

fn bytes(bytes: u64) -> HotBounds {
    HotBounds {
        bytes,
        ..large_bounds()
    }
}

pub async fn a_copy_has_a_turn_limit(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(turns(5)).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    for n in 1..=20 {
        f.advance(&s, &[&history.put(n, "record")]).await;
        let expected = (n.saturating_sub(4).max(1)..=n).collect();
        assert_eq!(f.ordinals(&s).await, Some((expected, n <= 5)));
        assert_eq!(f.recent(&s, 3).await, history.recent(3));
    }
    // The limit also applies within one batch; a turn that replaces one of the same ordinal adds none.
    let steps: Vec<_> = (16..=30).map(|n| history.put(n, "again")).collect();
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    assert_eq!(f.ordinals(&s).await, Some(((26..=30).collect(), false)));
    f.advance(&s, &[&history.put(28, "once more")]).await;
    assert_eq!(f.recent(&s, 5).await, history.recent(5));
    // Dropped turns do not return when others are removed.
    f.advance(&s, &[&history.remove(&[27, 30])]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![26, 28, 29], false)));
}

pub async fn a_copy_has_a_byte_limit(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(bytes(10_000)).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    let record = "x".repeat(1000);
    for n in 1..=25 {
        f.advance(&s, &[&history.put(n, &record)]).await;
        let expected = (n.saturating_sub(9).max(1)..=n).collect();
        assert_eq!(f.ordinals(&s).await, Some((expected, n <= 10)));
    }
    assert_eq!(f.recent(&s, 10).await, history.recent(10));
    // A turn that grows displaces others; one that shrinks or is removed frees space.
    f.advance(&s, &[&history.put(24, &"y".repeat(3500))]).await;
    assert_eq!(f.ordinals(&s).await, Some(((19..=25).collect(), false)));
    f.advance(&s, &[&history.put(24, "y"), &history.remove(&[25])])
        .await;
    let steps: Vec<_> = (26..=29).map(|n| history.put(n, &record)).collect();
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    let expected = vec![19, 20, 21, 22, 23, 24, 26, 27, 28, 29];
    assert_eq!(f.ordinals(&s).await, Some((expected, false)));
    assert_eq!(f.recent(&s, 10).await, history.recent(10));
}

pub async fn a_turn_larger_than_the_limit_empties_the_copy(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(bytes(1000)).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    f.advance(&s, &[&history.put(4, &"x".repeat(1001))]).await;
    assert_eq!(f.ordinals(&s).await, Some((Vec::new(), false)));
    assert_eq!(f.recent(&s, 9).await.unwrap().as_of, history.as_of);
    f.advance(&s, &[&history.put(5, &"x".repeat(1000))]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![5], false)));
    f.advance(&s, &[&history.put(6, "")]).await;
    assert_eq!(f.recent(&s, 2).await, history.recent(2));
}

pub async fn fills_are_bounded(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let bounds = HotBounds {
        bytes: 1000,
        ..turns(5)
    };
    let f = make(bounds).await;
    let mut history = TestHistory::new();
    for n in 1..=9 {
        history.put(n, "record");
    }
    let s = key("s");
    f.fill(&s, history.fill(5)).await;
    assert_eq!(f.recent(&s, 5).await, history.recent(5));
    history.put(10, "record");
    f.fill(&s, history.fill(20)).await;
    assert_eq!(f.ordinals(&s).await, Some(((6..=10).collect(), false)));
    history.put(11, &"x".repeat(990));
    f.fill(&s, history.fill(20)).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![10, 11], false)));
    assert_eq!(f.recent(&s, 2).await, history.recent(2));
    f.advance(&s, &[&history.put(12, "ten and one")]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![12], false)));
}

/// If older turns were dropped, a turn among them that is closed late is not stored: its neighbors are missing, so it
/// is not one of the newest.
pub async fn a_late_turn_fills_no_gap(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(turns(3)).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    for n in [1, 4, 5, 6, 7] {
        f.advance(&s, &[&history.put(n, "record")]).await;
    }
    f.advance(&s, &[&history.remove(&[6, 7])]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![5], false)));
    f.advance(&s, &[&history.put(3, "late")]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![5], false)));
    f.advance(&s, &[&history.put(6, "again")]).await;
    assert_eq!(f.recent(&s, 2).await, history.recent(2));
    // A partial fill has the same effect.
    f.fill(&s, history.fill(2)).await;
    f.advance(&s, &[&history.put(2, "later"), &history.remove(&[5])])
        .await;
    assert_eq!(f.ordinals(&s).await, Some((vec![6], false)));
    assert_eq!(f.recent(&s, 1).await, history.recent(1));
}
