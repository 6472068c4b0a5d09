//! Derived keys, ids and MACs.

use super::*;

#[test]
fn turn_ids_depend_on_every_part_and_not_on_the_active_key() {
    let secrets = BTreeMap::from([(1, [1; 32]), (2, [2; 32])]);
    let ring = Keyring::new(secrets.clone(), 1).unwrap();
    let rotated = Keyring::new(secrets, 2).unwrap();
    let id = |ring: &Keyring, t: &str, s: &str, r: &str| {
        ring.turn_id(
            &TenantId::new(t).unwrap(),
            &SessionId::new(s).unwrap(),
            &RequestId::new(r).unwrap(),
        )
    };
    let a = id(&ring, "t", "s", "r");
    assert_eq!(a, id(&rotated, "t", "s", "r"));
    for (t, s, r) in [("u", "s", "r"), ("t", "z", "r"), ("t", "s", "q")] {
        assert_ne!(a, id(&ring, t, s, r));
    }
    assert_eq!(a.as_bytes()[..4], id(&ring, "t", "s", "q").as_bytes()[..4]);
}

#[test]
fn a_keyring_needs_its_active_key_and_its_debug_output_has_no_secret() {
    assert_eq!(
        Keyring::new(BTreeMap::new(), 1).unwrap_err(),
        KeyringError::Empty
    );
    let secrets = BTreeMap::from([(1, [0xab; 32])]);
    let refused = Keyring::new(secrets.clone(), 2).unwrap_err();
    assert_eq!(refused, KeyringError::ActiveKeyMissing(2));
    let ring = Keyring::new(secrets, 1).unwrap();
    assert!(ring.contains(1) && !ring.contains(2));
    assert_eq!(format!("{ring:?}"), "Keyring { ids: [1], active: 1 }");
}

#[test]
fn a_shifted_boundary_between_ids_gives_another_turn_id() {
    let ring = Keyring::single([1; 32]);
    let id = |t: &str, s: &str, r: &str| {
        let (t, s) = (TenantId::new(t).unwrap(), SessionId::new(s).unwrap());
        ring.turn_id(&t, &s, &RequestId::new(r).unwrap())
    };
    let all = [("ab", "c", "d"), ("a", "bc", "d"), ("a", "b", "cd")];
    let ids: std::collections::BTreeSet<_> = all.iter().map(|(t, s, r)| id(t, s, r)).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn a_request_fingerprint_depends_on_the_root_key_only() {
    let fingerprint = |ring: &Keyring| ring.request_fingerprint(&[7; 16]);
    let one = Keyring::single([1; 32]);
    assert_ne!(fingerprint(&one), [7; 16]);
    assert_ne!(fingerprint(&one), fingerprint(&Keyring::single([2; 32])));
    let rotated = Keyring::new(BTreeMap::from([(1, [1; 32]), (2, [2; 32])]), 2).unwrap();
    assert_eq!(
        fingerprint(&one),
        fingerprint(&rotated),
        "rotation keeps it"
    );
}

#[test]
fn an_address_hash_depends_on_the_tenant_and_the_root_key_only() {
    let hash_of = |ring: &Keyring, tenant: &str, address| {
        ring.address_hash(&TenantId::new(tenant).unwrap(), address)
    };
    let one = Keyring::single([1; 32]);
    let hash = hash_of(&one, "a", "192.0.2.1");
    assert_ne!(hash, hash_of(&one, "b", "192.0.2.1"));
    assert_ne!(hash, hash_of(&one, "a", "192.0.2.2"));
    assert_ne!(hash_of(&one, "ab", "c"), hash_of(&one, "a", "bc"));
    assert_ne!(hash, hash_of(&Keyring::single([2; 32]), "a", "192.0.2.1"));
    let rotated = Keyring::new(BTreeMap::from([(1, [1; 32]), (2, [2; 32])]), 2).unwrap();
    assert_eq!(
        hash,
        hash_of(&rotated, "a", "192.0.2.1"),
        "rotation keeps it"
    );
}

#[test]
fn a_row_is_valid_in_one_store_and_a_record_in_all() {
    let ring = Keyring::single([3; 32]);
    let four = Lanes::new(4).unwrap();
    let rings = [
        ring.for_store("a", Lanes::ONE),
        ring.for_store("b", Lanes::ONE),
        ring.for_store("a", four),
    ];
    let macs = |domain| rings.each_ref().map(|ring| ring.mac(1, domain, &[b"x"]));
    let of_rows = [Domain::Head, Domain::Turn, Domain::Commit, Domain::Note];
    for domain in of_rows.into_iter().chain([Domain::Agent]) {
        let [a, b, with_four_lanes] = macs(domain);
        assert!(a != b && a != with_four_lanes && b != with_four_lanes);
    }
    let [a, b, with_four_lanes] = macs(Domain::Record);
    assert!(a == b && a == with_four_lanes);
    assert_ne!(rings[0].digest_number(&[]), rings[1].digest_number(&[]));
    assert_eq!(
        rings[0]
            .for_store("b", Lanes::ONE)
            .mac(1, Domain::Head, &[]),
        rings[1].mac(1, Domain::Head, &[])
    );
}

#[test]
fn an_unknown_key_gives_no_mac() {
    let ring = Keyring::single([3; 32]);
    assert!(ring.mac(2, Domain::Head, &[b"x"]).is_none());
    assert_ne!(
        ring.mac(1, Domain::Head, &[b"x"]),
        ring.mac(1, Domain::Turn, &[b"x"])
    );
}
