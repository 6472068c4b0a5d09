//! Concurrent access.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::super::{Edition, HotBounds};
use super::fixture::{HotFixture, change, field, key, large_bounds, numbers, sorted};
use super::history::TestHistory;

/// Attempts fifty commits; returns the versions created, each with the field that it wrote.
async fn commits(f: &HotFixture, task: u32) -> Vec<(Edition, String)> {
    let s = key("s");
    let mut created = Vec::new();
    for n in 0..50 {
        let name = format!("{task} {n}");
        let puts = change(&[], &[(name.as_bytes(), b""), (b"last", name.as_bytes())]);
        let expected = f.edition(&s).await;
        if let Some(next) = f.commit(&s, expected, task.into(), puts).await {
            created.push((next, name));
        }
    }
    created
}

pub async fn every_version_is_created_once(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = Arc::new(make(large_bounds()).await);
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let f = f.clone();
        tasks.spawn(async move { commits(&f, task).await });
    }
    let mut created: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    created.sort_by_key(|(edition, _)| edition.version);
    // A commit fails only because another one succeeds.
    assert!(created.len() >= 50, "{}", created.len());
    let incarnation = created[0].0.incarnation;
    for (version, (found, _)) in (1..).zip(&created) {
        assert_eq!(numbers(Some(*found)), Some((incarnation, version)));
    }
    let (last, name) = created.last().unwrap();
    let mut fields: Vec<_> = created
        .iter()
        .map(|(_, n)| field(n.as_bytes(), b""))
        .collect();
    fields.push(field(b"last", name.as_bytes()));
    assert_eq!(f.load(&key("s")).await, Some((*last, sorted(fields))));
}

pub async fn one_of_many_creates_the_session(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = Arc::new(make(large_bounds()).await);
    for round in 0..5 {
        let s = key(&format!("s{round}"));
        let mut tasks = JoinSet::new();
        for n in 0..16 {
            let f = f.clone();
            tasks.spawn(async move {
                let puts = change(&[], &[(b"n", &[n])]);
                f.commit(&s, None, n.into(), puts)
                    .await
                    .map(|created| (created, n))
            });
        }
        let created: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        let [(created, n)] = created[..] else {
            panic!("{created:?}");
        };
        assert_eq!(numbers(Some(created)), Some((n.into(), 1)));
        assert_eq!(f.load(&s).await, Some((created, vec![field(b"n", &[n])])));
    }
}

/// No reader sees a partial commit.
pub async fn a_load_returns_a_single_version(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = Arc::new(make(large_bounds()).await);
    let s = key("s");
    let mut tasks = JoinSet::new();
    let writer = f.clone();
    tasks.spawn(async move {
        let mut last = None;
        for n in 1..=200_u64 {
            let bytes = n.to_be_bytes();
            let puts = change(
                &[b"odd", b"even"],
                &[
                    (b"a", &bytes),
                    (b"z", &bytes),
                    (if n % 2 == 0 { b"even" } else { b"odd" }, b""),
                ],
            );
            last = writer.commit(&s, last, 1, puts).await;
            assert_eq!(numbers(last), Some((1, n)));
        }
    });
    for _ in 0..4 {
        let f = f.clone();
        tasks.spawn(async move {
            let mut newest_version = 0;
            while newest_version < 200 {
                let Some((edition, fields)) = f.load(&s).await else {
                    continue;
                };
                let n = edition.version;
                assert!(n >= newest_version);
                newest_version = n;
                let name = if n.is_multiple_of(2) {
                    b"even".as_slice()
                } else {
                    b"odd"
                };
                let whole = [
                    field(b"a", &n.to_be_bytes()),
                    field(name, b""),
                    field(b"z", &n.to_be_bytes()),
                ];
                assert_eq!(fields, whole);
            }
        });
    }
    tasks.join_all().await;
}

/// Concurrent tasks deliver all updates and some fills in different orders. The resulting copy is that of the complete
/// history, or absent.
pub async fn concurrent_updates_end_with_the_newest_state_or_none(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    let f = Arc::new(make(large_bounds()).await);
    for round in 0..4 {
        let s = key(&format!("s{round}"));
        let mut history = TestHistory::new();
        let mut reported = Vec::new();
        for n in 1..=16 {
            let step = match n % 4 {
                0 => history.remove(&[n - 1]),
                _ => history.put(n, &format!("turn {n}")),
            };
            reported.push((step, history.clone()));
        }
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let (f, mut reported) = (f.clone(), reported.clone());
            tasks.spawn(async move {
                reported.rotate_left(n * 2);
                for (step, history) in &reported {
                    f.advance(&s, &[step]).await;
                    if n % 4 == 3 {
                        f.fill(&s, history.fill(20)).await;
                    }
                }
            });
        }
        tasks.join_all().await;
        let found = f.recent(&s, 20).await;
        assert!(found.is_none() || found == history.recent(20), "{found:?}");
        f.fill(&s, history.fill(20)).await;
        assert_eq!(f.recent(&s, 20).await, history.recent(20));
    }
}
