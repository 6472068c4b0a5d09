//! Random writes have the same effect as on any ledger, and the ledger that adopts the session returns the same session.

use std::sync::Arc;

use filrouge_store::Keyring;
use filrouge_store::command::Write;
use filrouge_store::contract::SameEntropy;
use filrouge_store::contract::differential::{memory, same_in_one_session, session_readings};
use filrouge_store::contract::fixture::{cmd, operator};
use filrouge_store::hot::FieldRetention;
use filrouge_types::ErrorCode;

use crate::ephemeral::store::Store;

/// Two processes write in turn, and a third one reads the session that it has not seen before.
#[test]
fn alternating_processes_write_as_one() {
    let stores = std::sync::Mutex::new(None);
    let make = |keyring: Arc<Keyring>| {
        let mut store = Store::roomy();
        store.keyring = keyring;
        store.entropy = Arc::new(SameEntropy);
        let both = [store.fixture(), store.fixture()];
        *stores.lock().unwrap() = Some(store);
        both
    };
    same_in_one_session(60, make, async |ledger, both| {
        let store = stores.lock().unwrap().take().unwrap();
        let third = store.fixture();
        let seen = session_readings(&both[0]).await;
        assert_eq!(session_readings(&third).await, seen);
        let taken = store.extract("s0", &FieldRetention::default()).await;
        let (_, adopt) = match taken {
            Ok(taken) => taken.unwrap(),
            Err(erased) => return assert_eq!(erased.code, ErrorCode::SessionErased),
        };
        let brought = ledger.adoption_of(&operator("t"), "s0").await;
        assert_eq!(
            (adopt.items.len(), &adopt.session),
            (brought.items.len(), &brought.session)
        );
        assert!(adopt.items == brought.items, "the chain is unchanged");
        let there = memory(store.keyring.clone());
        let write = Write::Adopt(Arc::new(adopt));
        for _ in 0..2 {
            there
                .ledger
                .write(cmd(&operator("t"), write.clone()))
                .await
                .unwrap();
        }
        there.intact().await;
    });
}
