//! Notes are written by compare-and-set: one of many concurrent writers succeeds.

use filrouge_types::ErrorCode;
use tokio::task::JoinSet;

use super::fixture::{Fixture, code, operator, user};
use super::session_writes::put_note;
use crate::ledger::Note;
use crate::rows::NOTE_MAX;

pub async fn notes_are_compared_and_set(f: &Fixture) {
    assert_eq!(f.ledger.note("a").await.unwrap(), None);
    assert!(!f.ledger.put_note("a", 1, b"early".to_vec()).await.unwrap());
    assert_eq!(f.ledger.note("a").await.unwrap(), None);
    for version in 0..5_u64 {
        let value = vec![u8::try_from(version).unwrap(); 3];
        for wrong in [version + 1, version.wrapping_sub(1), u64::MAX] {
            let position = f.ledger.position();
            assert!(!f.ledger.put_note("a", wrong, b"x".to_vec()).await.unwrap());
            assert_eq!(f.ledger.position(), position);
        }
        assert!(
            f.ledger
                .put_note("a", version, value.clone())
                .await
                .unwrap()
        );
        let found = f.ledger.note("a").await.unwrap();
        assert_eq!(
            found,
            Some(Note {
                version: version + 1,
                value
            })
        );
    }
    // Names are compared exactly; a value may be empty.
    assert!(f.ledger.put_note("A", 0, Vec::new()).await.unwrap());
    assert_eq!(f.ledger.note("A").await.unwrap().unwrap().value, b"");
    assert_eq!(f.ledger.note("a").await.unwrap().unwrap().version, 5);
    assert_eq!(f.ledger.note("").await.unwrap(), None);
    f.assert_intact().await;
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!((report.notes, report.commits), (2, 6));
}

pub async fn one_of_many_writers_writes_each_version(f: &Fixture) {
    for version in 0..6 {
        let mut tasks = JoinSet::new();
        for n in 0..12_u8 {
            let ledger = f.ledger.clone();
            tasks.spawn(async move {
                ledger
                    .put_note("n", version, vec![n])
                    .await
                    .unwrap()
                    .then_some(n)
            });
        }
        let winners: Vec<u8> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        let found = f.ledger.note("n").await.unwrap();
        assert_eq!(
            found,
            Some(Note {
                version: version + 1,
                value: winners
            })
        );
    }
    f.assert_intact().await;
}

pub async fn concurrent_increments_are_all_counted(f: &Fixture) {
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let ledger = f.ledger.clone();
        tasks.spawn(async move {
            for _ in 0..20 {
                loop {
                    let (version, n) = match ledger.note("count").await.unwrap() {
                        Some(note) => (
                            note.version,
                            u64::from_be_bytes(note.value.try_into().unwrap()),
                        ),
                        None => (0, 0),
                    };
                    let next = (n + 1).to_be_bytes().to_vec();
                    if ledger.put_note("count", version, next).await.unwrap() {
                        break;
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    let note = f.ledger.note("count").await.unwrap().unwrap();
    assert_eq!(
        (note.version, note.value),
        (160, 160_u64.to_be_bytes().to_vec())
    );
    f.assert_intact().await;
}

pub async fn the_size_of_notes_is_limited(f: &Fixture) {
    let value: Vec<u8> = (0..NOTE_MAX).map(|n| (n * 7 % 251) as u8).collect();
    assert!(f.ledger.put_note("n", 0, value.clone()).await.unwrap());
    assert_eq!(f.ledger.note("n").await.unwrap().unwrap().value, value);
    for version in [0, 1, 9] {
        let more = f.ledger.put_note("n", version, vec![0; NOTE_MAX + 1]).await;
        assert_eq!(code(more), ErrorCode::LimitExceeded);
    }
    assert_eq!(f.ledger.note("n").await.unwrap().unwrap().version, 1);
    f.assert_intact().await;
}

pub async fn notes_are_independent_of_sessions(f: &Fixture) {
    for n in 0..5 {
        f.complete_turn(&user("ann"), &format!("s{n}"), "r", "a")
            .await;
        f.ledger.put_note("n", n, vec![9]).await.unwrap();
        f.erase(&user("ann"), &format!("s{n}")).await.unwrap();
    }
    f.write(&operator("u"), put_note("m", 0, b"x"))
        .await
        .unwrap();
    assert_eq!(f.ledger.note("n").await.unwrap().unwrap().version, 5);
    f.assert_intact().await;
}
