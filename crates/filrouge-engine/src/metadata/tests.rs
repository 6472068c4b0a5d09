//! Addresses in metadata are replaced by hashes.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{
    Channel, FixedClock, ItemBody, RawJson, Role, SessionId, TenantId, TurnStatus,
};

use super::{Nulls, without_addresses};
use crate::caller::Caller;
use crate::{Engine, ImportedTurn, RecordedTurn, Settings};

fn hashed_with(nulls: Nulls, tenant: &str, metadata: &str) -> String {
    let keyring = Keyring::single([7; 32]);
    let metadata = RawJson::parse(metadata).unwrap();
    let tenant = TenantId::new(tenant).unwrap();
    without_addresses(metadata, nulls, &keyring, &tenant)
        .as_str()
        .to_owned()
}

fn hashed_in(tenant: &str, metadata: &str) -> String {
    hashed_with(Nulls::Values, tenant, metadata)
}

fn patched(metadata: &str) -> String {
    hashed_with(Nulls::Remove, "t", metadata)
}

fn hashed(metadata: &str) -> String {
    hashed_in("t", metadata)
}

/// The metadata that results from a single address.
fn hashed_address(address: &str) -> String {
    let text = hashed(&format!(r#"{{"ip":"{address}"}}"#));
    assert!(
        !text.contains(address) && text.starts_with(r#"{"ip_hash":""#),
        "{text}"
    );
    assert_eq!(text.len(), r#"{"ip_hash":""}"#.len() + 32, "{text}");
    text
}

#[test]
fn every_member_with_an_address_is_replaced_by_a_hash() {
    let expected = hashed_address("192.0.2.1");
    for name in [
        "ip",
        "ip_address",
        "client_ip",
        "remote_addr",
        "remote_ip",
        "x_forwarded_for",
        "x_real_ip",
        "IP",
        "Client-IP",
        "X-Forwarded-For",
        "x-real-ip",
        "Remote_Addr",
        "\\u0069p",
        "clientIp",
        "clientIP",
        "ipAddress",
        "remoteAddr",
        "remoteIp",
        "xForwardedFor",
        "xRealIP",
        "x-realIp",
    ] {
        let metadata = format!(r#"{{"{name}":"192.0.2.1"}}"#);
        assert_eq!(hashed(&metadata), expected, "{name}");
    }
    for name in [
        "ips",
        "zip",
        "ip_hash_v2",
        "recipient",
        "ip address",
        "ipé",
        "",
    ] {
        let metadata = format!(r#"{{"{name}":"192.0.2.1"}}"#);
        assert_eq!(hashed(&metadata), metadata, "{name}");
    }
}

#[test]
fn every_spelling_of_an_address_has_the_same_hash() {
    let expected = hashed_address("192.0.2.1");
    for text in [
        "::ffff:192.0.2.1",
        "::FFFF:c000:201",
        " 192.0.2.1 ",
        "192.0.2.1:5000",
        "192.0.2.1, 198.51.100.7",
        "[::ffff:192.0.2.1]:80",
    ] {
        assert_eq!(
            hashed(&format!(r#"{{"x_forwarded_for":"{text}"}}"#)),
            expected,
            "{text}"
        );
    }
    assert_eq!(
        hashed(r#"{"X-Forwarded-For":["192.0.2.1","198.51.100.7"]}"#),
        expected
    );
    let expected_v6 = hashed_address("2001:db8::1");
    for text in [
        "2001:0DB8:0:0::0001",
        "[2001:db8::1]",
        "[2001:db8::1]:443",
        "2001:db8::1%eth0",
    ] {
        assert_eq!(
            hashed(&format!(r#"{{"ip":"{text}"}}"#)),
            expected_v6,
            "{text}"
        );
    }
    assert_ne!(hashed_address("192.0.2.2"), expected);
}

#[test]
fn the_hash_of_an_address_differs_between_tenants() {
    let metadata = r#"{"ip":"192.0.2.1"}"#;
    assert_ne!(hashed_in("t", metadata), hashed_in("u", metadata));
}

#[test]
fn several_addresses_become_one_hash_unless_a_hash_is_given() {
    let client = hashed_address("192.0.2.1");
    assert_eq!(
        hashed(r#"{"remote_addr":"10.0.0.1","x_forwarded_for":"192.0.2.1, 10.0.0.2"}"#),
        client
    );
    assert_eq!(
        hashed(r#"{"ip":"10.0.0.1","ip":"192.0.2.1"}"#),
        client,
        "the last of duplicate names counts"
    );
    assert_eq!(
        hashed(r#"{"ip":"10.0.0.1","a":1.0,"ip_hash":"mine","\u0062":[]}"#),
        r#"{"a":1.0,"\u0062":[],"ip_hash":"mine"}"#
    );
    assert_eq!(hashed(r#"{"ip_hash":null,"ip":"192.0.2.1"}"#), client);
    assert_eq!(
        hashed(r#"{"ip_hash":"192.0.2.1"}"#),
        client,
        "an address is not a hash"
    );
    let unchanged = r#"{"ip_hash" : "mine", "a":1}"#;
    assert_eq!(hashed(unchanged), unchanged);
}

#[test]
fn values_that_are_not_addresses_are_hashed_as_text() {
    let unknown = hashed_address("unknown");
    assert_eq!(hashed(r#"{"x_real_ip":"unknown"}"#), unknown);
    assert_ne!(hashed_address("hidden"), unknown);
    let number = hashed(r#"{"ip":3232235777}"#);
    assert!(number.starts_with(r#"{"ip_hash":""#) && !number.contains("3232235777"));
    let object = hashed(r#"{"ip":{"v4":"192.0.2.1"}}"#);
    assert!(object.starts_with(r#"{"ip_hash":""#) && !object.contains("192"));
    for without_address in [
        r#"{"ip":null}"#,
        r#"{"ip":""}"#,
        r#"{"ip":[]}"#,
        r#"{"ip":[["192.0.2.1"]]}"#,
    ] {
        assert_eq!(hashed(without_address), "{}", "{without_address}");
    }
}

#[test]
fn nested_addresses_are_hashed_in_place() {
    let hash = hashed_address("192.0.2.1");
    let hash = &hash[1..hash.len() - 1];
    let nested = r#"{"a":1.0, "geo" : {"city":"\u00e9 \" {\"ip\":1}", "remoteAddr":"192.0.2.1","n":[1,  2]},"hops":[ {"ip":"192.0.2.1"},"ip",{"x":{"IP":["192.0.2.1"]}} ],"b":"ip" }"#;
    let expected = format!(
        r#"{{"a":1.0, "geo" : {{"city":"\u00e9 \" {{\"ip\":1}}","n":[1,  2],{hash}}},"hops":[ {{{hash}}},"ip",{{"x":{{{hash}}}}} ],"b":"ip" }}"#
    );
    assert_eq!(hashed(nested), expected);
    assert_eq!(patched(nested), expected);
    assert_eq!(hashed(&expected), expected);
    let unchanged =
        r#"{ "zip" : {"recipient": ["ip", {"tip":1e2}]}, "text":"\\", "\ud800":"\"ip\":" }"#;
    assert_eq!(hashed(unchanged), unchanged);
    let depth = filrouge_types::MAX_NESTING - 1;
    let deep = |inner: &str| format!("{}{inner}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert_eq!(
        hashed(&deep(r#"{"ip":"192.0.2.1"}"#)),
        deep(&format!("{{{hash}}}"))
    );
}

#[test]
fn null_removes_the_hash_of_an_address() {
    let hash = hashed_address("192.0.2.1");
    let hash = &hash[1..hash.len() - 1];
    for (patch, expected) in [
        (r#"{"ip":null}"#, r#"{"ip":null,"ip_hash":null}"#.to_owned()),
        (r#"{"ip_hash" : null}"#, r#"{"ip_hash" : null}"#.to_owned()),
        (
            r#"{"remoteAddr":null,"a":null,"ip":"192.0.2.1"}"#,
            format!(r#"{{"a":null,"remoteAddr":null,{hash}}}"#),
        ),
        (
            r#"{"ip":null,"ip_hash":"mine"}"#,
            r#"{"ip":null,"ip_hash":"mine"}"#.to_owned(),
        ),
        (
            r#"{"a":{"ip":null}}"#,
            r#"{"a":{"ip":null,"ip_hash":null}}"#.to_owned(),
        ),
        (r#"{"a":[{"ip":null}]}"#, r#"{"a":[{}]}"#.to_owned()),
    ] {
        assert_eq!(patched(patch), expected, "{patch}");
    }
}

#[tokio::test]
async fn an_imported_turn_contains_no_address() {
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    let keyring = Arc::new(Keyring::single([7; 32]));
    let ledger = Arc::new(MemoryLedger::new(
        keyring,
        Arc::new(OsEntropy),
        clock.clone(),
    ));
    let engine = Engine::new(ledger, Arc::new(OsEntropy), clock, Settings::default());
    let caller = Caller::local(TenantId::new("t").unwrap(), None);
    let session: SessionId = "s".parse().unwrap();
    let json = |text: &str| Some(RawJson::parse(text).unwrap());
    let parts = RawJson::from_checked(r#"[{"type":"text","text":"q"}]"#);
    let mut item = ItemBody::new(Role::User, Channel::Question, parts);
    item.metadata = json(r#"{"from":{"remoteAddr":"192.0.2.1"}}"#);
    let turn = ImportedTurn {
        request_id: "r".parse().unwrap(),
        items: vec![item],
        status: TurnStatus::Finalized,
        metadata: json(r#"{"ip":"192.0.2.1"}"#),
    };
    for outcome in [RecordedTurn::Added, RecordedTurn::Unchanged] {
        let recorded = engine.turns.record(&caller, &session, turn.clone()).await;
        assert_eq!(recorded.unwrap().value, outcome);
    }
    let hash = hashed_address("192.0.2.1");
    let (items, _) = engine.turns.items(&caller, &session, 0, 10).await.unwrap();
    let stored = items[0].body.metadata.as_ref().unwrap();
    assert_eq!(stored.as_str(), format!(r#"{{"from":{hash}}}"#));
    let turn_id = items[0].turn_id.unwrap();
    let turn = engine.turns.get(&caller, &session, turn_id).await;
    assert_eq!(turn.unwrap().metadata.as_str(), hash);
}
