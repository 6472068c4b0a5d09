//! Late, repeated or missing updates never restore old data.

use super::super::HotBounds;
use super::fixture::{HotFixture, key, large_bounds};
use super::history::TestHistory;

pub async fn a_gap_invalidates_the_copy(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    let before = history.clone();
    let lost = history.put(4, "four");
    f.advance(&s, &[&history.put(5, "five")]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    // Neither the late update, nor the following ones, nor an older fill repairs the copy.
    f.advance(&s, &[&lost]).await;
    f.fill(&s, before.fill(9)).await;
    f.advance(&s, &[&history.put(6, "six")]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    f.advance(&s, &[&history.put(7, "seven")]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

pub async fn older_updates_change_nothing(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    let mut steps = Vec::new();
    for n in 1..=5 {
        steps.push(history.put(n, "record"));
        steps.push(history.remove(&[n - 1]));
    }
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    for step in steps.iter().rev() {
        f.advance(&s, &[step, step]).await;
        assert_eq!(f.recent(&s, 9).await, history.recent(9));
    }
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    // An update that is delivered twice is applied once.
    let next = history.put(6, "six");
    f.advance(&s, &[&next, &next, &steps[9], &next]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

/// If the first update that arrives is not the start of the history, no older data is accepted after it.
pub async fn an_update_without_a_copy_creates_none(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    let first = history.put(1, "one");
    let before = history.clone();
    f.advance(&s, &[&history.remove(&[1])]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, before.fill(9)).await;
    f.advance(&s, &[&first]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

/// An update with the copy's seq but another link belongs to another history.
pub async fn an_update_of_another_history_invalidates_the_copy(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    let mut other = TestHistory::new();
    for n in 1..=3 {
        other.put(n, "of another history");
    }
    assert_eq!(history.as_of.seq, other.as_of.seq);
    assert_ne!(history.as_of.link, other.as_of.link);
    let foreign = other.put(4, "four");
    f.advance(&s, &[&foreign]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.advance(&s, &[&history.put(4, "four"), &history.put(5, "five")])
        .await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    // A fill with the same seq is accepted: it was read from the ledger, so its history is the right one.
    other.put(5, "five");
    f.fill(&s, other.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, other.recent(9));
}

pub async fn older_fills_and_updates_are_ignored(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    for n in 4..=8 {
        let before = history.clone();
        let step = if n % 2 == 0 {
            history.put(n, "record")
        } else {
            history.remove(&[n - 2])
        };
        f.advance(&s, &[&step]).await;
        f.fill(&s, before.fill(9)).await;
        assert_eq!(f.recent(&s, 9).await, history.recent(9));
    }
    // A fill is ahead of the updates; the updates that it includes are then older.
    let (put, removed) = (history.put(9, "nine"), history.remove(&[8, 9]));
    f.fill(&s, history.fill(9)).await;
    f.advance(&s, &[&put]).await;
    f.advance(&s, &[&put, &removed]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    f.advance(&s, &[&history.put(10, "ten")]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

pub async fn a_forgotten_copy_is_not_restored_by_older_data(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    let before = history.clone();
    let removed = history.remove(&[2]);
    f.forget_recent(&s, history.as_of.seq).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.advance(&s, &[&removed]).await;
    f.fill(&s, before.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    // An update that starts at this seq finds no copy to continue.
    let after = history.clone();
    f.advance(&s, &[&history.put(4, "four")]).await;
    f.fill(&s, after.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    // A late removal drops the copy, but keeps the newest known seq.
    f.forget_recent(&s, 1).await;
    f.fill(&s, after.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    // The removal arrives before any update: the seq is stored, and the first turn's update is too old.
    let (s, mut history) = (key("t"), TestHistory::new());
    let (first, at_first) = (history.put(1, "one"), history.clone());
    let removed = history.remove(&[1]);
    f.forget_recent(&s, history.as_of.seq).await;
    f.advance(&s, &[&first]).await;
    f.fill(&s, at_first.fill(9)).await;
    f.advance(&s, &[&removed]).await;
    assert_eq!(f.recent(&s, 9).await, None);
}

/// After a removal, no later or reordered update shows the removed turn.
pub async fn a_removed_turn_does_not_return(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let mut history = TestHistory::new();
    let mut steps: Vec<_> = (1..=4).map(|n| history.put(n, "record")).collect();
    let older = [TestHistory::new(), history.clone()];
    let removed = history.remove(&[2]);
    for first in 0..4 {
        let s = key(&format!("s{first}"));
        f.advance(&s, &steps.iter().take(first + 1).collect::<Vec<_>>())
            .await;
        f.advance(&s, &[&removed]).await;
        steps.reverse();
        for step in &steps {
            f.advance(&s, &[step]).await;
            for older in &older {
                f.fill(&s, older.fill(9)).await;
                let found = f.recent(&s, 9).await;
                assert!(found.is_none() || found == history.recent(9), "{found:?}");
                assert_eq!(found.is_some(), first == 3);
            }
        }
        steps.reverse();
    }
}
