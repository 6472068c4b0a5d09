//! Fields are returned as written, for any bytes, under their own key.

use super::super::{Edition, Field, FieldChanges, HotBounds};
use super::fixture::{HotFixture, change, field, key, large_bounds, numbers, sorted};

/// Asserts equality without printing megabytes on failure.
#[track_caller]
fn assert_same_fields(
    found: Option<(Edition, Vec<Field>)>,
    edition: Option<Edition>,
    fields: &[Field],
) {
    let (found_edition, found) = found.unwrap();
    assert_eq!(Some(found_edition), edition);
    assert_eq!(found.len(), fields.len());
    for (found, field) in found.iter().zip(fields) {
        assert_eq!(found.name, field.name);
        assert!(found.value == field.value, "of {:?}", field.name);
    }
}

pub async fn any_bytes_are_stored(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let mut puts = Vec::new();
    for byte in 0..=255_u8 {
        puts.push(field(&[byte], &[byte]));
        puts.push(field(&[byte, 0, byte], &[0, byte, b'\r', b'\n', byte]));
    }
    // Names that a store may use internally.
    for name in [
        "seq",
        "version",
        "incarnation",
        "edition",
        "-1",
        "10",
        "nil",
    ] {
        puts.push(field(name.as_bytes(), b""));
    }
    for length in [2, 100, 255, 256, 299, 300] {
        puts.push(field(&vec![0xff; length], &vec![0; length]));
        puts.push(field(&vec![0; length], &vec![0xff; length]));
    }
    let puts = sorted(puts);
    let commit = FieldChanges {
        removes: Vec::new(),
        puts: puts.clone(),
    };
    let created = f.commit(&s, None, 1, commit).await;
    assert_same_fields(f.load(&s).await, created, &puts);
    let removes = puts.iter().map(|field| field.name.clone()).collect();
    let commit = FieldChanges {
        removes,
        puts: Vec::new(),
    };
    let next = f.commit(&s, created, 1, commit).await;
    assert_same_fields(f.load(&s).await, next, &[]);
}

pub async fn large_values_are_stored(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let value: Vec<u8> = (0..1_u32 << 20).map(|n| (n * 7 % 251) as u8).collect();
    let names = [b"a", b"b", b"c"];
    let fields: Vec<_> = names.iter().map(|name| field(*name, &value)).collect();
    let mut last = None;
    for put in &fields {
        let commit = change(&[], &[(&put.name, &put.value)]);
        last = f.commit(&s, last, 1, commit).await;
        assert!(last.is_some());
    }
    assert_eq!(numbers(last), Some((1, 3)));
    assert_same_fields(f.load(&s).await, last, &fields);
}

pub async fn many_fields_are_stored(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let fields: Vec<_> = (0..3000)
        .map(|n| {
            field(
                format!("{n:05}").as_bytes(),
                format!("value {n}").as_bytes(),
            )
        })
        .collect();
    let (first, second) = fields.split_at(2900);
    let mut last = None;
    for puts in [first, second] {
        let commit = FieldChanges {
            removes: Vec::new(),
            puts: puts.to_vec(),
        };
        last = f.commit(&s, last, 1, commit).await;
    }
    assert_eq!(numbers(last), Some((1, 2)));
    assert_same_fields(f.load(&s).await, last, &fields);
    let removes = first.iter().map(|field| field.name.clone()).collect();
    let commit = FieldChanges {
        removes,
        puts: Vec::new(),
    };
    last = f.commit(&s, last, 1, commit).await;
    assert_eq!(numbers(last), Some((1, 3)));
    assert_same_fields(f.load(&s).await, last, second);
}

/// A session without fields exists as well.
pub async fn a_session_without_fields_is_stored(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let s = key("s");
    let created = f.commit(&s, None, 5, FieldChanges::default()).await;
    assert_eq!(numbers(created), Some((5, 1)));
    assert_eq!(f.load(&s).await, Some((created.unwrap(), Vec::new())));
    assert_eq!(f.commit(&s, None, 6, FieldChanges::default()).await, None);
    let puts = change(&[], &[(b"a", b"1")]);
    let second = f.commit(&s, created, 5, puts).await;
    let third = f.commit(&s, second, 5, change(&[b"a"], &[])).await;
    assert_eq!(numbers(third), Some((5, 3)));
    assert_eq!(f.load(&s).await, Some((third.unwrap(), Vec::new())));
}

pub async fn keys_are_independent(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let keys: Vec<_> = (0..20).map(|n| key(&format!("s{n}"))).collect();
    let mut created = Vec::new();
    for (n, key) in (0_u8..).zip(&keys) {
        let puts = change(&[], &[(b"n", &[n])]);
        let edition = f.commit(key, None, n.into(), puts).await;
        assert_eq!(numbers(edition), Some((n.into(), 1)));
        created.extend(edition);
        f.send_history(key, n.into()).await;
    }
    // Removing a session keeps its copy, and vice versa.
    assert!(f.hot.forget(&keys[0], None).await.unwrap());
    f.forget_recent(&keys[1], 100).await;
    for (n, key) in (0_u8..).zip(&keys) {
        let found = f.load(key).await;
        let expected = (created[usize::from(n)], vec![field(b"n", &[n])]);
        assert_eq!(found, (n != 0).then_some(expected));
        let ordinals = f.ordinals(key).await;
        // The first key received no update.
        let reported = ((1..=u64::from(n)).collect(), true);
        assert_eq!(ordinals, (n > 1).then_some(reported));
    }
}
