//! Ephemeral sessions pass the part of the ledger's contract suite that concerns a single session.

use filrouge_store::contract::Fixture;

use crate::ephemeral::store::Store;

fn fixture() -> Fixture {
    Store::with_large_bounds().fixture()
}

filrouge_store::session_contract_tests!(fixture);
