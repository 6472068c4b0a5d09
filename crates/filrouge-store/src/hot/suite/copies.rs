//! Copies of recent turns that receive their updates in order.

use super::super::{HotBounds, Recent};
use super::fixture::{HotFixture, key, large_bounds};
use super::history::{TestHistory, turn};

pub async fn a_copy_starts_with_the_first_turn(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    assert_eq!(f.recent(&s, 20).await, None);
    let mut history = TestHistory::new();
    f.advance(&s, &[&history.put(1, "one")]).await;
    assert_eq!(f.recent(&s, 20).await, history.recent(20));
    // A first write without a visible turn creates a copy without turns.
    let (s, mut history) = (key("other"), TestHistory::new());
    f.advance(&s, &[&history.write_hidden_item()]).await;
    assert_eq!(f.recent(&s, 20).await, history.recent(20));
    f.advance(&s, &[&history.put(1, "one")]).await;
    assert_eq!(f.recent(&s, 20).await, history.recent(20));
}

pub async fn consecutive_updates_advance_the_copy(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    for n in 1..=30 {
        let put = history.put(n, &format!("turn {n}"));
        // The updates arrive one at a time, or two at once.
        if n % 3 == 0 {
            f.advance(&s, &[&put, &history.write_hidden_item()]).await;
        } else {
            f.advance(&s, &[&put]).await;
        }
        assert_eq!(f.recent(&s, 20).await, history.recent(20));
    }
    // The turns are closed in another order than they were started.
    for n in [35, 33, 34, 31, 32] {
        f.advance(&s, &[&history.put(n, &format!("turn {n}"))])
            .await;
        assert_eq!(f.recent(&s, 20).await, history.recent(20));
    }
}

pub async fn a_turn_is_replaced_by_its_ordinal(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 3).await;
    f.advance(&s, &[&history.write(2, &[2], Some((4, b"instead")))])
        .await;
    assert_eq!(f.ordinals(&s).await, Some((vec![1, 3, 4], true)));
    // The written turn replaces the one with its ordinal, even when the same update removes this ordinal.
    f.advance(&s, &[&history.put(3, "three again, and longer")])
        .await;
    f.advance(&s, &[&history.write(1, &[1], Some((1, b"one again")))])
        .await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    assert_eq!(history.newest(9)[0], turn(1, b"one again"));
}

pub async fn removed_turns_are_not_returned(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut history = f.send_history(&s, 6).await;
    // The ordinals name an existing turn, one turn twice, and a turn that never existed.
    f.advance(&s, &[&history.remove(&[2, 5, 2, 77])]).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![1, 3, 4, 6], true)));
    f.advance(&s, &[&history.remove(&[1, 3, 4, 6])]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    assert_eq!(f.ordinals(&s).await, Some((Vec::new(), true)));
    f.advance(&s, &[&history.put(7, "seven")]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

pub async fn the_newest_turns_are_returned_oldest_first(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let history = f.send_history(&s, 25).await;
    for limit in [0, 1, 2, 9, 10, 24, 25, 26, 500, usize::MAX] {
        assert_eq!(f.recent(&s, limit).await, history.recent(limit), "{limit}");
    }
    let Recent { turns, all, .. } = f.recent(&s, 12).await.unwrap();
    let ordinals: Vec<u64> = turns.iter().map(|turn| turn.ordinal).collect();
    assert_eq!((ordinals, all), ((14..=25).collect(), false));
}

pub async fn records_may_be_empty_or_any_bytes(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    let bytes: Vec<u8> = (0..=255).collect();
    for (n, record) in (1..).zip([b"".as_slice(), b"\0", b"\xff\r\n\0", b"", &bytes]) {
        f.advance(&s, &[&history.write(1, &[], Some((n, record)))])
            .await;
        assert_eq!(f.recent(&s, 9).await, history.recent(9));
    }
    let (s, filled) = (key("filled"), history.fill(9));
    f.fill(&s, filled).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    let removed = history.remove(&[1, 4]);
    f.advance(&s, &[&removed]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

pub async fn a_fill_replaces_an_older_copy(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, t) = (key("s"), key("t"));
    let mut history = f.send_history(&t, 10).await;
    // The fill contains only the newest four turns.
    f.fill(&s, history.fill(4)).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![7, 8, 9, 10], false)));
    assert_eq!(f.recent(&s, 4).await, history.recent(4));
    assert_eq!(f.recent(&s, 3).await, history.recent(3));
    // A fill with more turns of the same history, then one with all turns.
    f.fill(&s, history.fill(6)).await;
    assert_eq!(f.recent(&s, 6).await, history.recent(6));
    f.fill(&s, history.fill(10)).await;
    assert_eq!(f.recent(&s, 20).await, history.recent(20));
    // Updates advance the filled copy, and a newer fill replaces it.
    f.advance(&s, &[&history.put(11, "eleven"), &history.remove(&[8])])
        .await;
    assert_eq!(f.recent(&s, 20).await, history.recent(20));
    history.remove(&[11]);
    history.put(12, "twelve");
    f.fill(&s, history.fill(3)).await;
    assert_eq!(f.ordinals(&s).await, Some((vec![9, 10, 12], false)));
    // A fill of a session without turns.
    let (s, mut history) = (key("empty"), TestHistory::new());
    f.fill(&s, history.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
    f.advance(&s, &[&history.put(1, "one")]).await;
    assert_eq!(f.recent(&s, 9).await, history.recent(9));
}

/// The seqs include numbers that are equal as floating point, or sort differently as text.
pub async fn seqs_of_any_size_are_compared_exactly(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let (s, mut history) = (key("s"), TestHistory::new());
    let large = 1 << 53;
    let mut reported = Vec::new();
    for (items, ordinal) in [
        (9, 9),
        (1, 10),
        (large - 11, 100),
        (1, large - 1),
        (1, large),
        (1, large + 1),
        (1, large + 2),
        ((1 << 63) - large - 10, (1 << 63) - 2),
        (1, (1 << 63) - 1),
    ] {
        reported.push((
            history.clone(),
            history.write(items, &[], Some((ordinal, b"x"))),
        ));
        let (older, step) = reported.last().unwrap();
        f.advance(&s, &[step]).await;
        assert_eq!(f.recent(&s, 3).await, history.recent(3));
        // A fill that is older by a single write is rejected.
        f.fill(&s, older.fill(100)).await;
        f.advance(&s, &[step]).await;
        assert_eq!(f.recent(&s, 100).await, history.recent(100));
    }
    f.advance(&s, &[&history.remove(&[large + 1])]).await;
    assert_eq!(f.recent(&s, 100).await, history.recent(100));
    let last = history.clone();
    f.forget_recent(&s, last.as_of.seq + 1).await;
    f.fill(&s, last.fill(100)).await;
    assert_eq!(f.recent(&s, 100).await, None);
    history.write_hidden_item();
    f.fill(&s, history.fill(100)).await;
    assert_eq!(f.recent(&s, 100).await, history.recent(100));
    // After the highest possible seq, no fill is newer.
    f.forget_recent(&s, u64::MAX).await;
    history.write_hidden_item();
    f.fill(&s, history.fill(100)).await;
    assert_eq!(f.recent(&s, 100).await, None);
}

pub async fn one_batch_updates_several_sessions(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let mut histories: Vec<_> = (0..15)
        .map(|n| (key(&format!("s{n}")), TestHistory::new()))
        .collect();
    let mut steps = Vec::new();
    for round in 1..=20 {
        for (n, (key, history)) in (0..).zip(&mut histories) {
            let step = history.put(round, &format!("{n} {round}"));
            // The seventh misses one update; the others are unaffected.
            if (n, round) != (7, 10) {
                steps.push((*key, step));
            }
        }
    }
    f.hot.advance(steps).await.unwrap();
    for (n, (key, history)) in (0..).zip(&histories) {
        let whole = (n != 7).then(|| history.recent(50).unwrap());
        assert_eq!(f.recent(key, 50).await, whole);
    }
    f.hot.advance(Vec::new()).await.unwrap();
}
