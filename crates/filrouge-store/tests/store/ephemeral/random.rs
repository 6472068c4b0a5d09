//! Random writes have the effect that they have on any ledger, and a session that goes into the ledger is the same there.

use std::sync::Arc;

use filrouge_store::Keyring;
use filrouge_store::command::Write;
use filrouge_store::contract::SameEntropy;
use filrouge_store::contract::differential::{memory, same_in_one_session, session_readings};
use filrouge_store::contract::fixture::{cmd, operator};
use filrouge_store::hot::Keep;
use filrouge_types::ErrorCode;

use crate::ephemeral::store::Store;

/// Two processes by turns, and a third that has seen nothing before.
#[test]
fn processes_take_turns() {
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
        let taken = store.taken("s0", &Keep::default()).await;
        let (_, adopt) = match taken {
            Ok(taken) => taken.unwrap(),
            Err(erased) => return assert_eq!(erased.code, ErrorCode::SessionErased),
        };
        let brought = ledger.brought(&operator("t"), "s0").await;
        assert_eq!(
            (adopt.items.len(), &adopt.session),
            (brought.items.len(), &brought.session)
        );
        assert!(adopt.items == brought.items, "the chain is the one it was");
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
