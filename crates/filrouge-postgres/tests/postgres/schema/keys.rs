//! All servers of a store share one keyring; keys are added and removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_postgres::PostgresLedger;
use filrouge_store::contract::fixture::{Fixture, anyone, code, sid};
use filrouge_store::record::MacCheck;
use filrouge_store::verify::Verdict;
use filrouge_store::{KeyId, Keyring, Ledger};
use filrouge_testbed::Database;
use filrouge_types::{ErrorCode, FixedClock};

use super::{block_on, open, open_concurrently};
use crate::{START_TIME, options};

/// A keyring; each key is its id and the byte that fills its secret.
fn ring(keys: &[(KeyId, u8)], active: KeyId) -> Arc<Keyring> {
    let secrets: BTreeMap<KeyId, [u8; 32]> =
        keys.iter().map(|(id, byte)| (*id, [*byte; 32])).collect();
    Arc::new(Keyring::new(secrets, active).unwrap())
}

fn assert_keyring_refused(url: &str, keyring: Arc<Keyring>) {
    let refused = open(url, keyring).map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::KeyMissing, "{refused}");
    assert!(
        refused
            .hint
            .as_deref()
            .is_some_and(|h| h.contains("keyring")),
        "{refused:?}"
    );
}

#[test]
fn all_servers_need_the_same_keyring() {
    let database = Database::new();
    let url = database.url();
    drop(open(&url, ring(&[(1, 1)], 1)).unwrap());
    let before = database.sql("SELECT * FROM filrouge.store ORDER BY name");
    for keys in [&[(1, 9)][..], &[(2, 2)], &[(0, 1), (1, 1)], &[(0, 0)]] {
        assert_keyring_refused(&url, ring(keys, keys[0].0));
    }
    assert_eq!(
        database.sql("SELECT * FROM filrouge.store ORDER BY name"),
        before
    );
    // An auditor without the keys checks only the links.
    let mut unverified = options(&url, ring(&[(9, 9)], 9));
    unverified.check = MacCheck::Unverified;
    drop(PostgresLedger::open(unverified).unwrap());
    drop(open(&url, ring(&[(1, 1)], 1)).unwrap());
}

/// Servers with different new keyrings start together on an empty database, or on a schema that was created by hand.
#[test]
fn only_one_of_several_new_keyrings_is_accepted() {
    for by_hand in [false, true, false, true, false] {
        let database = Database::new();
        if by_hand {
            let schema = filrouge_postgres::schema(&options(&database.url(), ring(&[(9, 9)], 9)));
            for step in schema.unwrap().pending() {
                database.sql(step.sql);
            }
        }
        let keyrings: Vec<_> = (1..=4).map(|n| ring(&[(1, n)], 1)).collect();
        let opened = open_concurrently(&database.url(), keyrings);
        assert_eq!(opened.iter().filter(|o| o.is_ok()).count(), 1);
        for refused in opened.iter().filter_map(|o| o.as_ref().err()) {
            assert_eq!(refused.code, ErrorCode::KeyMissing, "{refused}");
        }
    }
}

/// Several servers are each rotated to a different second key.
#[test]
fn only_one_of_several_rotations_is_accepted() {
    for _ in 0..5 {
        let database = Database::new();
        drop(open(&database.url(), ring(&[(1, 1)], 1)).unwrap());
        let keyrings = (2..=4).map(|n| ring(&[(1, 1), (2, n)], 2)).collect();
        let opened = open_concurrently(&database.url(), keyrings);
        assert_eq!(opened.iter().filter(|o| o.is_ok()).count(), 1);
        for refused in opened.iter().filter_map(|o| o.as_ref().err()) {
            assert_eq!(refused.code, ErrorCode::KeyMissing, "{refused}");
        }
    }
}

#[test]
fn old_keys_verify_and_the_active_key_writes() {
    let database = Database::new();
    let url = database.url();
    let who = anyone();
    let key_ids = || {
        let heads = database.sql(
            "SELECT s.session_id || ' ' || encode(substr(r.head, 3, 4), 'hex')
             FROM filrouge.record r JOIN filrouge.session s ON s.pk = r.session_pk ORDER BY s.session_id, r.first_seq",
        );
        heads
            .into_iter()
            .map(|mut row| row.remove(0).unwrap())
            .collect::<Vec<_>>()
    };
    let fixture_with = |keyring: &Arc<Keyring>| Fixture {
        ledger: Arc::new(open(&url, keyring.clone()).unwrap()) as Arc<dyn Ledger>,
        clock: Arc::new(FixedClock::at(START_TIME)),
        keyring: keyring.clone(),
        keep: Box::new(()),
    };
    block_on(async {
        let f = fixture_with(&ring(&[(1, 1)], 1));
        f.complete_turn(&who, "old", "r", "a").await;
        let turn = f.start(&who, "both", "r").await;
        f.ledger.close().await;

        let f = fixture_with(&ring(&[(1, 1), (2, 2)], 2));
        f.assert_intact().await;
        let again = f.start(&who, "both", "r").await;
        assert!(
            again.replayed && again.turn_id == turn.turn_id,
            "turn ids remain valid after a rotation"
        );
        f.complete_turn(&who, "both", "r2", "a").await;
        f.complete_turn(&who, "new", "r", "a").await;
        f.assert_intact().await;
        f.ledger.close().await;
        assert_eq!(
            key_ids(),
            [
                "both 00000001",
                "both 00000002",
                "new 00000002",
                "old 00000001"
            ]
        );

        // A server with the keyring from before the rotation reads what it has the key for.
        let f = fixture_with(&ring(&[(1, 1)], 1));
        assert_eq!(
            code(f.ledger.items(&who, &sid("new"), 0, 9).await),
            ErrorCode::KeyMissing
        );
        assert_eq!(f.items(&who, "old", 9).await.len(), 2);
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::CannotTell, "{report:?}");
        assert_eq!(f.ledger.health().integrity, None);
        f.ledger.close().await;

        let mut unverified = options(&url, ring(&[(9, 9)], 9));
        unverified.check = MacCheck::Unverified;
        let f = Fixture {
            ledger: Arc::new(PostgresLedger::open(unverified).unwrap()),
            ..f
        };
        for s in ["old", "both", "new"] {
            assert!(f.items(&who, s, 9).await.len() >= 2);
        }
        f.ledger.close().await;
    });
}
