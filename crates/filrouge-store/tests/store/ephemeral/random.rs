//! Random writes have the same effect as on any ledger, and the ledger that adopts the session returns the same one.

use std::sync::Arc;

use filrouge_store::Keyring;
use filrouge_store::command::Write;
use filrouge_store::contract::SameEntropy;
use filrouge_store::contract::differential::{memory, same_in_one_session, session_readings};
use filrouge_store::contract::fixture::{cmd, operator};
use filrouge_store::hot::FieldRetention;
use filrouge_types::ErrorCode;

use crate::ephemeral::store::Store;

/// Two processes write in turn, and a third one reads the session for the first time.
#[test]
fn alternating_processes_write_as_one() {
    let stores = std::sync::Mutex::new(None);
    let two_processes = |keyring: Arc<Keyring>| {
        let mut store = Store::with_large_bounds();
        store.keyring = keyring;
        store.entropy = Arc::new(SameEntropy);
        let both = [store.fixture(), store.fixture()];
        *stores.lock().unwrap() = Some(store);
        both
    };
    same_in_one_session(60, two_processes, async |ledger, both| {
        let store = stores.lock().unwrap().take().unwrap();
        let third = store.fixture();
        let seen = session_readings(&both[0]).await;
        assert_eq!(session_readings(&third).await, seen);
        let extracted = store.extract("s0", &FieldRetention::default()).await;
        let (_, adopt) = match extracted {
            Ok(extracted) => extracted.unwrap(),
            Err(erased) => return assert_eq!(erased.code, ErrorCode::SessionErased),
        };
        let expected = ledger.adopt_command_for(&operator("t"), "s0").await;
        assert_eq!(
            (adopt.items.len(), &adopt.session),
            (expected.items.len(), &expected.session)
        );
        assert!(adopt.items == expected.items, "the chain is unchanged");
        let adopter = memory(store.keyring.clone());
        let write = Write::Adopt(Arc::new(adopt));
        for _ in 0..2 {
            adopter
                .ledger
                .write(cmd(&operator("t"), write.clone()))
                .await
                .unwrap();
        }
        adopter.assert_intact().await;
    });
}
