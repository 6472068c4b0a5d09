//! Tests of seals.

use super::*;
use crate::Keyring;

fn key(name: &str) -> IndexKey {
    Keyring::single([7; 32]).index_key(name.as_bytes())
}

fn shard(owner: &str) -> Shard {
    Shard {
        realm: b"realm".as_slice().into(),
        owner: owner.as_bytes().into(),
    }
}

fn entry() -> SessionEntry {
    SessionEntry {
        key: "key".into(),
        stamp: [1, 2],
        updated: 3,
        project: None,
    }
}

#[test]
fn a_seal_is_valid_for_its_row_its_members_and_its_index_only() {
    let (key, shard, entry) = (key("a store"), shard("owner"), entry());
    let row = SealedRow::Session(9, &shard, &entry);
    let mut members = Members::default();
    members.add(&key, &Member::Session(1, 2, "key", b"one"));
    let seal = key.seal(&row, members).unwrap();
    assert_eq!(key.open(&row, Some(&seal)), Some(members));
    for at in 0..seal.len() {
        let mut other = seal;
        other[at] ^= 1;
        assert_eq!(key.open(&row, Some(&other)), None, "{at}");
        assert_eq!(key.open(&row, Some(&seal[..at])), None, "{at}");
    }
    assert_eq!(self::key("another").open(&row, Some(&seal)), None);
    let mut entries = vec![entry.clone(); 4];
    entries[0].key = "other".into();
    entries[1].stamp = [1, 3];
    entries[2].updated = 4;
    entries[3].project = Some("".into());
    for entry in &entries {
        let other = SealedRow::Session(9, &shard, entry);
        assert_eq!(key.open(&other, Some(&seal)), None, "{entry:?}");
    }
    let others = [
        SealedRow::Session(8, &shard, &entry),
        SealedRow::Session(9, &self::shard("other"), &entry),
        SealedRow::Shard(9, &shard, &[]),
        SealedRow::Index(None),
    ];
    for other in &others {
        assert_eq!(key.open(other, Some(&seal)), None, "{other:?}");
    }
    assert_eq!(key.open(&row, None), None, "a session without a seal");
    assert_eq!(
        key.open(&SealedRow::Index(None), None),
        Some(Members::default())
    );
    assert_eq!(key.open(&SealedRow::Index(Some(b"")), None), None);
}

#[test]
fn members_are_a_set_in_any_order_and_the_stored_sum_is_masked() {
    let (key, row) = (key("a store"), SealedRow::Index(None));
    let of = |members: &[Member<'_>]| {
        let mut sum = Members::default();
        members.iter().for_each(|member| sum.add(&key, member));
        sum
    };
    let document = |no, key, created| Member::Document {
        session: 1,
        no,
        key,
        fields: [0, 1, created, 3],
        content: b"",
    };
    let all = [
        document(1, "a", 1),
        document(2, "b", 1),
        document(3, "c", 1),
    ];
    let mut without_second = of(&all);
    without_second.remove(&key, &all[1]);
    assert_eq!(without_second, of(&[all[2], all[0]]));
    for other in [
        document(4, "b", 1),
        document(2, "c", 1),
        document(2, "b", 2),
    ] {
        assert_ne!(of(&[all[0], other, all[2]]), of(&all), "{other:?}");
    }
    let [one, other] = [0, 1].map(|_| key.seal(&row, of(&all)).unwrap());
    assert_ne!(one[16..32], other[16..32]);
}

#[test]
fn a_body_is_valid_for_its_own_document_alone() {
    let key = key("a store");
    let document = |session, no, name, unit| Member::Document {
        session,
        no,
        key: name,
        fields: [unit, 1, 2, 3],
        content: b"",
    };
    let of = |owner, session, member| key.body_mac((&shard(owner), session), &member, b"body");
    let mac = of("a", "s", document(1, 2, "m", 0));
    assert_eq!(mac, of("a", "s", document(1, 2, "m", 0)));
    for other in [
        of("b", "s", document(1, 2, "m", 0)),
        of("a", "t", document(1, 2, "m", 0)),
        of("a", "s", document(2, 2, "m", 0)),
        of("a", "s", document(1, 3, "m", 0)),
        of("a", "s", document(1, 2, "n", 0)),
        of("a", "s", document(1, 2, "m", 1)),
    ] {
        assert_ne!(mac, other);
    }
}

#[test]
fn a_shard_is_a_member_with_its_numbers_and_its_name() {
    let (key, a, b) = (key("a store"), shard("a"), shard("b"));
    let of = |numbers, shard: &Shard| {
        let mut members = Members::default();
        members.add(&key, &Member::Shard(numbers, shard, b"seal"));
        members
    };
    assert_eq!(of([1, 2], &a), of([1, 2], &a.clone()));
    for other in [of([1, 3], &a), of([3, 2], &a), of([1, 2], &b)] {
        assert_ne!(of([1, 2], &a), other);
    }
}
