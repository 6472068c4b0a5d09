//! Ephemeral sessions are changed only in the expected version.

use std::collections::HashSet;

use super::super::{Edition, HotBounds};
use super::fixture::{HotFixture, change, edition, field, key, large_bounds, numbers};

pub async fn sessions_are_created_and_changed(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    assert_eq!(f.edition(&s).await, None);
    assert_eq!(f.load(&s).await, None);
    let created = f.commit(&s, None, 7, change(&[], &[(b"a", b"1")])).await;
    assert_eq!(numbers(created), Some((7, 1)));
    assert_eq!(f.edition(&s).await, created);
    // The incarnation given for a new session is ignored for an existing one.
    let next = f
        .commit(&s, created, 99, change(&[], &[(b"b", b"2")]))
        .await;
    assert_eq!(numbers(next), Some((7, 2)));
    let fields = vec![field(b"a", b"1"), field(b"b", b"2")];
    assert_eq!(f.edition(&s).await, next);
    assert_eq!(f.load(&s).await, Some((next.unwrap(), fields.clone())));
    // An empty change also creates a version.
    let third = f.commit(&s, next, 7, change(&[], &[])).await;
    assert_eq!(numbers(third), Some((7, 3)));
    assert_eq!(f.load(&s).await, Some((third.unwrap(), fields)));
}

pub async fn a_commit_in_another_version_changes_nothing(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let (s, other) = (key("s"), change(&[b"a"], &[(b"b", b"x")]));
    let late = f.commit(&s, Some(edition(7, 1)), 7, other.clone()).await;
    assert_eq!((late, f.load(&s).await), (None, None));
    let puts = change(&[], &[(b"a", b"1")]);
    let first = f.commit(&s, None, 7, puts.clone()).await;
    let second = f.commit(&s, first, 7, puts).await;
    let nonce = second.unwrap().nonce;
    let edition_with = |incarnation, version| {
        Some(Edition {
            incarnation,
            version,
            nonce,
        })
    };
    for expected in [
        None,
        first,
        edition_with(7, 0),
        edition_with(7, 3),
        edition_with(6, 2),
        edition_with(8, 2),
        edition_with(u64::MAX, u64::MAX),
        Some(edition(7, 2)),
    ] {
        let refused = f.commit(&s, expected, 8, other.clone()).await;
        assert_eq!(refused, None, "{expected:?}");
        let found = f.load(&s).await.unwrap();
        assert_eq!(found, (second.unwrap(), vec![field(b"a", b"1")]));
    }
}

/// Each commit draws its own `nonce`, even with equal version numbers, and the nonce is compared.
pub async fn each_commit_draws_a_new_nonce(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let mut nonces = HashSet::new();
    for n in 0..20 {
        let s = key(&format!("s{}", n % 4));
        let puts = change(&[], &[(b"a", b"1")]);
        let first = f.commit(&s, None, 7, puts.clone()).await.unwrap();
        let second = f.commit(&s, Some(first), 7, puts.clone()).await.unwrap();
        assert!(nonces.insert(first.nonce) && nonces.insert(second.nonce));
        for nonce in [first.nonce, !second.nonce, second.nonce ^ 1, 0, u64::MAX] {
            let other = Some(Edition { nonce, ..second });
            assert_eq!(f.commit(&s, other, 7, puts.clone()).await, None);
            assert!(!f.hot.forget(&s, other).await.unwrap());
            assert_eq!(f.edition(&s).await, Some(second));
        }
        assert!(f.hot.forget(&s, Some(second)).await.unwrap());
    }
}

pub async fn incarnations_distinguish_sessions_of_one_name(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut last = None;
    for incarnation in [0, 1, 1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX] {
        let puts = change(&[], &[(b"a", b"1")]);
        let created = f.commit(&s, None, incarnation, puts.clone()).await;
        assert_eq!(numbers(created), Some((incarnation, 1)));
        assert_eq!(f.edition(&s).await, created);
        assert_eq!(f.load(&s).await.unwrap().0, created.unwrap());
        // A version of the previous incarnation does not match this one.
        if last.is_some() {
            assert_eq!(f.commit(&s, last, incarnation, puts.clone()).await, None);
            assert!(!f.hot.forget(&s, last).await.unwrap());
        }
        last = created;
        let next = f.commit(&s, created, incarnation, puts).await;
        assert_eq!(numbers(next), Some((incarnation, 2)));
        assert!(f.hot.forget(&s, next).await.unwrap());
    }
}

pub async fn a_session_is_forgotten_only_in_the_expected_version(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    // An absent session counts as removed.
    assert!(f.hot.forget(&s, None).await.unwrap());
    assert!(f.hot.forget(&s, Some(edition(7, 1))).await.unwrap());
    let puts = change(&[], &[(b"a", b"1")]);
    let first = f.commit(&s, None, 7, puts.clone()).await;
    let second = f.commit(&s, first, 7, puts.clone()).await;
    let nonce = second.unwrap().nonce;
    let others = [(7, 1), (7, 3), (8, 2)].map(|(incarnation, version)| Edition {
        incarnation,
        version,
        nonce,
    });
    for other in [first.unwrap(), edition(7, 2)].into_iter().chain(others) {
        assert!(!f.hot.forget(&s, Some(other)).await.unwrap());
        assert_eq!(f.edition(&s).await, second);
    }
    assert!(f.hot.forget(&s, second).await.unwrap());
    assert_eq!((f.edition(&s).await, f.load(&s).await), (None, None));
    assert_eq!(f.commit(&s, second, 7, puts.clone()).await, None);
    assert!(f.commit(&s, None, 9, puts).await.is_some());
    assert!(f.hot.forget(&s, None).await.unwrap());
    assert_eq!((f.edition(&s).await, f.load(&s).await), (None, None));
}

pub async fn fields_are_removed_before_others_are_written(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let puts = change(&[b"none"], &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]);
    let first = f.commit(&s, None, 7, puts).await;
    // A field that is both removed and written is written.
    let both = change(&[b"a", b"b", b"none", b"b"], &[(b"b", b"two"), (b"d", b"")]);
    let second = f.commit(&s, first, 7, both).await;
    let fields = vec![field(b"b", b"two"), field(b"c", b"3"), field(b"d", b"")];
    assert_eq!(f.load(&s).await, Some((second.unwrap(), fields)));
    // Of two values for one name the last one counts.
    let twice = change(&[b"c", b"d"], &[(b"b", b"x"), (b"b", b"y")]);
    let third = f.commit(&s, second, 7, twice).await;
    let fields = vec![field(b"b", b"y")];
    assert_eq!(f.load(&s).await, Some((third.unwrap(), fields)));
}
