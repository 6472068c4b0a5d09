//! Key rotation: keys are added and removed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::contract::fixture::{Fixture, anyone, code, sid};
use filrouge_store::record::MacCheck;
use filrouge_store::verify::Verdict;
use filrouge_store::{KeyId, Keyring};
use filrouge_types::ErrorCode;
use rusqlite::Connection;

use super::{fixture_at, options};

/// A keyring whose secrets are derived from the keys' ids.
fn ring(ids: &[KeyId], active: KeyId) -> Arc<Keyring> {
    let secrets: BTreeMap<KeyId, [u8; 32]> = ids.iter().map(|id| (*id, [*id as u8; 32])).collect();
    Arc::new(Keyring::new(secrets, active).unwrap())
}

/// The ids of the keys that authenticate all records.
fn key_ids(path: &Path) -> Vec<u32> {
    let conn = Connection::open(path).unwrap();
    let mut statement = conn.prepare("SELECT head FROM record ORDER BY id").unwrap();
    let heads = statement
        .query_map([], |row| row.get::<_, Vec<u8>>(0))
        .unwrap();
    heads
        .map(|h| u32::from_be_bytes(h.unwrap()[2..6].try_into().unwrap()))
        .collect()
}

#[test]
fn old_keys_verify_and_the_active_key_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.db");
    let who = anyone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let f = fixture_at(&path, ring(&[1], 1));
        f.complete_turn(&who, "old", "r", "a").await;
        let open = f.start(&who, "both", "r").await;
        f.ledger.close().await;

        let f = fixture_at(&path, ring(&[1, 2], 2));
        f.assert_intact().await;
        let again = f.start(&who, "both", "r").await;
        assert!(
            again.replayed && again.turn_id == open.turn_id,
            "turn ids remain valid after a rotation"
        );
        f.complete_turn(&who, "both", "r2", "a").await;
        f.complete_turn(&who, "new", "r", "a").await;
        f.assert_intact().await;
        f.ledger.close().await;
        assert_eq!(key_ids(&path), [1, 1, 2, 2]);

        let f = fixture_at(&path, ring(&[2], 2));
        assert_eq!(
            code(f.ledger.session(&who, &sid("old")).await),
            ErrorCode::KeyMissing
        );
        assert_eq!(
            code(f.ledger.items(&who, &sid("both"), 0, 9).await),
            ErrorCode::KeyMissing
        );
        assert_eq!(f.items(&who, "new", 9).await.len(), 2);
        let report = f.ledger.verify(None).await.unwrap();
        assert_eq!(report.verdict(), Verdict::CannotTell, "{report:?}");
        assert_eq!(f.ledger.health().integrity, None);
        // Without the first key, request ids would name other turns, and the digest could not be continued.
        let refused = f.ledger.put_note("n", 0, vec![1]).await;
        assert_eq!(code(refused), ErrorCode::KeyMissing);
        f.ledger.close().await;

        let unverified = Options {
            check: MacCheck::Unverified,
            ..options(&path, ring(&[9], 9))
        };
        let ledger = Arc::new(SqliteLedger::open(unverified).unwrap());
        let f = Fixture { ledger, ..f };
        for s in ["old", "both", "new"] {
            assert!(
                f.items(&who, s, 9).await.len() >= 2,
                "an unverified ledger reads without keys: it checks only the links"
            );
        }
    });
}
