//! What comes late, twice or not at all never brings anything back.

use super::super::HotBounds;
use super::fixture::{HotFixture, key, wide};
use super::story::Story;

pub async fn a_gap(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let s = key("s");
    let mut story = f.told(&s, 3).await;
    let before = story.clone();
    let lost = story.put(4, "four");
    f.advance(&s, &[&story.put(5, "five")]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    // Neither the lost one, come late, nor what follows mends it; nor does an older fill.
    f.advance(&s, &[&lost]).await;
    f.fill(&s, before.fill(9)).await;
    f.advance(&s, &[&story.put(6, "six")]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, story.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    f.advance(&s, &[&story.put(7, "seven")]).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
}

pub async fn steps_behind_change_nothing(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let (s, mut story) = (key("s"), Story::new());
    let mut steps = Vec::new();
    for n in 1..=5 {
        steps.push(story.put(n, "record"));
        steps.push(story.remove(&[n - 1]));
    }
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    for step in steps.iter().rev() {
        f.advance(&s, &[step, step]).await;
        assert_eq!(f.recent(&s, 9).await, story.recent(9));
    }
    f.advance(&s, &steps.iter().collect::<Vec<_>>()).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    // Whatever follows the newest one twice is in it once.
    let next = story.put(6, "six");
    f.advance(&s, &[&next, &next, &steps[9], &next]).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
}

/// A write that is told where nothing is known, and that does not begin the history: nothing older is taken after it.
pub async fn no_copy_no_use(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let (s, mut story) = (key("s"), Story::new());
    let first = story.put(1, "one");
    let before = story.clone();
    f.advance(&s, &[&story.remove(&[1])]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, before.fill(9)).await;
    f.advance(&s, &[&first]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, story.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
}

/// Equal in seq, not in its link: not the history that the copy is of.
pub async fn another_history_of_one_length(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let s = key("s");
    let mut story = f.told(&s, 3).await;
    let mut other = Story::new();
    for n in 1..=3 {
        other.put(n, "of another history");
    }
    assert_eq!(story.as_of.seq, other.as_of.seq);
    assert_ne!(story.as_of.link, other.as_of.link);
    let foreign = other.put(4, "four");
    f.advance(&s, &[&foreign]).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.advance(&s, &[&story.put(4, "four"), &story.put(5, "five")])
        .await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, story.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    // A fill of one length is taken as it is: it was read from the ledger, and says which history it is.
    other.put(5, "five");
    f.fill(&s, other.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, other.recent(9));
}

pub async fn older_fills(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let s = key("s");
    let mut story = f.told(&s, 3).await;
    for n in 4..=8 {
        let before = story.clone();
        let step = if n % 2 == 0 {
            story.put(n, "record")
        } else {
            story.remove(&[n - 2])
        };
        f.advance(&s, &[&step]).await;
        f.fill(&s, before.fill(9)).await;
        assert_eq!(f.recent(&s, 9).await, story.recent(9));
    }
    // A fill that is ahead of the steps: those that it has taken in are behind it.
    let (put, removed) = (story.put(9, "nine"), story.remove(&[8, 9]));
    f.fill(&s, story.fill(9)).await;
    f.advance(&s, &[&put]).await;
    f.advance(&s, &[&put, &removed]).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    f.advance(&s, &[&story.put(10, "ten")]).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
}

pub async fn forgotten_copies(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let s = key("s");
    let mut story = f.told(&s, 3).await;
    let before = story.clone();
    let removed = story.remove(&[2]);
    f.forget_recent(&s, story.as_of.seq).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.advance(&s, &[&removed]).await;
    f.fill(&s, before.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    // What begins there finds no copy to begin from.
    let after = story.clone();
    f.advance(&s, &[&story.put(4, "four")]).await;
    f.fill(&s, after.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, story.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    // One that comes late forgets the copy, and no newer seq that was told.
    f.forget_recent(&s, 1).await;
    f.fill(&s, after.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, None);
    f.fill(&s, story.fill(9)).await;
    assert_eq!(f.recent(&s, 9).await, story.recent(9));
    // Where nothing was told yet: the mark is kept, and the first turn comes too late.
    let (s, mut story) = (key("t"), Story::new());
    let (first, at_first) = (story.put(1, "one"), story.clone());
    let removed = story.remove(&[1]);
    f.forget_recent(&s, story.as_of.seq).await;
    f.advance(&s, &[&first]).await;
    f.fill(&s, at_first.fill(9)).await;
    f.advance(&s, &[&removed]).await;
    assert_eq!(f.recent(&s, 9).await, None);
}

/// A removal is told; from then on the removed turn is shown by nothing, whatever else arrives and in whichever order.
pub async fn a_removal_stands(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let mut story = Story::new();
    let mut steps: Vec<_> = (1..=4).map(|n| story.put(n, "record")).collect();
    let older = [Story::new(), story.clone()];
    let removed = story.remove(&[2]);
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
                assert!(found.is_none() || found == story.recent(9), "{found:?}");
                assert_eq!(found.is_some(), first == 3);
            }
        }
        steps.reverse();
    }
}
